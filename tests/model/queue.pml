/* SPDX-License-Identifier: MIT */
/*
 * Who may use a side of a queue (src/queue/side.h, multi.c): sections of two CPUs that find
 * the side biased to them, or take it by compare-and-swap; sections that die anywhere; the
 * revoking of a bias; the stealing of what a dead section held.
 *
 * A side that fills places, one for each call; room is no matter here. Each access to memory
 * is a step, and a thread may be moved to another CPU before each. A section ends when another
 * begins on its CPU (A1), at a membarrier (A2), and for no visible reason (a signal, another
 * process). How long somebody waits before he steals is left open: he may do so at once.
 *
 * With REFUSABLE a membarrier may be refused, and is then for ever: threads leave
 * the sections' ways (g), once those of a CPU are over for ever (src/percpu/sections.c).
 *
 * Memory order is the program's: that a membarrier also orders stores is not followed here.
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef TRIES
#define TRIES 2 /* a thread's attempts, whether they succeed or not */
#endif
#define CPUS 2
#define PLACES (THREADS * TRIES)
#define NOBODY 255

/* kind of owner */
#define FREE 0
#define BIASED 1
#define HELD 2
#define RELAXED 3 /* here a call is one step; what it is made of GenMC verifies */

/* the side's word */
byte index, version, kind, owner;

byte place[PLACES + 1] = NOBODY;   /* who filled it */
byte section[CPUS] = NOBODY; /* the thread whose section is alive there */

#ifndef REFUSABLE
#define REFUSABLE 0
#endif
#if REFUSABLE
bool refused;	 /* pcpu.ending is 0 */
bool over[CPUS]; /* sections of that CPU, for ever */
#endif

#ifdef MUTANT_THERE_BEFORE_IT_LOOKED
#define BEEN been
#else
#define BEEN cpu
#endif

#define ALIVE (section[cpu] == _pid)

/* The next instruction of a section, or what is done when it is dead. */
#define STEP(action)                                                                           \
	if                                                                                     \
	:: atomic { ALIVE -> action }                                                          \
	:: atomic { ALIVE -> section[cpu] = NOBODY; goto again } /* for no visible reason */   \
	:: atomic { !ALIVE -> goto again }                                                           \
	fi

#define SAME (index == w_index && version == w_version && kind == w_kind && owner == w_owner)

inline load_word()
{
	w_index = index;
	w_version = version;
	w_kind = kind;
	w_owner = owner
}

/* So that states that are the same look the same. */
inline forget()
{
	d_step {
		w_index = 0;
		w_version = 0;
		w_kind = 0;
		w_owner = 0;
		cpu = 0;
		slow_cpu = 0
	}
}

inline fill()
{
	assert(w_index >= index); /* what is published stays */
	place[w_index] = _pid
}

/* A2, or its refusal. */
inline end_sections(where)
{
	atomic {
		if
#if REFUSABLE
		:: refused = true; goto again
		:: !refused -> section[where] = NOBODY
#else
		:: section[where] = NOBODY
#endif
		fi
	}
}

/* And looks whether it may: the first thing of every section. */
inline begin_section()
{
#ifdef MUTANT_LOOKS_BEFORE_IT_BEGINS
	if
	:: refused -> goto again
	:: else -> skip
	fi;
#endif
	atomic {
		if
		:: cpu = 0
		:: cpu = 1
		fi;
		section[cpu] = _pid /* who was there is dead: A1 */
	}
#if REFUSABLE && !defined(MUTANT_LOOKS_BEFORE_IT_BEGINS)
	if
	:: atomic { ALIVE && !refused -> skip }
	:: atomic { ALIVE && refused -> section[cpu] = NOBODY; goto again }
	:: atomic { !ALIVE -> goto again }
	fi
#endif
}

/* Sections of a CPU are over for ever when somebody was there after O1. */
inline be_somewhere()
{
	atomic {
		if
		:: cpu = 0
		:: cpu = 1
		fi;
		section[cpu] = NOBODY /* O2 */
	}
}

inline leave_sections()
{
	if
	:: w_kind == FREE -> skip
	:: w_kind == BIASED || w_kind == HELD ->
#ifndef MUTANT_THERE_BEFORE_IT_LOOKED
		be_somewhere();
#endif
		over[BEEN] = true; /* O3 */
#ifndef MUTANT_OVER_UNASKED
		if
		:: over[w_owner] -> skip
		:: else -> goto again
		fi
#endif
	:: w_kind == RELAXED ->
		atomic {
			assert(kind == RELAXED); /* there is no way back */
			place[index] = _pid;
			index = index + 1;
			goto again
		}
	fi;
	atomic { /* g */
		if
		:: SAME -> kind = RELAXED; owner = 0; version = 0
		:: else -> skip
		fi;
		goto again
	}
}

