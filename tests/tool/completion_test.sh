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
kill "$child" 2>/dev/null
wait 2>/dev/null
((failed)) || echo "completions are right"
exit "$failed"
