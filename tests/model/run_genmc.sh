#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies C11 code of the library with GenMC, in every execution of a memory model:
#	run_genmc.sh PROGRAM EXPECTED MODEL [-DNAME[=VALUE]...] [--unroll=ROUNDS]
# PROGRAM: genmc/PROGRAM.c, which includes the library's file and says how. EXPECTED: "holds", or
# the name of a mutant below: in a copy of the library's files one memory order is weakened, or
# one line changed, and GenMC has to find an error. MODEL: rc11 or imm. ROUNDS: after which loops
# are cut, without a word; not at all by default.
# With "compiles" as MODEL a compiler alone reads the program, which has to be as the library is.
# GENMC=command: another GenMC than the one on the path. Exits with 77 where there is none.
set -euo pipefail
export LC_ALL=C

program=$1
expected=$2
model=$3
options=() definitions=()
for argument in "${@:4}"; do
	case $argument in
	--*) options+=("$argument") ;;
	*) definitions+=("$argument") ;;
	esac
done
here=$(dirname "$(realpath "$0")")
root=$here/../..
genmc=${GENMC:-genmc}

if [[ $model != compiles ]] && ! command -v "$genmc" >/dev/null; then
	echo "SKIP: GenMC is not installed (v0.11, from github.com/MPI-SWS/genmc)"
	exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ukmem-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/include"
cp -r "$root/src" "$work"
cp -r "$root/include/ukmem" "$work/include"

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

orders='__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)|memory_order_(acquire|release|acq_rel|seq_cst)'

# line_of FILE TEXT PATTERN [WHICH]: the number of the one line that contains TEXT, and matches
# PATTERN. WHICH: of several, written k/n, where n is how many there are.
line_of() {
	local lines which=${4:-1/1}
	lines=$(grep -nF -- "$2" "$work/$1" | grep -E "$3") || fail "$1 has no line with: $2"
	[[ $(wc -l <<<"$lines") == "${which#*/}" ]] || fail "$1 has other lines with: $2"
	sed -n "${which%/*}s/:.*//p" <<<"$lines"
}

# weaken FILE TEXT [WHICH]: the order in the line that contains TEXT becomes relaxed.
weaken() {
	local n
	n=$(line_of "$1" "$2" "$orders" "${3:-}")
	sed -i -E "${n}s/__ATOMIC_[A-Z_]*/__ATOMIC_RELAXED/; ${n}s/memory_order_[a-z_]*/memory_order_relaxed/" \
		"$work/$1"
	echo "$1:$(sed -n "${n}p" "$work/$1")"
}

# change FILE TEXT WITH [WHICH]: TEXT becomes WITH.
change() {
	local n
	n=$(line_of "$1" "$2" . "${4:-}")
	WHAT=$2 WITH=$3 perl -pi -e "s/\\Q\$ENV{WHAT}\\E/\$ENV{WITH}/ if \$. == $n" "$work/$1"
	echo "$1:$(sed -n "${n}p" "$work/$1")"
}

header=include/ukmem/alf_queue.h
relaxed=src/queue/relaxed.h
mempool=src/pool/mempool.c
gate=src/percpu/gate.c
hand=src/slab/slab_hand.c
follow=src/page/follow.c

# GenMC does not take these lines, or they make too many executions.
case $program in
queue)
	# Moves eight at once, by a memcpy: nothing here moves so many.
	eight='for (; n >= 8;'
	grep -qF "$eight" "$work/$header" || fail "$header has no line with: $eight"
	sed -i "/$eight/,+1d" "$work/$header"
	;;
hand) change src/slab/slab_hand.h 'SLAB_HANDS = 64' 'SLAB_HANDS = 1' ;;
kfence)
	change src/kfence/object.h 'KFENCE_STACK_DEPTH = 16' 'KFENCE_STACK_DEPTH = 1'
	# A structure of two pointers is returned and handed over in registers, as one access of
	# 16 bytes to memory that is read in two. A larger one is copied member by member.
	change src/kfence/kfence.c 'struct kfence_object *first, *behind;' \
		'struct kfence_object *first, *behind, *unused;'
	;;
