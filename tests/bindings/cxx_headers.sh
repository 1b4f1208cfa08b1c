#!/usr/bin/env bash
# Each header of C++ alone and twice, and all of them in a program without exceptions and
# run-time type information, which wants warnings of casts, too; and the headers of compat in front of the standard library's and
# behind them.
#	cxx_headers.sh SOURCE_DIR COMPILER
# shellcheck source=common.sh disable=SC2154 # it sets $work
. "$(dirname "$0")/common.sh"
source=$1 compiler=$2
options=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$source/include")
strict=(-Wold-style-cast -Wconversion -Wsign-conversion -Wshadow -Wcast-qual)

count=0
for header in "$source"/include/ukmem/*.hpp; do
	name=ukmem/$(basename "$header")
	printf '#include <%s>\n#include <%s>\n' "$name" "$name" >"$work/alone.cpp"
	"$compiler" -std=c++17 "${options[@]}" "${strict[@]}" "$work/alone.cpp"
	count=$((count + 1))
done
((count >= 6)) || fail "$count headers below $source/include/ukmem"

cat >"$work/bare.cpp" <<'CPP'
#include <ukmem/ukmem.hpp>
/* Everyday names are no macros. */
template <typename T, size_t N> constexpr size_t array_size(const T (&)[N]) { return N; }
struct pages {
	void alloc_page() {}
	void free_page(void *) {}
};
int main()
{
	ukmem::cache<int> cache("int");
	ukmem::alf_queue<int> queue(4);
	ukmem::per_cpu<int> counter;
	ukmem::allocator<int> allocator;
	ukmem::cache_resource resource("resource", 64);
	counter.inc();
	allocator.deallocate(allocator.allocate(1), 1);
	return !(ukmem::kmalloc_resource()->is_equal(resource) || queue.mp_enqueue(cache.create(1)));
}
CPP
"$compiler" -std=c++17 "${options[@]}" "${strict[@]}" -fno-exceptions -fno-rtti "$work/bare.cpp"

# Macros of the headers of C cast as C++ wants it. The same function, in C, has C's casts.
cat >"$work/casts.h" <<'CPP'
#include <ukmem/mempool.h>
#include <ukmem/percpu.h>
#include <ukmem/slab.h>
struct message {
	int length;
	char data[];
};
size_t casts(size_t n, unsigned int order);
size_t casts(size_t n, unsigned int order)
{
	struct message *one = kzalloc_obj(*one), *several = kmalloc_flex(*several, data, n, GFP_NOWAIT);
	long *numbers = kmalloc_objs(long, n), *counters = alloc_percpu(long);
	const long *others = alloc_percpu_gfp(const long, GFP_NOWAIT);
	struct kmem_cache *cache = KMEM_CACHE(message, 0);
	mempool_t *pools[] = { mempool_create_slab_pool(4, cache), mempool_create_kmalloc_pool(4, n),
			       mempool_create_page_pool(4, order) };
	if (ZERO_OR_NULL_PTR(one) || ZERO_OR_NULL_PTR(several) || numbers == ZERO_SIZE_PTR || counters == others)
		return 0;
	return struct_size_t(struct message, data, n) + struct_size(one, data, n) + (pools[0] == pools[1]);
}
CPP
printf '#include "%s/casts.h"\n' "$work" | tee "$work/casts.cpp" >"$work/casts.c"
for tags in -UUKMEM_ALLOC_TAGS -DUKMEM_ALLOC_TAGS; do
	"$compiler" -std=c++17 "$tags" "${options[@]}" -Wno-pedantic "${strict[@]}" -Wzero-as-null-pointer-constant "$work/casts.cpp"
	"$compiler" -x c -std=c11 "$tags" "${options[@]}" "$work/casts.c"
done

