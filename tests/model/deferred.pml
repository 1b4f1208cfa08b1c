/* SPDX-License-Identifier: MIT */
/*
 * Frees that wait for nothing (src/base/deferred.h, as src/page/zone.c uses it; src/slab/slab_node.c
 * does the same with slabs): whoever finds the zone's lock taken pushes its run onto a list, which
 * the holders of the lock empty after taking it and before letting it go; behind that they look once more. A signal handler frees while the thread it interrupted stands
 * still, perhaps with the lock.
 *
 * What the lock protects is accessed by its holder only, and a run by whoever has it, so that
 * interleaving steps in one order is enough, given that L1 and D2 acquire, R1 and D1 release.
 */
#define FREERS 2
#define RUNS 3	  /* one of each freer, the last one of the handler */
#define HOLDER (FREERS + 1) /* processes: the handler, the freers, the holder */
#define NOBODY 255

#define HANDED 0
#define DEFERRED 1
#define FREE 2

byte next[RUNS + 1], state[RUNS + 1]; /* runs are numbered from 1; 0 is no run */
byte head, nr_free;
bit locked;
byte interrupted = NOBODY, finished;

#ifdef MUTANT_HANDLER_WAITS
#define TRYLOCK(ok) atomic { !locked -> locked = 1; ok = 1 }
#else
#define TRYLOCK(ok) atomic { ok = !locked; locked = 1 }
#endif

/* Under the lock: not in one step, so that two who do it at once are found. */
inline put_free(r, from)
{
	assert(state[r] == from);
	seen = nr_free;
	state[r] = FREE;
	nr_free = seen + 1
}

inline put_deferred()
{
	if
	:: head ->
#ifdef MUTANT_TAKE_IN_TWO_STEPS
		first = head;
		head = 0;
#else
		atomic { first = head; head = 0 }
#endif
		do
		:: first ->
			rest = next[first];
			put_free(first, DEFERRED);
			first = rest
		:: else -> break
		od
	:: else
	fi
}

/* Looks behind the release, and takes the lock again if it can. */
inline unlock()
{
	do
	:: true ->
#ifdef MUTANT_UNLOCK_EARLY
		locked = 0;
		put_deferred();
#else
		put_deferred();
		locked = 0;
#endif
#ifdef MUTANT_NO_LOOK_BEHIND
		break
#else
		if
		:: head -> TRYLOCK(again);
			if
			:: again
			:: else -> break
			fi
		:: else -> break
		fi
#endif
	od
}

inline push(r)
{
	state[r] = DEFERRED;
	old = head;
	do
	:: next[r] = old;
#ifdef MUTANT_PUSH_STORES
		head = r; break
#else
		atomic {
			won = (head == old);
			if
			:: won -> head = r
			:: else -> old = head
			fi
		}
		if
		:: won -> break
		:: else
		fi
#endif
	od
}

inline free_run(r)
{
	TRYLOCK(ok);
	if
	:: ok ->
		put_deferred();
		put_free(r, HANDED);
		unlock()
	:: else ->
		push(r);
		TRYLOCK(ok);
		if
		:: ok -> put_deferred(); unlock()
		:: else
		fi
	fi
}

proctype freer(byte mine) provided (interrupted != _pid)
{
	byte first, rest, seen, old;
	bit ok, won, again;

	free_run(mine);
	finished++
}

/* An allocation that waits for the lock: what it holds up is there afterwards. */
proctype holder() provided (interrupted != _pid)
{
	byte first, rest, seen;
	bit again;

	atomic { !locked -> locked = 1 };
	put_deferred();
	unlock();
	finished++
}

active proctype handler()
{
	byte first, rest, seen, old;
	bit ok, won, again;

	atomic {
		run freer(1);
		run freer(2);
		run holder()
	}
	if
	:: interrupted = 1
	:: interrupted = 2
	:: interrupted = HOLDER
	fi;
	free_run(RUNS);
	interrupted = NOBODY;
	finished == FREERS + 1;
	/* Nobody need take the lock any more. */
	assert(!locked);
	assert(nr_free == RUNS && !head)
}
