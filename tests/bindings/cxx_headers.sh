#!/usr/bin/env bash
# Each header of C++ alone and twice, and all of them in a program without exceptions and
# run-time type information.
#	cxx_headers.sh SOURCE_DIR COMPILER
# shellcheck source=common.sh disable=SC2154 # it sets $work
. "$(dirname "$0")/common.sh"
source=$1 compiler=$2
options=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$source/include")

count=0
for header in "$source"/include/ukmem/*.hpp; do
	name=ukmem/$(basename "$header")
	printf '#include <%s>\n#include <%s>\n' "$name" "$name" >"$work/alone.cpp"
	"$compiler" -std=c++17 "${options[@]}" "$work/alone.cpp"
	count=$((count + 1))
done
((count >= 6)) || fail "$count headers below $source/include/ukmem"

cat >"$work/bare.cpp" <<'CPP'
#include <ukmem/ukmem.hpp>
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
"$compiler" -std=c++17 "${options[@]}" -fno-exceptions -fno-rtti "$work/bare.cpp"

# Before C++17 the headers refuse in so many words.
if "$compiler" -std=c++14 "${options[@]}" "$work/alone.cpp" 2>"$work/said"; then
	fail "C++14 was accepted"
fi
grep -q "the headers of C++ need C++17" "$work/said" || fail "$(head -5 "$work/said")"
echo "$count headers"
