#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies a model exhaustively with spin:
#	run_spin.sh EXPECTED MODEL [-DNAME[=VALUE]...]
# EXPECTED:
#	holds  no assertion fails, nobody hangs, and no statement is left unreached
#	ends   the same but for unreached statements, and nothing goes on for ever
#	fails  an assertion fails or somebody hangs
#	loops  something goes on for ever
# Exits with 77 where spin is not installed.
set -euo pipefail
export LC_ALL=C

expected=$1
model=$(realpath "$2")
definitions=("${@:3}")

if ! command -v spin >/dev/null; then
	echo "SKIP: spin is not installed"
	exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
# Named without a path, as it appears in what spin prints.
cp "$model" .
model=$(basename "$model")

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# search CC_OPTION [PAN_OPTION...]: all states, into the file "report". What is
# wrong with the model is pan's line "pan:1: ...".
search() {
	local option=$1
	shift
	"${CC:-cc}" "$optimize" -w "$option" -DMEMLIM=900 -o pan pan.c
	./pan -m6000000 -w22 "$@" >report 2>&1 || true
	grep -E '^pan:1:|errors:|states, stored|total actual memory|elapsed time' report || true
	grep -q '^State-vector .* errors: [0-9]' report || { cat report; fail "the search broke off"; }
	if grep -q 'errors: 0' report &&
		grep -qE 'Search not completed|max search depth too small' report; then
		fail "the search is not complete"
	fi
}

# expect_no_error: after a search; shows how it came to an error.
expect_no_error() {
	grep -q 'errors: 0' report && return
	spin "${definitions[@]}" -t -p "$model" | tail -n 60
	fail "the last steps to the error are above"
}

# expect_error PATTERN
expect_error() {
	grep -qE "^pan:1: .*($1)" report || fail "this should have been found: $1"
}

echo "$expected: $model ${definitions[*]}"
spin -a "${definitions[@]}" "$model"
optimize=-O2
case $expected in
fails | loops) optimize=-O0 ;; # found so soon that compiling takes longer
esac
case $expected in
holds)
	search -DSAFETY
	expect_no_error
	if grep -E '^[[:space:]].*, state [0-9]+, ' report | grep -v '"-end-"$'; then
		fail "these statements are never reached"
	fi
	;;
ends)
	search -DSAFETY
	expect_no_error
	search -DNP -l
	expect_no_error
	;;
fails)
	search -DSAFETY
	expect_error 'assertion violated|invalid end state'
	;;
loops)
	search -DNP -l
	expect_error 'non-progress cycle'
	;;
*) fail "what is $expected?" ;;
esac
