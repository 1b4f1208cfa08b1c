# shellcheck shell=bash
# Shared by the preload tests, each of which is called as
#	TEST LIBRARY WITNESS [ARGS...]
# and runs the same work without and with LIBRARY preloaded. WITNESS is
# witness.so, which records the malloc that every process really used; a test
# that passed with the library absent would prove nothing.
set -euo pipefail
export LC_ALL=C TZ=UTC

library=$(realpath "$1")
witness=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-preload.XXXXXX")
trap 'rm -rf "$work"' EXIT

skip() {
	echo "SKIP: $*"
	exit 77
}

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# need PROGRAM... - skip the test unless all are installed
need() {
	local program
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

# within COMMAND [ARGS...] - waits for 20 s for it to be true
within() {
	local i
	for ((i = 0; i < 200; i++)); do
		! "$@" || return 0
		sleep 0.1
	done
	return 1
}

# with_library COMMAND [ARGS...] - a command or shell function, preloaded
with_library() (
	export UKMEM_WITNESS="$work/witness"
	export LD_PRELOAD="$witness:$library"
	"$@"
)

# look_at PID - the tool looks at a process that runs on the library, from outside, and finds next to
# no leaked objects: of a heap of 5000 and more one in a thousand, of a smaller one five, with those
# that only leaked ones lead to. tests/live/programs_test.py looks at processes that work.
look_at() {
	[[ ${LD_PRELOAD-} && ${UKMEM_TOOL-} ]] || return 0
	local tool=(env -u LD_PRELOAD "$UKMEM_TOOL") said command how
	if ! said=$("${tool[@]}" gauges "$1" 2>&1); then
		[[ $said == *ptrace* ]] || fail "ukmem gauges: $said"
		echo "the tool may not look at processes here: $said"
		return 0
	fi
	for command in slabinfo "vmstat -m" zoneinfo buddyinfo "top --once" metrics "map -o $work/map.html"; do
		# shellcheck disable=SC2086 # words
		said=$("${tool[@]}" $command "$1" 2>&1) || fail "ukmem $command: $said"
	done
	for how in --min-age=1 --stop; do
		said=$("${tool[@]}" leaks --json $how "$1") || fail "ukmem leaks $how: $said"
		python3 - "$said" <<-'END' || fail "ukmem leaks $how: $said"
			import json, sys
			found = json.loads(sys.argv[1])
			objects, leaked = found["objects"], found["direct"] + found["indirect"]
			print(f"looked at {found['ukmem']['program']}: {objects} objects, {leaked} leaked")
			sys.exit(leaked > max(5, objects / 1000))
		END
	done
}

# expect_same WITHOUT WITH - two files with the same content
expect_same() {
	if ! cmp -s "$1" "$2"; then
		diff -u --text "$1" "$2" | head -40 >&2 || true
		fail "results differ with the library: $(basename "$1"), $(basename "$2")"
	fi
}

# expect_used PROGRAM... - each of these programs, found in PATH or not, ran, and
# every process that ran used the library's malloc; with rseq switched off, every
# one without rseq
expect_used() {
	[[ -s $work/witness ]] || fail "no process had the library in it"
	if awk -F '\t' -v lib="$library" '$1 != lib' "$work/witness" | grep . >&2; then
		fail "these processes used another malloc"
	fi
	if [[ ${GLIBC_TUNABLES-} == *pthread.rseq=0* ]] &&
		awk -F '\t' '$2 != 0' "$work/witness" | grep . >&2; then
		fail "these processes had rseq in spite of $GLIBC_TUNABLES"
	fi
	local program
	for program in "$@"; do
		program=$(basename "$(realpath "$(command -v "$program" || echo "$program")")")
		awk -F '\t' '{ sub(".*/", "", $3); print $3 }' "$work/witness" |
			grep -x -- "$program" >/dev/null || fail "$program did not run with the library"
	done
	echo "library in use in $(wc -l <"$work/witness") processes: $(cut -f 3 "$work/witness" |
		sed 's,.*/,,' | sort -u | head -20 | tr '\n' ' ')"
}
