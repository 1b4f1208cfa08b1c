#!/usr/bin/env bash
# Runs a test program without and with the library preloaded.
#	run_both.sh LIBRARY WITNESS PROGRAM [ARGS...]
# Passes if both runs exit 0 with the same output on stdout and stderr and the
# second one used the library. ADDRESS_SPACE_KB, if set, limits both runs.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
shift 2

limited() {
	if [[ -n ${ADDRESS_SPACE_KB-} ]]; then
		ulimit -v "$ADDRESS_SPACE_KB"
	fi
	exec "$@"
}

without_library() {
	status=0
	(limited "$@") >"$work/without.out" 2>"$work/without.err" || status=$?
}

# The program runs on libc first, for comparison. No code of ours runs there, so a failure is the
# machine's, and the program runs once more.
without_library "$@"
if [[ $status != 0 && $status != 77 ]]; then
	echo "again, after exit status $status without the library: $(cat "$work/without.err")"
	without_library "$@"
fi
[[ $status != 77 ]] || skip "$(cat "$work/without.out")"
[[ $status == 0 ]] ||
	fail "exit status $status without the library: $(cat "$work/without.err")"
with_library limited "$@" >"$work/with.out" 2>"$work/with.err" ||
	fail "exit status $? with the library: $(tail -50 "$work/with.err")"
cat "$work/with.out"
expect_same "$work/without.out" "$work/with.out"
expect_same "$work/without.err" "$work/with.err"
expect_used "$1"
