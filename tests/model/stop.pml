/* SPDX-License-Identifier: MIT */
/*
 * Stopping CPUs in rseq mode (src/percpu/array_stop.c) beside the sections of
 * src/percpu/array.h. README.md says what this covers and what not.
 *
 * A section stays on the CPU where it began. It is aborted by another that
 * begins there (preemption, migration, a handler's operation), by the stopper's
 * membarrier, and by what does not show here (a signal, another process) before
 * any of its instructions. Outside sections threads have no state, and it does
 * not matter where they are.
 *
 * What a section stores waits in its CPU's buffer, one value an address, and
 * gets to memory later and in any order; the CPU itself sees it at once. Only
 * the membarrier drains the buffers. A switch of threads does so as well; without
 * that, more behaviours are tried than there are.
 *
 * One object is watched, IT; no operation looks at what an object is, so what
 * holds for IT holds for each. Of others there are as many as are wanted. A pop
 * destroys the slot it took from: nobody has a reason to read it again.
 */
#ifndef CPUS
#define CPUS 2 /* at most 2 */
#endif
#ifndef THREADS
#define THREADS 2 /* at most 3 */
#endif
#ifndef CAPACITY
#define CAPACITY 1 /* at most 2 */
#endif
#ifndef SLOTS_WAIT
#define SLOTS_WAIT 1 /* 0: only headers wait in the buffers */
#endif
#ifndef UNUSED
#define UNUSED 0 /* 1: nobody has used the last CPU's array yet */
#endif
/*
 * OPS: sections a thread begins, STOPS: stops. Without OPS both are endless.
 * MUTANT_*: see README.md.
 */

#define STOP 8 /* in the header: this bit, and the count */
#define count_of(h) ((h) & (STOP - 1))
#define NOTHING 255 /* no header in the buffer */

#define NO_OBJECT 0
#define IT 1
#define OTHER 2
#define JUNK 3 /* in the buffer for a slot: what a pop made of it */
#define is_object(o) ((o) == IT || (o) == OTHER)

byte header[CPUS], slot[CPUS * CAPACITY];
byte stored_header[CPUS], stored_slot[CPUS * CAPACITY];
bit used[CPUS]; /* capacity: CAPACITY or 0 */

/* What CPU c sees. */
#define own_header(c) (stored_header[c] == NOTHING -> header[c] : stored_header[c])
#define own_slot(s) (stored_slot[s] == NO_OBJECT -> slot[s] : stored_slot[s])

/* A thread: the next instruction of its section, and its registers. */
#define IDLE 0
#define POP_HEADER 1
#define POP_SLOT 2
#define POP_COMMIT 3
#define PUSH_HEADER 4
#define PUSH_SLOT 5
#define PUSH_COMMIT 6
byte next[THREADS], on[THREADS], h[THREADS], object[THREADS];

#define slot_of(me, i) (on[me] * CAPACITY + (i))

#ifdef MUTANT_PUSH_COMMITS_FIRST
#define in_section(i) (next[i] != IDLE && next[i] != PUSH_SLOT)
#else
#define in_section(i) (next[i] != IDLE)
#endif

/* For the assertions: where IT is, and the CPUs whose array the stopper believes is its alone. */
#define ARRAY 0
#define HELD 1	  /* by a thread that pushes it */
#define OUTSIDE 2 /* by anybody else */
byte place = OUTSIDE;
bit alone[CPUS];

hidden byte i, j, seen; /* these only within d_step, where going back does not restore them */
hidden byte n, who;	/* within atomic */

/* IT is outside, or in one place of one array. */
inline check_objects()
{
	d_step {
		seen = 0;
		for (i : 0 .. CPUS - 1) {
			j = 0;
			do
			:: j < count_of(own_header(i)) ->
				assert(j < CAPACITY);
				assert(is_object(own_slot(i * CAPACITY + j)));
				seen = seen + (own_slot(i * CAPACITY + j) == IT);
				j++
			:: else -> break
			od
		}
		assert(seen == (place == ARRAY))
	}
}

