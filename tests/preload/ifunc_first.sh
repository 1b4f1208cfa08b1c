#!/usr/bin/env bash
# The first request comes from a library that is preloaded in front of the drop-in, when the
# program is not relocated yet: copies of libc's variables that it has are 0.
#	ifunc_first.sh LIBRARY WITNESS LIBRARY_THAT_ALLOCATES
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
need ls

first=$(realpath "$3")
# GNU ls has a copy of libc's name of the program.
ls -d / >"$work/without.out"
UKMEM_CONF=verbose:1 LD_PRELOAD="$first:$library" ls -d / >"$work/with.out" 2>"$work/err" || fail "ls: exit code $?"
expect_same "$work/without.out" "$work/with.out"
grep -q "allocated in a resolver" "$work/err" || fail "the resolver did not run"
# libc has no environment by then.
grep -q "ukmem: version" "$work/err" || fail "UKMEM_CONF was not read"
