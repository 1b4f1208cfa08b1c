/* SPDX-License-Identifier: MIT */
/*
 * The arrays without restartable sequences (src/percpu/array_fallback.c): slots
 * that users only try to lock, a stopper that waits for all of them, and a signal
 * handler that uses the arrays while the thread it interrupted stands still.
 *
 * All that the slots protect is accessed by their holders, so that interleaving
 * steps in one order is enough, given that F1 acquires and F2 releases.
 * IT, OTHER and what a pop destroys: as in stop.pml.
 */
#ifndef UNITS
#define UNITS 2
#endif
#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef THREADS
#define THREADS 2
#endif
/* OPS: operations of each thread and the handler, STOPS: stops. Without: endless. */

#define NO_OBJECT 0
#define IT 1
#define OTHER 2

byte header[UNITS], slot[UNITS * CAPACITY];
bit locked[UNITS];

/* Threads 0 .. THREADS - 1, then the stopper, then a signal handler. */
#define STOPPER THREADS
#define HANDLER (THREADS + 1)
#define NOBODY 255
byte interrupted = NOBODY;

#define ARRAY 0
#define HELD 1	  /* by one that pushes it */
#define OUTSIDE 2 /* by anybody else */
byte place = OUTSIDE;
bit alone[UNITS];

#define may_run(me) (interrupted != me)

inline move(obj, from, to)
{
	assert(obj != NO_OBJECT);
	if
	:: obj == IT ->
		assert(place == from);
		place = to
	:: else
	fi
}

hidden byte i, j, seen; /* within d_step */

/* IT is outside, or in one place of one array. */
inline check_objects()
{
	d_step {
		seen = 0;
		for (i : 0 .. UNITS - 1) {
			assert(header[i] <= CAPACITY);
			j = 0;
			do
			:: j < header[i] ->
				assert(slot[i * CAPACITY + j] != NO_OBJECT);
				seen = seen + (slot[i * CAPACITY + j] == IT);
				j++
			:: else -> break
			od
		}
		assert(seen == (place == ARRAY))
	}
}

inline finish()
{
	if
	:: push && object != NO_OBJECT -> move(object, HELD, OUTSIDE)
	:: else
	fi;
	if
	:: me == HANDLER -> interrupted = NOBODY
	:: else
	fi;
	unit = 0;
	tries = 0;
	h = 0;
	object = NO_OBJECT;
	push = 0
}

proctype user(byte me)
{
	byte unit, tries, h, object;
	bit push;
#ifdef OPS
	byte ops = OPS;
#endif

again:
	atomic {
		may_run(me);
#ifdef OPS
		if
		:: ops == 0 -> goto done
		:: else -> ops--
		fi;
#endif
		if
		:: me != HANDLER
		:: me == HANDLER -> interrupted = STOPPER
		:: me == HANDLER -> interrupted = 0
		fi;
		if
		:: push = 0
		:: push = 1; object = OTHER
		:: place == OUTSIDE -> place = HELD; push = 1; object = IT
		fi;
		select(unit : 0 .. UNITS - 1);
		goto try /* not a step of its own */
	}
enter: /* slot_enter() */
	atomic {
		may_run(me);
try:		if
		:: !locked[unit]
#ifdef MUTANT_BUSY_IS_TAKEN
		:: locked[unit]
#elif !defined(MUTANT_WAIT)
		:: locked[unit] ->
			tries++;
			unit = (unit + 1) % UNITS;
			if
			:: tries < UNITS -> goto enter
			:: else ->
				finish();
				goto again
			fi
#endif
		fi;
#ifdef MUTANT_LOAD_THEN_LOCK
	}
	atomic {
		may_run(me);
#endif
		tries = 0;
		locked[unit] = 1 /* F1 */
	}

	atomic {
		may_run(me);
		h = header[unit];
#ifdef MUTANT_UNLOCK_EARLY
		locked[unit] = 0;
#endif
		if
		:: h == (push -> CAPACITY : 0) -> goto unlock
		:: else
		fi
	}
	atomic {
		may_run(me);
		assert(!alone[unit]);
		if
		:: push -> slot[unit * CAPACITY + h] = object
		:: !push -> object = slot[unit * CAPACITY + h - 1]
		fi
	}
	atomic {
		may_run(me);
		assert(!alone[unit]);
		if
		:: push ->
			header[unit] = h + 1;
			move(object, HELD, ARRAY)
		:: !push ->
			header[unit] = h - 1;
			slot[unit * CAPACITY + h - 1] = NO_OBJECT;
			move(object, ARRAY, OUTSIDE)
		fi;
		check_objects();
		object = NO_OBJECT
	}
unlock:
	atomic {
		may_run(me);
#ifndef MUTANT_UNLOCK_EARLY
		locked[unit] = 0; /* F2 */
#endif
		finish();
		goto again
	}
#ifdef OPS
done:
	check_objects()
#endif
}

/* Of loops over the units to be stopped. */
#define another_unit (may_run(STOPPER) && unit < behind)
#define all_units (may_run(STOPPER) && unit == behind)

proctype stopper()
{
	byte first, behind; /* the units to be stopped */
	byte unit, h, max, k, out[CAPACITY];
#ifdef OPS
	byte stops = STOPS;
#endif

stop:
	atomic {
		may_run(STOPPER);
		if
		:: first = 0; behind = UNITS
		:: first = 0; behind = 1
		:: first = UNITS - 1; behind = UNITS
		fi;
		unit = first
	}
	do /* pcpu_slot_lock() */
#ifdef MUTANT_STOP_PASSES_BUSY
	:: atomic { another_unit -> locked[unit] = 1; alone[unit] = 1; unit++ }
#elif defined(MUTANT_STOP_HOLDS_NOTHING)
	:: atomic { another_unit && !locked[unit] -> alone[unit] = 1; unit++ }
#else
	:: atomic { another_unit && !locked[unit] -> locked[unit] = 1; alone[unit] = 1; unit++ }
#endif
	:: atomic { all_units -> unit = first; break }
	od;

	do /* pcpu_array_take() */
	:: atomic {
		another_unit ->
		h = header[unit];
		select(max : 0 .. h)
	   }
	   atomic {
		may_run(STOPPER);
		for (k : 1 .. max) {
			out[k - 1] = slot[unit * CAPACITY + h - k]
		}
		k = 0
	   }
	   atomic {
		may_run(STOPPER);
		header[unit] = h - max;
		do
		:: max > 0 ->
			max--;
			slot[unit * CAPACITY + header[unit] + max] = NO_OBJECT;
			move(out[max], ARRAY, OUTSIDE);
			out[max] = NO_OBJECT
		:: else -> break
		od;
		check_objects();
		h = 0;
		unit++
	   }
	:: atomic { all_units -> unit = first; break }
	od;

	do /* pcpu_arrays_start() */
	:: atomic {
		another_unit ->
		alone[unit] = 0;
#ifdef MUTANT_START_KEEPS_A_SLOT
		locked[unit] = (unit == 0);
#else
		locked[unit] = 0;
#endif
		unit++
	   }
	:: atomic { all_units -> unit = 0; break }
	od;
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
	byte n;

	atomic {
		for (n : 0 .. THREADS - 1) {
			run user(n)
		}
		run user(HANDLER);
		run stopper()
	}
}