inline move(obj, from, to)
{
	assert(is_object(obj));
	if
	:: obj == IT ->
		assert(place == from);
		place = to
	:: else
	fi
}

inline leave(me)
{
	check_objects();
	next[me] = IDLE;
	on[me] = 0;
	h[me] = 0;
	object[me] = NO_OBJECT
}

inline abort(me)
{
	if
	:: next[me] >= PUSH_HEADER ->
#ifdef MUTANT_ABORTED_PUSH_SUCCEEDS
		move(object[me], HELD, ARRAY)
#else
		move(object[me], HELD, OUTSIDE)
#endif
#ifdef MUTANT_ABORTED_POP_SUCCEEDS
	:: next[me] == POP_COMMIT -> move(object[me], ARRAY, OUTSIDE)
#endif
	:: else
	fi;
	leave(me)
}

inline abort_all_on(c)
{
	for (who : 0 .. THREADS - 1) {
		if
		:: in_section(who) && on[who] == c -> abort(who)
		:: else
		fi
	}
}

inline store_header(me, value)
{
	assert(!alone[on[me]]);
	stored_header[on[me]] = value
}

inline store_slot(me)
{
	assert(!alone[on[me]]);
#if SLOTS_WAIT
	stored_slot[slot_of(me, count_of(h[me]))] = object[me]
#else
	slot[slot_of(me, count_of(h[me]))] = object[me]
#endif
}

inline destroy(s)
{
	slot[s] = NO_OBJECT;
	stored_slot[s] = (stored_slot[s] == NO_OBJECT -> NO_OBJECT : JUNK)
}

