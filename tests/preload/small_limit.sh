#!/usr/bin/env bash
# What a small limit leaves to the program:
#	small_limit.sh LIBRARY WITNESS PROGRAM ULIMIT_OPTION KIB
# PROGRAM says how many blocks of 5000 bytes it got. With the library that may be less by 1.5 MB for
# the library itself and by 256 KiB for each CPU beyond two, and by 7 % for the size class (2.4),
# metadata (1.7), what a slab cannot use and what is kept for requests that may not enter the kernel.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
shift 2
program=$1 option=$2 kib=$3

limited() {
	ulimit "$option" "$kib"
	exec "$program"
}

without=$(limited) || fail "exit status $? without the library"
with=$(with_library limited) || fail "exit status $? with the library"
cpus=$(getconf _NPROCESSORS_CONF)
least=$((without * 93 / 100 - (1500000 + (cpus > 2 ? cpus - 2 : 0) * 262144) / 5000))
echo "ulimit $option $kib: $with blocks, $without without the library, at least $least"
((with >= least)) || fail "too little is left"
expect_used "$program"
