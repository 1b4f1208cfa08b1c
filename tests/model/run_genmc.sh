#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies the queue's C11 code (genmc/queue.c says how) with GenMC, in every execution of a
# memory model:
#	run_genmc.sh EXPECTED MODEL [-DNAME[=VALUE]...] [--unroll=ROUNDS]
# EXPECTED: "holds", or the name of a mutant below: one memory order is weakened in a copy of
# the library's files, and GenMC has to find an error. MODEL: rc11 or imm. ROUNDS: after which
# loops are cut, without a word; not at all by default.
# GENMC=command: another GenMC than the one on the path. Exits with 77 where there is none.
set -euo pipefail
export LC_ALL=C

expected=$1
model=$2
options=() definitions=()
for argument in "${@:3}"; do
	case $argument in
	--*) options+=("$argument") ;;
	*) definitions+=("$argument") ;;
	esac
done
here=$(dirname "$(realpath "$0")")
root=$here/../..
genmc=${GENMC:-genmc}

if ! command -v "$genmc" >/dev/null; then
	echo "SKIP: GenMC is not installed (v0.11, from github.com/MPI-SWS/genmc)"
	exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/src" "$work/include"
cp -r "$root/src/base" "$root/src/queue" "$work/src"
cp -r "$root/include/ukmem" "$work/include"

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# weaken FILE LINE: the order in the one line that contains LINE becomes relaxed.
weaken() {
	local file=$work/$1 line
	line=$(grep -nF "$2" "$file" | grep -E '__ATOMIC_(ACQUIRE|RELEASE)') ||
		fail "$1 has no order in a line with: $2"
	[[ $line != *$'\n'* ]] || fail "$1 has several lines with: $2"
	sed -i -E "${line%%:*}s/__ATOMIC_(ACQUIRE|RELEASE)/__ATOMIC_RELAXED/" "$file"
	echo "$1:$(sed -n "${line%%:*}p" "$file")"
}

header=include/ukmem/alf_queue.h
relaxed=src/queue/relaxed.h
# What moves eight at once, a memcpy that GenMC does not take: nothing here moves so many.
eight='for (; n >= 8;'
grep -qF "$eight" "$work/$header" || fail "$header has no line with: $eight"
sed -i "/$eight/,+1d" "$work/$header"
case $expected in
holds) ;;
room) weaken $header 'side->limit = alf_queue_index(other,' ;;
count_head) weaken $header 'uint32_t head = alf_queue_index(' ;;
count_tail) weaken $header 'uint32_t count = alf_queue_index(' ;;
advance) weaken $header '__atomic_store_n(&side->word, word +' ;;
q1) weaken $relaxed 'while (!word_exchange(&side->word, &done, next,' ;;
q2) weaken src/queue/side.h 'return alf_queue_index(other,' ;;
q3) weaken $relaxed 'done = side_word(side, __ATOMIC_ACQUIRE); /* Q3 */' ;;
q1_in_turn) weaken $relaxed '__atomic_store_n(&side->word, r->word,' ;;
q3_in_turn) weaken $relaxed 'while (!words_level(word_with(side_word(side,' ;;
stranger_takes) weaken src/queue/multi.c 'if (!word_exchange(&side->word, &word, mine,' ;;
stranger_gives) weaken src/queue/multi.c 'return word_exchange(&side->word, &word, word_with(mine, 0, n),' ;;
stranger_limit) weaken src/queue/multi.c 'side->limit = alf_queue_index(other_of(q, dir),' ;;
*) fail "what is $expected?" ;;
esac

echo "$expected: $model ${options[*]} ${definitions[*]}"

# search [-DNAME=VALUE]: into the file "report"; GenMC's status.
search() {
	"$genmc" "--$model" --disable-mm-detector --disable-estimation \
		--disable-instruction-caching "${options[@]}" \
		-- -I"$here/genmc" -I"$work/src" -I"$work/include" "${definitions[@]}" "$@" \
		"$here/genmc/queue.c" >"$work/report" 2>&1
}

# expect_error PATTERN
expect_error() {
	grep -qE "^$1" "$work/report" && return
	cat "$work/report"
	fail "this should have been found: $1"
}

if [[ $expected != holds ]]; then
	search || true
	grep -E '^(Error|Assertion|Number of|Total wall-clock)' "$work/report" || true
	expect_error 'Error: (Safety violation|Non-atomic race)'
	exit
fi
# A thread that is cut in a loop counts as complete; so not all may be.
search -DEND=1 || true
expect_error 'Assertion violation: !END'
if ! search; then
	cat "$work/report"
	fail "GenMC found an error, or did not get that far"
fi
grep -E '^(Number of|Total wall-clock)' "$work/report"