# Macros of <linux/...> change nothing in the standard library's headers and in the project's.
# Those left out need an option, or warn that they are gone in a later standard.
printf '#include <vector>\n' >"$work/vector.cpp"
library=$(dirname "$("$compiler" -M "$work/vector.cpp" | tr ' ' '\n' | grep '/vector$')")
for header in "$library"/*; do
	name=$(basename "$header")
	case $name in
	*.* | coroutine | ccomplex | ciso646 | cstdalign | cstdbool | ctgmath) ;;
	*) [[ -d $header ]] || printf '#include <%s>\n' "$name" ;;
	esac
done >"$work/standard.h"
printf '#if __has_include(<ext/mt_allocator.h>)\n#include <ext/mt_allocator.h>\n#endif\n' >>"$work/standard.h"
(cd "$source/include/ukmem/compat" && printf '#include <%s>\n' linux/*.h) >"$work/compat.h"
(($(grep -c . "$work/standard.h") >= 90 && $(grep -c . "$work/compat.h") >= 50)) ||
	fail "$(wc -l "$work"/*.h)"
cat >"$work/uses.h" <<'CPP'
static_assert(round_up(13, 8) == 16 && round_down(13u, 8) == 8, "constants");
#ifdef __force
#error "a parameter of libstdc++ is called so"
#endif
static_assert(roundup(13, 5) == 15 && rounddown(13, 5) == 10, "constants");
int uses(int *p, void **pointer, int x);
int uses(int *p, void **pointer, int x)
{
	ukmem::alf_queue<int> queue(8);
	ukmem::per_cpu<int *> variable;
	char name[8];
	void *old = xchg(pointer, NULL), *burst[2] = {p, nullptr};
	switch (x) {
	case 1:
		x++;
		[[fallthrough]];
	case 2:
		return queue.mp_enqueue(p) && variable.xchg(p) == p;
	case 3:
		return (int)alf_mp_enqueue(queue.get(), burst, 2);
	case 4:
		return strscpy(name, "array") == 5 && strscpy(name, "size", 8) == 4;
	case 5:
		unreachable();
	}
	return cmpxchg(p, 0, 'x') == 0 || try_cmpxchg(pointer, &old, p) || cmpxchg(pointer, NULL, old);
}
CPP
for order in "compat standard" "standard compat"; do
	printf '#include "%s/%s.h"\n' "$work" "${order% *}" "$work" "${order#* }" >"$work/order.cpp"
	printf '#include <ukmem/ukmem.hpp>\n#include "%s/uses.h"\n' "$work" >>"$work/order.cpp"
	for standard in 17 20 2b; do
		"$compiler" -std=gnu++"$standard" "${options[@]}" -Wno-pedantic -I"$source/include/ukmem/compat" "$work/order.cpp"
	done
done

# A standard library without <memory_resource>, as libc++ before 16: pmr.hpp is left out.
mkdir "$work/library"
ln -s "$library"/* "$work/library"
rm "$work/library/memory_resource"
without=(-nostdinc++ -isystem "$work/library")
while read -r dir; do
	[[ $dir != */c++/* || $(readlink -f "$dir") == "$(readlink -f "$library")" ]] || without+=(-isystem "$dir")
done < <("$compiler" -E -v -x c++ /dev/null 2>&1 | sed -n '/^#include </,/^End/s/^ //p')
cat >"$work/without.cpp" <<'CPP'
#include <ukmem/ukmem.hpp>
#ifdef UKMEM_PMR_HPP
#error "pmr.hpp is included"
#endif
ukmem::cache<int> cache("int");
ukmem::alf_queue<int> queue(4);
CPP
"$compiler" -std=c++17 "${options[@]}" "${without[@]}" "$work/without.cpp"

# Before C++17 the headers refuse in so many words.
if "$compiler" -std=c++14 "${options[@]}" "$work/alone.cpp" 2>"$work/said"; then
	fail "C++14 was accepted"
fi
grep -q "the headers of C++ need C++17" "$work/said" || fail "$(head -5 "$work/said")"
echo "$count headers"
