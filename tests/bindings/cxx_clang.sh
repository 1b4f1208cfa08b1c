#!/usr/bin/env bash
# The test of the headers of C++, built by clang and run: as C++20, or as C++17 and 23, too. And a
# container that fills its block, where the compiler checks that no byte was not asked for.
#	cxx_clang.sh SOURCE_DIR libukmem.a [full]
# shellcheck source=common.sh disable=SC2154 # it sets $work
. "$(dirname "$0")/common.sh"
source=$1 library=$2
standards=(20)
[[ ${3-} != full ]] || standards=(17 20 2b)

compiler=$(first_of clang++ clang++-{20,19,18,17,16,15,14})
[[ $compiler ]] || skip "clang is not installed"
for standard in "${standards[@]}"; do
	"$compiler" -std=c++"$standard" -O1 -Wall -Wextra -Wpedantic -Werror -I"$source/include" \
		"$source/tests/bindings/cxx_test.cpp" -o "$work/test" "$library" -lgtest_main -lgtest -pthread
	"$work/test" --gtest_brief=1
done
"$compiler" -std=c++2b -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Wall -Wextra -Werror -I"$source/include" \
	"$source/tests/bindings/cxx_at_least.cpp" -o "$work/test" "$library" -pthread
"$work/test"

# gcc says nothing of casts between extern "C" and its end.
(cd "$source/include" && printf '#include <%s>\n' ukmem/*.h ukmem/*.hpp) >"$work/all.cpp"
for tags in -UUKMEM_ALLOC_TAGS -DUKMEM_ALLOC_TAGS; do
	"$compiler" -std=c++17 "$tags" -Wall -Wextra -Wpedantic -Wold-style-cast -Wconversion -Wsign-conversion -Wshadow \
		-Wcast-qual -Werror -I"$source/include" -fsyntax-only "$work/all.cpp"
done