/* What is published is this thread's, and the next one. */
inline commit_biased()
{
	assert(place[w_index] == _pid && index == w_index && kind != RELAXED);
	index = w_index + 1;
	version = w_version; /* wipes out what who revokes has put there */
	kind = w_kind;
	owner = w_owner;
	section[cpu] = (ALIVE -> NOBODY : section[cpu])
}

proctype caller()
{
	byte w_index, w_version, w_kind, w_owner, cpu, tries, slow_cpu;
#ifdef MUTANT_THERE_BEFORE_IT_LOOKED
	byte been;
#endif

	do
	:: tries == TRIES -> break
	:: else ->
		forget();
		tries++;
		/* move_multi(): by the bias, if there is one. It may die even before this. */
		if
		:: begin_section();
			STEP(load_word());
			if
#ifdef MUTANT_BIAS_OF_ANOTHER
			:: w_kind == BIASED ->
#else
			:: w_kind == BIASED && w_owner == cpu ->
#endif
				STEP(fill());
				if
				:: atomic { ALIVE -> commit_biased(); goto again }
				:: atomic { ALIVE -> section[cpu] = NOBODY; goto again }
#ifdef MUTANT_THE_DEAD_COMMIT
				:: atomic { !ALIVE -> commit_biased(); goto again }
#else
				:: atomic { !ALIVE -> goto again }
#endif
				fi
			:: else -> section[cpu] = (ALIVE -> NOBODY : section[cpu])
			fi
		:: skip
		fi;

		/* move_slowly() */
#ifdef MUTANT_THERE_BEFORE_IT_LOOKED
		be_somewhere();
		been = cpu;
#endif
		atomic {
			forget();
			load_word();
			if
			:: slow_cpu = 0
			:: slow_cpu = 1
			fi
		}
#if REFUSABLE
		if
		:: refused -> leave_sections() /* O1 */
		:: else -> skip
		fi;
#endif
		if
		:: w_kind == FREE -> skip
#ifdef MUTANT_ANY_CPU_IS_THIS
		:: w_kind != FREE -> skip
#else
		:: w_kind != FREE && w_owner == slow_cpu -> skip
#endif
		:: w_kind == BIASED && w_owner != slow_cpu -> /* d */
#ifndef MUTANT_REVOKE_SAYS_NOTHING
			atomic {
				if
				:: SAME ->
#ifndef MUTANT_NO_VERSION
					version = version + 1;
					w_version = version;
#endif
					kind = HELD;
					w_kind = HELD
				:: else -> goto again
				fi
			}
#endif
#ifndef MUTANT_REVOKE_IS_ENOUGH
			end_sections(w_owner)
#endif
		:: w_kind == HELD && w_owner != slow_cpu ->
#ifndef MUTANT_STEAL_FROM_THE_LIVING
			end_sections(w_owner)
#else
			skip
#endif
		fi;

		begin_section();
#ifndef MUTANT_CPU_UNCHECKED
		if
		:: cpu == slow_cpu
		:: else -> atomic { section[cpu] = (ALIVE -> NOBODY : section[cpu]); goto again }
		fi;
#endif
		if
		:: atomic { ALIVE && SAME -> /* c, e, f */
#ifndef MUTANT_NO_VERSION
			version = version + 1;
			w_version = version;
#endif
			kind = HELD;
			owner = cpu;
			w_kind = HELD;
			w_owner = cpu }
		:: atomic { ALIVE && !SAME -> section[cpu] = NOBODY; goto again }
		:: atomic { !ALIVE -> goto again }
		fi;
		STEP(fill());
		if
		:: atomic { ALIVE -> /* b */
			assert(place[w_index] == _pid);
			assert(SAME);
			index = w_index + 1;
#ifndef MUTANT_NO_VERSION
			version = w_version + 1;
#endif
			if
			:: kind = FREE; owner = 0
			:: kind = BIASED; owner = cpu
			fi;
			section[cpu] = NOBODY }
		:: atomic { ALIVE -> section[cpu] = NOBODY; goto again }
		:: atomic { !ALIVE -> goto again }
		fi;
again:
		skip
	od
}

/* Anything may have gone before: a bias, a section that died. */
init
{
	byte i;

	atomic {
		if
		:: kind = FREE
		:: kind = BIASED
		:: kind = HELD
		fi;
		for (i : 1 .. THREADS) {
			run caller()
		}
	}
#if REFUSABLE > 1
	refused = true /* for something else than a side, at any time */
#endif
}
