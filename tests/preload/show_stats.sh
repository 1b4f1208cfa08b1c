#!/usr/bin/env bash
# The library in an ordinary program: silent by default; with show:stats it
# prints to stderr, at exit, how per-CPU data is reached (which must be the mode that
# the process could have), the six gauges and the cache table, even if the program
# has closed its stderr; and the program's own output stays as it is.
#	show_stats.sh LIBRARY WITNESS
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need perl ls

use_memory() {
	perl -e '$value{$_} = "value $_" for 1 .. 20000; print join(" ", sort(keys %value)), "\n"'
}

use_memory >"$work/without.out"
with_library use_memory >"$work/with.out" 2>"$work/with.err"
expect_same "$work/without.out" "$work/with.out"
expect_same /dev/null "$work/with.err"
expect_used perl

UKMEM_CONF=show:stats with_library use_memory >"$work/stats.out" 2>"$work/stats.err"
expect_same "$work/without.out" "$work/stats.out"
cat "$work/stats.err"

mode=rseq
[[ $(cut -f 2 "$work/witness" | sort -u) != 0 ]] || mode=fallback
grep -Eq "^ +mode +$mode\$" "$work/stats.err" || fail "the mode is not $mode"
for gauge in allocated active resident retained mapped metadata; do
	grep -Eq "^ +$gauge +[0-9]+\$" "$work/stats.err" || fail "gauge $gauge is missing"
done
# What the program allocated went through the caches: 20000 strings at least.
awk '$1 ~ /^kmalloc-/ { allocs += $8 } END { exit !(allocs >= 20000) }' "$work/stats.err" ||
	fail "the cache table does not show the program's allocations"

# coreutils close stderr in an exit handler, which comes before the statistics.
UKMEM_CONF=show:stats with_library ls "$work" >/dev/null 2>"$work/ls.err"
grep -Eq '^ +allocated +[0-9]+$' "$work/ls.err" ||
	fail "no statistics from a program that closes stderr"

# A program that closes all files, and opens files of its own with those numbers, which are open until its end.
UKMEM_CONF=show:stats with_library perl -e \
	'use POSIX; POSIX::close($_) for 2 .. 200; POSIX::open("$ARGV[0].$_", O_CREAT | O_WRONLY) for 0 .. 150;' "$work/data"
[[ -f $work/data.150 ]] || fail "the program opened no files"
for file in "$work"/data.*; do
	expect_same /dev/null "$file"
done
expect_used perl ls