proctype worker(byte me)
{
#ifdef OPS
	byte ops = OPS;
#endif

	do
	:: atomic { in_section(me) -> abort(me) }
#if UNUSED
	:: atomic { next[me] == IDLE && !used[CPUS - 1] -> used[CPUS - 1] = 1 }
#endif

#ifdef OPS
	:: atomic { next[me] == IDLE && !ops -> break }
	:: atomic {
		next[me] == IDLE && ops -> ops--;
#else
	:: atomic {
		next[me] == IDLE ->
#endif
		select(n : 0 .. CPUS - 1);
		on[me] = n;
#ifndef MUTANT_SWITCH_RESTARTS_NOTHING
		abort_all_on(on[me]);
#endif
		if
		:: next[me] = POP_HEADER
		:: next[me] = PUSH_HEADER; object[me] = OTHER
		:: place == OUTSIDE ->
			place = HELD;
			next[me] = PUSH_HEADER;
			object[me] = IT
		fi
	   }

	:: atomic {
		next[me] == POP_HEADER ->
		h[me] = own_header(on[me]);
		if
#ifdef MUTANT_POP_IGNORES_STOP
		:: count_of(h[me]) > 0 -> next[me] = POP_SLOT
#else
		:: h[me] > 0 && h[me] < STOP -> next[me] = POP_SLOT
#endif
		:: else -> leave(me)
		fi
	   }
	:: atomic {
		next[me] == POP_SLOT ->
		object[me] = own_slot(slot_of(me, count_of(h[me]) - 1));
		next[me] = POP_COMMIT
	   }
	:: atomic {
		next[me] == POP_COMMIT ->
		store_header(me, h[me] - 1);
		destroy(slot_of(me, count_of(h[me]) - 1));
		move(object[me], ARRAY, OUTSIDE);
		leave(me)
	   }

	:: atomic {
		next[me] == PUSH_HEADER ->
		h[me] = own_header(on[me]);
		if
#ifdef MUTANT_PUSH_IGNORES_STOP
		:: count_of(h[me]) < (used[on[me]] -> CAPACITY : 0) -> next[me] = PUSH_SLOT
#else
		:: h[me] < (used[on[me]] -> CAPACITY : 0) -> next[me] = PUSH_SLOT
#endif
		:: else ->
			move(object[me], HELD, OUTSIDE);
			leave(me)
		fi
#ifdef MUTANT_PUSH_COMMITS_FIRST
		next[me] = (next[me] == IDLE -> IDLE : PUSH_COMMIT)
#endif
	   }
	:: atomic {
		next[me] == PUSH_SLOT ->
		store_slot(me);
#ifdef MUTANT_PUSH_COMMITS_FIRST
		move(object[me], HELD, ARRAY);
		leave(me)
#else
		next[me] = PUSH_COMMIT
#endif
	   }
	:: atomic {
		next[me] == PUSH_COMMIT ->
		store_header(me, h[me] + 1);
#ifdef MUTANT_PUSH_COMMITS_FIRST
		next[me] = PUSH_SLOT
#else
		move(object[me], HELD, ARRAY);
		leave(me)
#endif
	   }
	od
}

inline drain_header(c)
{
	assert(!alone[c]);
	header[c] = stored_header[c];
	stored_header[c] = NOTHING
}

inline drain_slot(s)
{
	assert(!alone[(s) / CAPACITY]);
	slot[s] = (stored_slot[s] == JUNK -> NO_OBJECT : stored_slot[s]);
	stored_slot[s] = NO_OBJECT
}

proctype store_buffer(byte c)
{
end:
	do
	:: atomic { stored_header[c] != NOTHING -> drain_header(c) }
#if SLOTS_WAIT
	:: atomic { stored_slot[c * CAPACITY] != NO_OBJECT -> drain_slot(c * CAPACITY) }
#endif
#if SLOTS_WAIT && CAPACITY > 1
	:: atomic { stored_slot[c * CAPACITY + 1] != NO_OBJECT -> drain_slot(c * CAPACITY + 1) }
#endif
	od
}

/* The membarrier, as CPU c gets it. */
inline interrupt(c)
{
#ifndef MUTANT_MEMBARRIER_RESTARTS_NOTHING
	abort_all_on(c);
#endif
#ifndef MUTANT_MEMBARRIER_ORDERS_NOTHING
	if
	:: stored_header[c] != NOTHING -> drain_header(c)
	:: else
	fi;
#if SLOTS_WAIT
	for (n : c * CAPACITY .. c * CAPACITY + CAPACITY - 1) {
		if
		:: stored_slot[n] != NO_OBJECT -> drain_slot(n)
		:: else
		fi
	}
#endif
#endif
	skip
}

/* The CPUs to be stopped one after the other, in any order. */
inline membarrier()
{
	atomic {
		select(cpu : first .. behind - 1);
#ifdef MUTANT_MEMBARRIER_ON_ANOTHER_CPU
		interrupt(CPUS - 1 - cpu);
#else
		interrupt(cpu);
#endif
		cpu = first + behind - 1 - cpu
	}
#if CPUS > 1
	atomic {
#ifndef MUTANT_MEMBARRIER_MISSES_A_CPU
		if
		:: behind - first > 1 -> interrupt(cpu)
		:: else
		fi;
#endif
		cpu = first
	}
#endif
}

/* Of loops over the CPUs to be stopped. */
inline next_cpu()
{
	value = 0;
	cpu++
}

proctype stopper()
{
	byte first, behind = CPUS; /* the CPUs to be stopped */
	byte cpu, value, max, out[CAPACITY];
	bit changed, sure[CPUS]; /* sure: seen with the bit, or it was set */
#ifdef MUTANT_OLD_CLEAR
	byte old[CPUS];
#endif
#ifdef OPS
	byte stops = STOPS;
#endif

stop:
#if CPUS > 1
	atomic {
		if
		:: first = 0; behind = CPUS
		:: first = 0; behind = 1
		:: first = 1; behind = CPUS
		fi;
		cpu = first
	}
#endif
#ifdef MUTANT_MEMBARRIER_FIRST
	membarrier();
#endif

set: /* set_stop_bits(): S1, and S3 of the round before */
	atomic {
		if
		:: cpu == behind -> cpu = first; goto set_all
		:: else
		fi;
		value = header[cpu];
		sure[cpu] = used[cpu] || value;
#ifdef MUTANT_OLD_CLEAR
		old[cpu] = value;
#endif
		if
		:: !sure[cpu] || (value & STOP) -> next_cpu(); goto set
		:: else
		fi
	}
	atomic {
#if defined(MUTANT_PLAIN_SET)
		header[cpu] = value | STOP;
#elif !defined(MUTANT_NO_SET)
		header[cpu] = header[cpu] | STOP;
#endif
		changed = 1;
		next_cpu();
		goto set
	}
set_all:
	atomic {
		if
		:: !changed -> goto exclusive
#if defined(MUTANT_NO_MEMBARRIER)
		:: changed -> changed = 0; goto set
#elif defined(MUTANT_MEMBARRIER_FIRST)
		:: changed -> changed = 0; goto exclusive
#else
		:: changed -> changed = 0
		:: changed -> /* the kernel refuses */
			changed = 0;
			for (n : 0 .. CPUS - 1) {
				sure[n] = 0
			}
			goto clear
#endif
		fi
	}
	membarrier(); /* S2 */
#ifdef MUTANT_RECHECK_ONLY_SETS
	atomic {
		for (n : 0 .. CPUS - 1) {
			header[n] = (sure[n] -> header[n] | STOP : header[n])
		}
	}
#endif
#if defined(MUTANT_NO_RECHECK) || defined(MUTANT_RECHECK_ONLY_SETS)
	goto exclusive;
#else
	goto set;
#endif

exclusive:
	atomic {
		for (n : 0 .. CPUS - 1) {
			assert(!sure[n] || (header[n] & STOP));
			alone[n] = sure[n];
			sure[n] = 0
		}
	}

take: /* pcpu_array_take() on each CPU */
	atomic {
		if
		:: cpu == behind -> cpu = first; goto clear
		:: else
		fi;
		value = header[cpu];
		if
#ifdef MUTANT_TAKE_IGNORES_STOP
		:: count_of(value) == 0 -> next_cpu(); goto take
#else
		:: !(value & STOP) -> next_cpu(); goto take
#endif
		:: else
		fi;
		select(max : 0 .. count_of(value))
	}
	atomic {
		for (n : 1 .. max) {
			out[n - 1] = slot[cpu * CAPACITY + count_of(value) - n]
		}
	}
	atomic {
		header[cpu] = value - max;
		do
		:: max > 0 ->
			max--;
			slot[cpu * CAPACITY + count_of(header[cpu]) + max] = NO_OBJECT;
			move(out[max], ARRAY, OUTSIDE);
			out[max] = NO_OBJECT
		:: else -> break
		od;
		check_objects();
		next_cpu();
		goto take
	}

clear: /* clear_stop_bits() */
	atomic {
		if
		:: cpu == behind ->
			first = 0;
			behind = CPUS;
			cpu = 0;
			goto cleared
		:: else
		fi;
		value = header[cpu];
		if
		:: !(value & STOP) -> next_cpu(); goto clear
		:: else
		fi
	}
	atomic {
#if defined(MUTANT_PLAIN_CLEAR)
		header[cpu] = value & ~STOP;
#elif defined(MUTANT_OLD_CLEAR)
		header[cpu] = old[cpu] & ~STOP;
#else
		header[cpu] = header[cpu] & ~STOP;
#endif
		alone[cpu] = 0;
		check_objects();
		next_cpu();
		goto clear
	}

cleared:
#ifdef OPS
	atomic {
		stops--;
		if
		:: stops > 0 -> goto stop
		:: else
		fi
	}
#else
	goto stop
#endif
}

init
{
	atomic {
		for (n : 0 .. CPUS - 1) {
			stored_header[n] = NOTHING;
			used[n] = !(UNUSED && n == CPUS - 1);
			run store_buffer(n)
		}
		for (n : 0 .. THREADS - 1) {
			run worker(n)
		}
		run stopper()
	}
}
