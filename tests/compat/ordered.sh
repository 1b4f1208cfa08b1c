#!/usr/bin/env bash
# On aarch64 without LSE an atomic operation is a loop, and a later load may pass its store: the
# functions that order everything need a full barrier behind it. With LSE they are one instruction.
#	ordered.sh SOURCE_DIR
set -euo pipefail
export LC_ALL=C
source=$1
compiler=aarch64-linux-gnu-gcc
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-ordered.XXXXXX")
trap 'rm -rf "$work"' EXIT

if ! echo '#include <pthread.h>' | "$compiler" -fsyntax-only -x c - 2>/dev/null; then
	echo "SKIP: no $compiler with a C library"
	exit 77
fi

# compiled OPTION... - the assembly
compiled() {
	"$compiler" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$source/include/ukmem/compat" -I"$source/include" \
		"$@" -S -o - "$source/tests/compat/ordered.c"
}

wanted=$(grep -c '^ORDERED(' "$source/tests/compat/ordered.c")
compiled -mno-outline-atomics >"$work/loops"
compiled -march=armv8.1-a >"$work/lse"
found=$(awk '/^ordered_.*:$/ { store = 0 } /stlxr/ { store = 1 } /dmb\tish$/ { n += store; store = 0 } END { print n + 0 }' \
	"$work/loops")
if ((found != wanted || $(grep -c '^ordered_.*:$' "$work/loops") != wanted)); then
	echo "FAIL: $found of $wanted functions have a barrier behind the operation"
	exit 1
fi
if grep -q 'stlxr\|dmb' "$work/lse"; then
	echo "FAIL: with LSE there are loops or barriers"
	exit 1
fi
echo "$wanted functions are ordered"
