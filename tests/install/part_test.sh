#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A project has the sources as a part (add_subdirectory): it gets the library alone, by the names of the
# installed package, and keeps its own packages and tests. Of ukmem it builds what it links, and installs nothing,
# unless it asks for that. A full check builds and runs its programs, too.
#	part_test.sh SOURCE_DIR CMAKE GENERATOR CC CXX VERSION short|full
set -euo pipefail
source=$1 cmake=$2 generator=$3 cc=$4 cxx=$5 version=$6 check=$7
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-part.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail()
{
	echo "FAILED: $*"
	exit 1
}

# said COMMAND...: its output is shown if it fails.
said()
{
	"$@" >"$work/log" 2>&1 || {
		tail -n 40 "$work/log"
		fail "$*"
	}
}

build=$work/build
said "$cmake" -S "$source/tests/install/part" -B "$build" -G "$generator" -DUKMEM_SOURCE="$source" \
	-DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O0
for name in 'NAME "whole"' 'VERSION "7.7.7"'; do
	grep -q "CPACK_PACKAGE_$name" "$build/CPackConfig.cmake" || fail "the project's packages have no longer $name"
done
tests=$("${cmake%cmake}ctest" --test-dir "$build" -N)
grep -q '^Total Tests: 0$' <<<"$tests" || fail "ukmem's tests are in it: $tests"
commands=$(grep -F "$source/src/" "$build/compile_commands.json")
[[ $commands ]] || fail "it has no source of the library"
! grep '"command"' <<<"$commands" | grep -v -e '-std=gnu11' || fail "this is to be compiled as another C than C11"
[[ ! -d $build/ukmem/bench && ! -d $build/ukmem/tools ]] || fail "it has benchmarks or tools"
said "$cmake" --build "$build"
built=$(find "$build" -name 'libukmem*')
[[ ! $built ]] || fail "a build of all makes $built, which nothing links"
said "$cmake" --install "$build" --prefix "$work/prefix"
installed=$(cd "$work/prefix" && find . ! -type d)
[[ $installed == ./share/whole/user.c ]] || fail "it installs $installed"
if [[ $check == full ]]; then
	said "$cmake" --build "$build" --parallel 2 --target c_ukmem cxx_static c_compat
	for program in c_ukmem cxx_static c_compat; do
		[[ $("$build/$program") == "$version" ]] || fail "$program prints something else"
	done
	said "$cmake" -DUKMEM_INSTALL=ON "$build"
	said "$cmake" --build "$build" --parallel 2
	said "$cmake" --install "$build" --prefix "$work/prefix"
	for file in libukmem.so libukmem.a libukmem-malloc.so ukmemConfig.cmake; do
		[[ $(find "$work/prefix" -name "$file") ]] || fail "with UKMEM_INSTALL it does not install $file"
	done
fi
echo "part of another project: ok"
