#!/usr/bin/env bash
# On aarch64 without LSE an atomic operation is a loop, and a later load may pass its store: the
# functions that order everything need a full barrier behind it, and those of one order its loads and stores. With LSE
# they are one instruction.
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
# in_order ORDER LOAD STORE - each function of the order has this load and this store, and no barrier
in_order() {
	local n
	n=$(awk -v order="^$1_" -v wanted="\t$2\t" -v stored="\t$3\t" '
		/^[a-z_]+:$/ { of = $0 ~ order; loads = stores = 0 }
		!of { next }
		$0 ~ wanted { loads++ }
		$0 ~ stored { stores++ }
		/ld(a)?xr\t|st(l)?xr\t|dmb/ && $0 !~ wanted && $0 !~ stored { loads = -9 }
		/\.size/ && loads == 1 && stores == 1 { n++ }
		END { print n + 0 }' "$work/loops")
	if ((n != of_order)); then
		echo "FAIL: $n of $of_order functions named $1 are of this order"
		exit 1
	fi
}
of_order=$(grep -c '^	FUNCTION(order##' "$source/tests/compat/ordered.c")
in_order relaxed ldxr stxr
in_order acquire ldaxr stxr
in_order release ldxr stlxr
if grep -q 'stlxr\|dmb' "$work/lse"; then
	echo "FAIL: with LSE there are loops or barriers"
	exit 1
fi
echo "$wanted functions are ordered, and $of_order in three orders each"