sites)
	change src/profile/sites.h 'PROFILE_SITES = 8192, PROFILE_STACK_DEPTH = 48' \
		'PROFILE_SITES = 3, PROFILE_STACK_DEPTH = 1'
	change src/profile/sites.c 'PROBES = 64' 'PROBES = 2'
	;;
esac >/dev/null

case $program.$expected in
*.holds) ;;
queue.room) weaken $header 'alf_queue_index(other, __ATOMIC_ACQUIRE) + (slack ? side->slack : 0);' ;;
queue.count_head) weaken $header 'uint32_t head = alf_queue_index(' ;;
queue.count_tail) weaken $header 'uint32_t count = alf_queue_index(' ;;
queue.advance) weaken $header '__atomic_store_n(&side->word, word +' ;;
queue.q1) weaken $relaxed 'while (!word_exchange(&side->word, &done, next,' ;;
queue.q2) weaken src/queue/side.h 'return alf_queue_index(other,' ;;
queue.q3) weaken $relaxed 'done = side_word(side, __ATOMIC_ACQUIRE); /* Q3 */' ;;
queue.q1_in_turn) weaken $relaxed '__atomic_store_n(&side->word, r->word,' ;;
queue.q3_in_turn) weaken $relaxed 'while (!words_level(word_with(side_word(side,' ;;
queue.stranger_load)
	weaken src/queue/multi.c 'if (!word_exchange(&side->word, &word, mine,'
	weaken src/queue/side.h '__atomic_load_n(&side->limit,'
	;;
queue.stranger_store)
	weaken src/queue/multi.c 'if (!word_exchange(&side->word, &word, mine,'
	weaken src/queue/multi.c '__atomic_store_n(&side->limit, limit,'
	;;
queue.stranger_gives)
	weaken src/queue/multi.c 'return word_exchange(&side->word, &word, word_with(mine, 0, n),'
	;;
deferred.d1) weaken src/base/deferred.h '/* D1 */' ;;
deferred.d2) weaken src/base/deferred.h '/* D2 */' ;;
deferred.two_steps)
	change src/base/deferred.h 'atomic_exchange_explicit(&d->first, NULL,' \
		'load_and_store(&d->first, NULL,'
	;;
wait.w1) weaken src/base/wait.h '/* W1 */' ;;
wait.w2) weaken src/base/wait.h '/* W2 */' ;;
wait.load)
	change src/base/wait.h 'atomic_fetch_add_explicit(&w->waiters, 0, memory_order_acq_rel)' \
		'atomic_load_explicit(&w->waiters, memory_order_acquire)'
	;;
wait.late) change src/base/wait.h 'return seq;' 'return atomic_load_explicit(&w->seq, memory_order_relaxed);' ;;
wait.same) change src/base/wait.h 'atomic_fetch_add_explicit(&w->seq, 1, ' 'atomic_fetch_add_explicit(&w->seq, 0, ' ;;
sites.i5) weaken src/profile/sites.c '/* I5 */' ;;
sites.i6) weaken src/profile/sites.c 'memory_order_acquire) && /* I6 */' ;;
sites.i6_read) weaken src/profile/sites.c 'memory_order_acquire)) /* I6 */' ;;
sites.two_steps)
	change src/profile/sites.c 'if (atomic_compare_exchange_strong_explicit(' \
		'if (compare_and_store('
	;;
mempool.m1_take) weaken $mempool 'memory_order_acquire); /* M1 */' 1/3 ;;
mempool.m1_put) weaken $mempool 'memory_order_acquire) && /* M1 */' ;;
mempool.m1_full) change $mempool 'memory_order_acq_rel,  /* M2 */' 'memory_order_release,' ;;
mempool.m2) change $mempool 'memory_order_acq_rel,  /* M2 */' 'memory_order_acquire,' ;;
mempool.two_steps)
	change $mempool 'element = atomic_exchange_explicit(' 'element = load_and_store(' 1/2
	;;
