#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Completes command lines of the tool as bash would.
#
#   completion_test.sh TOOL DROP_IN
set -u
tool=$1
export UKMEM_MALLOC_LIB=$2
# shellcheck source=../../tools/completion/ukmem.bash
. "$(dirname "$0")/../../tools/completion/ukmem.bash"
failed=0

# expect WORD... -- COMPLETION...: the line's last word, which may be "", has these completions among others.
expect()
{
	local line=() word
	while [[ $1 != == ]]; do
		line+=("$1")
		shift
	done
	shift
	COMP_WORDS=("$tool" "${line[@]}")
	COMP_CWORD=${#line[@]}
	_ukmem
	for word in "$@"; do
		if [[ " ${COMPREPLY[*]} " != *" $word "* ]]; then
			echo "FAIL: ukmem ${line[*]}: no $word among: ${COMPREPLY[*]}"
			failed=1
		fi
	done
	(($#)) || ((${#COMPREPLY[@]} == 0)) || { echo "FAIL: ukmem ${line[*]}: ${COMPREPLY[*]}"; failed=1; }
}

expect s == slab slabinfo
expect top -- == --interval --once --sort
expect watch --gauge '' == resident allocated
expect run --conf dirty == dirty_max: dirty_decay_ms:
expect help lea == leaks
expect help profile d == dump
expect profile '' == start stop dump
expect profile dump -- == --format --output --growth --allocated
expect profile dump --format '' == pprof folded flame heap
expect top --by '' == caches cpus nodes
expect top -s '' == a o c n
expect map -o /et == /etc
expect run slee == sleep
expect run --conf a:b slee == sleep
expect config slee == sleep
expect slabinfo slee == sleep
# Names of files are quoted by readline, which has to be told.
asked=''
# shellcheck disable=SC2317 # it is called by its name
compopt()
{
	asked="$*"
}
for line in 'run /bin/tru' 'config /bin/tru' 'slabinfo /bin/tru' 'decode /bin/tru' 'decode --report /bin/tru' 'map -o /bin/tru'; do
	asked=''
	# shellcheck disable=SC2086 # words of a command line
	expect $line == /bin/true
	[[ $asked == '-o filenames' ]] || { echo "FAIL: ukmem $line: asked for '$asked'"; failed=1; }
done
unset -f compopt
expect leaks --limit '' ==
expect map 1 '' ==
expect nosuchcommand ==
"$tool" run sleep 60 &
child=$!
for _ in {1..100}; do
	_ukmem_pids "$tool" | grep -qx "$child" && break
	sleep 0.1
done
expect top '' == "$child"
expect attr "$child" kmalloc-6 == kmalloc-64 kmalloc-640
expect attr "$child" kmalloc-64 == kmalloc-64
expect attr "$child" kmalloc-64 '' == object_size cpu_partial min_partial
expect attr "$child" kmalloc-64 cpu_p == cpu_partial
kill "$child" 2>/dev/null
wait 2>/dev/null
# A process may choose names that a shell would not take as they are.
real=$tool hostile=$(mktemp -d)
# shellcheck disable=SC2016,SC2317 # it is called by its name, and nothing is to be expanded
fake()
{
	case "$*" in
	'slabinfo 1')
		printf 'version\nheading\n'
		for name in good ünï 'x$(touch${IFS}'"$hostile"'/run)' "x\`touch$hostile/run\`" 'x;y' 'x*' "x'y" '-x' 'x y'; do
			echo "$name 1 1 8 512 1 : tunables 0 0 0 : slabdata 1 1 0"
		done
		;;
	*) "$real" "$@" ;;
	esac
}
tool=fake
expect attr 1 '' == good
expect attr 1 x ==
expect attr 1 - == --json
[[ " ${COMPREPLY[*]} " != *' -x '* ]] || { echo "FAIL: -x is completed"; failed=1; }
expect slab 1 -c '' == good
expect slab 1 -c x ==
tool=$real
rmdir "$hostile" || failed=1
# Each command, and each of its options, as its help has them.
for command in $("$tool" --help | sed -n '/^Commands:/,$ s/^  \([a-z]*\) .*/\1/p') 'profile start' 'profile stop' 'profile dump'; do
	# shellcheck disable=SC2086 # two words
	set -- $command
	expect "$1" == "$1"
	mapfile -t options < <("$tool" "$@" --help | grep -oE '^  (-.,)?--[a-z-]+' | grep -oE -- '--[a-z-]+')
	expect "$@" -- == "${options[@]}"
done
((failed)) || echo "completions are right"
exit "$failed"
