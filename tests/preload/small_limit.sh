#!/usr/bin/env bash
# Measures what a small limit leaves to the program:
#	small_limit.sh LIBRARY WITNESS PROGRAM ULIMIT_OPTION KIB
# PROGRAM says how many blocks it got, and how many bytes of each it may use. With the library these
# bytes, and the 74 that describe each page of 4 KiB, are at most 1880 KiB less than the blocks without,
# and 256 KiB for each CPU beyond two.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
shift 2
program=$1 option=$2 kib=$3

limited() {
	ulimit "$option" "$kib"
	exec "$program" "$@"
}

cpus=$(getconf _NPROCESSORS_CONF)
own=$((1880 * 1024 + (cpus > 2 ? cpus - 2 : 0) * 262144))
for size in 500 5000 200000; do
	line=$(limited "$size") || fail "blocks of $size: not without the library"
	without=${line% *}
	# libc has holes between blocks of several sizes.
	line=$(with_library limited "$size" others) || fail "blocks of $size: not with the library"
	with=${line% *} usable=${line#* }
	missing=$((without * size - with * usable / 4096 * (4096 + 74)))
	echo "ulimit $option $kib: $with blocks of $size, $without without the library, $missing bytes missing"
	# The last block may just not fit.
	((missing <= own + size)) || fail "too little is left"
done
expect_used "$program"