mempool.takes) weaken $mempool '&r->takes, 1, memory_order_release' ;;
mempool.uncounted) change $mempool 'count_take(r);' '' 1/2 ;;
mempool.counted_first)
	change $mempool 'count_take(r);' '' 1/2
	change $mempool 'element = atomic_exchange_explicit(' \
		'count_take(r); element = atomic_exchange_explicit(' 1/2
	;;
gate.closings) weaken $gate 'if (!atomic_load_explicit(&closed, memory_order_acquire))' ;;
gate.forced) weaken $gate 'return atomic_load_explicit(&closed, memory_order_acquire) &&' ;;
gate.earlier) change $gate 'return atomic_load_explicit(&closed, memory_order_acquire) &&' 'return' ;;
gate.no_barrier) change $gate 'if (unlikely(!pcpu_use_rseq()))' 'if (0)' ;;
gate.looks_first)
	change $gate 'this_cpu_add(counts[ENTERED], 1);' \
		'bool was = pcpu_gate_is_closed(); this_cpu_add(counts[ENTERED], 1);' 1/3
	change $gate 'return likely(!pcpu_gate_is_closed());' 'return !was;'
	;;
gate.entered_first)
	change $gate 'uint64_t left = sum_of(LEFT), entered;' 'uint64_t left, entered;' 1/2
	change $gate 'entered = sum_of(ENTERED);' 'entered = sum_of(ENTERED); left = sum_of(LEFT);' 2/3
	;;
gate.no_order) # either would do without sections
	change $gate 'barrier();' '' 2/5
	weaken $gate '__atomic_load_n(count_of(which, i), __ATOMIC_ACQUIRE)'
	;;
gate.moving) change $gate '(pcpu_gate_depth || moving ? 1 : 0)' '(pcpu_gate_depth ? 1 : 0)' ;;
gate.child) change $gate 'if (moving)' 'if (0)' ;;
gate.waits)
	change $gate 'open = wait_open(until);' 'moving++; open = wait_open(until); moving--;'
	;;
kfence.e1) weaken src/kfence/kfence.c '/* E1 */' ;;
kfence.e2) weaken src/kfence/object.h '/* E2 */' ;;
kfence.claim) weaken src/kfence/kfence.c 'lock_self() | KFENCE_TAKEN, memory_order_acquire,' ;;
kfence.closes_late) change src/kfence/kfence.c 'set_state(o, KFENCE_FREED);' 'set_state(o, KFENCE_FREED); kfence_close(o);' ;;
hand.h1) weaken $hand '/* H1 */' ;;
hand.h2) weaken $hand '/* H2 */' ;;
hand.takes) weaken $hand 'memory_order_acquire,' ;;
hand.gives) weaken $hand 'atomic_store_explicit(&hand->owner, NULL, memory_order_release);' ;;
follow.release)
	change $follow 'atomic_exchange_explicit(&looking, false, memory_order_acq_rel);' \
		'atomic_store_explicit(&looking, false, memory_order_release);'
	;;
follow.late) change $follow 'while (!forced && (again || limits_braked()) && begin());' 'while (0);' ;;
queue.g_count) change src/queue/multi.c '((uint32_t)last & WORD_COUNT_MASK) | owner_of_kind(SIDE_RELAXED)' 'owner_of_kind(SIDE_RELAXED)' ;;
*) fail "what is $program.$expected?" ;;
esac

echo "$program $expected: $model ${options[*]} ${definitions[*]}"

# GenMC's clang is not asked for: another one, or gcc, finds the same.
if [[ $model == compiles ]]; then
	"${CC:-cc}" -fsyntax-only -Werror=implicit-function-declaration \
		-Werror=incompatible-pointer-types -Werror=int-conversion -I"$here/genmc" \
		-I"$work/src" -I"$work/include" "${definitions[@]}" "$here/genmc/$program.c"
	exit
fi

# search [-DNAME=VALUE]: into the file "report"; GenMC's status.
search() {
	"$genmc" "--$model" --disable-mm-detector --disable-estimation \
		--disable-instruction-caching "${options[@]}" \
		-- -I"$here/genmc" -I"$work/src" -I"$work/include" "${definitions[@]}" "$@" \
		"$here/genmc/$program.c" >"$work/report" 2>&1
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
