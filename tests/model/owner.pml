/* SPDX-License-Identifier: MIT */
/*
 * An owner's plain operations (src/percpu/array_owner.h) beside remote stops
 * (src/percpu/array_stop.c). README.md says what this covers and what not.
 *
 * One CPU, its owner, one stopper. What the owner stores waits in its CPU's buffer, one value
 * an address, and gets to memory later and in any order, but busy = 0 (a release) behind the
 * header and the slots. Only the membarrier drains the buffer.
 *
 * One object is watched, IT, as in stop.pml. What a take finds the stopper has for a while;
 * then it is outside, from where the owner may push it.
 */
#ifndef CAPACITY
#define CAPACITY 2 /* at most 2 */
#endif
/* MUTANT_*: see README.md. */

#define STOP 8 /* in the header: this bit, and the count */
#define count_of(h) ((h) & (STOP - 1))
#define NOTHING 255 /* in the buffer */

#define NO_OBJECT 0
#define IT 1
#define OTHER 2
#define is_object(o) ((o) == IT || (o) == OTHER)

byte header, slot[CAPACITY];
bit busy;
byte stored_header = NOTHING, stored_slot[CAPACITY], stored_busy = NOTHING;

#define own_header (stored_header == NOTHING -> header : stored_header)
#define own_slot(s) (stored_slot[s] == NO_OBJECT -> slot[s] : stored_slot[s])

#define ARRAY 0
#define HELD 1	  /* by the owner, which pushes it */
#define OUTSIDE 2 /* by anybody else */
byte place = OUTSIDE;

hidden byte i, seen; /* these only within d_step */

/* IT is outside, or in one slot. */
inline check_objects()
{
	d_step {
		seen = 0;
		for (i : 0 .. CAPACITY - 1) {
			if
			:: i < count_of(own_header) ->
				assert(is_object(own_slot(i)));
				seen = seen + (own_slot(i) == IT)
			:: else
			fi
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

inline drain()
{
	d_step {
		if
		:: stored_header != NOTHING -> header = stored_header; stored_header = NOTHING
		:: else
		fi;
		for (i : 0 .. CAPACITY - 1) {
			if
			:: stored_slot[i] != NO_OBJECT ->
				slot[i] = stored_slot[i];
				stored_slot[i] = NO_OBJECT
			:: else
			fi
		}
		if
		:: stored_busy != NOTHING -> busy = stored_busy; stored_busy = NOTHING
		:: else
		fi
	}
}

#define slots_are_stored                                                                       \
	(stored_slot[0] != NO_OBJECT || stored_slot[CAPACITY - 1] != NO_OBJECT)

/* The buffer, in any order. */
active proctype Buffer()
{
end:	do
	:: atomic { stored_header != NOTHING -> header = stored_header; stored_header = NOTHING }
	:: atomic { stored_slot[0] != NO_OBJECT -> slot[0] = stored_slot[0]; stored_slot[0] = NO_OBJECT }
	:: atomic { stored_slot[CAPACITY - 1] != NO_OBJECT ->
		    slot[CAPACITY - 1] = stored_slot[CAPACITY - 1];
		    stored_slot[CAPACITY - 1] = NO_OBJECT }
	:: atomic { stored_busy == 1 -> busy = 1; stored_busy = NOTHING }
#ifdef MUTANT_END_IS_NO_RELEASE
	:: atomic { stored_busy == 0 -> busy = 0; stored_busy = NOTHING }
#else
	:: atomic { stored_busy == 0 && stored_header == NOTHING && !slots_are_stored ->
		    busy = 0; stored_busy = NOTHING }
#endif
	od
}

/* The stores of the operation before may still wait. */
inline begin()
{
#if !defined(MUTANT_NOT_BUSY) && !defined(MUTANT_BUSY_LATE)
	stored_busy = 1;
#endif
	atomic { h = own_header }
#ifdef MUTANT_BUSY_LATE
	; stored_busy = 1
#endif
}

inline finish()
{
	stored_busy = 0
}

active proctype Owner()
{
	byte h, object;

end:	do
	:: begin();
	   if
#ifdef MUTANT_POP_IGNORES_STOP
	   :: count_of(h) > 0 ->
#else
	   :: !(h & STOP) && count_of(h) > 0 ->
#endif
		object = own_slot(count_of(h) - 1);
		atomic {
			stored_header = h - 1;
			move(object, ARRAY, OUTSIDE);
			check_objects()
		}
	   :: else
	   fi;
	   finish();
	   object = NO_OBJECT; h = 0
	:: atomic {
		if
		:: place == OUTSIDE -> place = HELD; object = IT
		:: object = OTHER
		fi
	   }
	   begin();
	   if
#ifdef MUTANT_PUSH_IGNORES_STOP
	   :: count_of(h) < CAPACITY ->
#else
	   :: h < CAPACITY ->
#endif
		stored_slot[count_of(h)] = object;
		atomic {
			stored_header = h + 1;
			move(object, HELD, ARRAY);
			check_objects()
		}
	   :: else ->
		atomic { move(object, HELD, OUTSIDE) }
	   fi;
	   finish();
	   object = NO_OBJECT; h = 0
	od
}

active proctype Stopper()
{
	byte h, taken, object;

end:	do
	:: /* S1, S2, S3: until the bit is seen after the membarrier */
	   do
	   :: atomic { !(header & STOP) -> header = header | STOP }
#ifndef MUTANT_NO_MEMBARRIER
	      drain()
#endif
	   :: header & STOP -> break
	   od;
	   /* B2 */
	   if
#ifdef MUTANT_BUSY_IGNORED
	   :: true
#else
	   :: busy -> goto start
	   :: !busy
#endif
	   fi;
	   h = header;
	   taken = 0;
	   if
#ifdef MUTANT_TAKE_IGNORES_STOP
	   :: true ->
#else
	   :: h & STOP ->
#endif
		do
		:: taken < count_of(h) ->
			atomic {
				object = slot[count_of(h) - 1 - taken];
				taken++;
				assert(is_object(object))
			}
			if
			:: object == IT -> atomic { assert(place == ARRAY); place = HELD + OUTSIDE }
			:: else
			fi
		:: else -> break
		od;
		atomic {
			header = h - taken;
			/* Nobody was at it meanwhile. */
			assert(stored_header == NOTHING);
			if
			:: place == HELD + OUTSIDE -> place = OUTSIDE
			:: else
			fi;
			check_objects()
		}
	   :: else
	   fi;
start:
	   atomic {
		header = header & (STOP - 1);
		h = 0; taken = 0; object = NO_OBJECT
	   }
	od
}
