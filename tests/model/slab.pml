/* SPDX-License-Identifier: MIT */
/*
 * One slab of a cache (src/slab/slab_page.c, slab_node.c, follow() in slab_objects.c): frees that
 * set a bit and then change the state, a taker under the lock of a shard's list, slabs that come
 * to a list, leave it empty and are freed, and what becomes of their page: a slab of this cache
 * again, or of another one.
 *
 * Word 0 of the bitmap has two objects, word 1, if there is one, has one. There are two shards:
 * the freers are of one each, the taker moves between them (with one word, and not with
 * CATCH_UP, where it leaves a shard unused). Each atomic access is a step. No empty slab is to be
 * kept (min_partial 0). The lists are a number: there is one page.
 *
 * Memory order is the program's: what an object's last user did to it is not followed here.
 */
#ifndef WORDS
#define WORDS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of the taker */
#endif
#define OBJECTS (WORDS + 1)
#define ALL(w) (w == 0 -> 3 : 1)
#define FIRST(w) (w == 0 -> 0 : 2) /* object */
#define FREERS 2
#define SHARDS 2

/* where */
#define FULL 0
#define WITH_CPU 1
#define ON_NODE 2 /* + the shard */

/* What the page is. */
#define NOTHING 0 /* free, or about to be: on somebody's list of retired slabs */
#define OURS 1
#define OTHERS 2

/* How a free went. */
#define UNCHANGED 0
#define NO_LONGER_FULL 1
#define EMPTY_ON_NODE 2

byte bits[WORDS];
short avail, whole;
byte where = FULL;
byte is = OURS;	   /* what the page is */
byte generation;   /* of the page: counts its frees, for assertions only */
byte listed;	   /* 0, or 1 + the shard on whose list the slab is */
bit deferred;
bit missed[SHARDS], locked[SHARDS];
#ifdef CATCH_UP
bit some_missed;
#endif
bit held[OBJECTS] = 1;
byte hands; /* threads that are to put the slab onto a list, or took it from one */
byte finished;

#define ALL_THERE (avail == WORDS && whole == WORDS)
#ifdef MUTANT_EMPTY_IS_WHOLE
#define EMPTY(a, h) (h == WORDS)
#else
#define EMPTY(a, h) (a == WORDS && h == WORDS)
#endif

inline lock_wait(k)
{
	atomic { !locked[k] -> locked[k] = 1 }
}

inline trylock(k)
{
	atomic { ok = !locked[k]; locked[k] = 1 }
}

/* Under the lock. The slab is freed after it. */
inline __retire(k)
{
	atomic {
		assert(locked[k] && listed == 1 + k && is == OURS);
		listed = 0;
		retired = 1
	}
}

/* Under the lock. */
inline __add(k)
{
	atomic {
		assert(locked[k] && !listed && is == OURS && where == WITH_CPU);
		assert(hands == 1);
		hands--;
		listed = 1 + k;
#ifdef MUTANT_ADD_LOOKS_BEFORE
		a = avail; h = whole
#endif
	}
	atomic {
		where = ON_NODE + k;
#ifndef MUTANT_ADD_LOOKS_BEFORE
		a = avail; h = whole
#endif
	}
	if
	:: EMPTY(a, h) -> __retire(k)
	:: else
	fi
}

inline __catch_up(k)
{
	if
	:: atomic { deferred -> deferred = 0; hands++ }
		__add(k)
	:: else
	fi;
	if
	:: atomic { missed[k] -> missed[k] = 0 }
		if
		:: listed == 1 + k ->
			atomic { a = avail; h = whole }
			if
			:: EMPTY(a, h) -> __retire(k)
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

inline unlock(k)
{
	__catch_up(k);
	locked[k] = 0;
	if
	:: retired ->
		atomic {
			retired = 0;
			assert(is == OURS && !listed && !deferred);
			assert(ALL_THERE);
			is = NOTHING;
			generation++
		}
	:: else
	fi
}

inline node_add()
{
	k = own;
	trylock(k);
	if
	:: ok -> __catch_up(k); __add(k); unlock(k)
	:: else ->
		atomic {
			assert(!deferred && !listed && hands == 1);
			hands--;
			deferred = 1
		}
	fi
}

/* In one step with the access it is about. */
#define SAME assert(is == OURS && generation == mine)

inline set_bit(o, w)
{
	atomic {
		SAME;
		old = bits[w];
		assert(!(old & (1 << (o - FIRST(w)))));
		bits[w] = old | (1 << (o - FIRST(w)))
	}
}

/* As slab_node_hold(): @held says whether this thread has the lock of shard @k, on whose list the
 * slab is. */
inline hold(da, dh)
{
	held_shard = 0;
	atomic { SAME; a = avail + da; h = whole + dh; place = where }
	if
	:: EMPTY(a, h) && place >= ON_NODE ->
		k = place - ON_NODE;
		trylock(k);
		if
		:: ok ->
#ifdef MUTANT_HOLD_LOOKS_ONCE
			held_shard = 1
#else
			atomic { SAME; place = where }
			if
			:: place == ON_NODE + k -> held_shard = 1
			:: else -> unlock(k)
			fi
#endif
		:: else
		fi
	:: else
	fi
}

inline change_state(o, w, seen)
{
	what = UNCHANGED;
	held_shard = 0;
	if
	:: seen == 0 || ((seen | (1 << (o - FIRST(w)))) == ALL(w)) ->
#ifdef MUTANT_RETIRES_WITHOUT_HOLD
		held_shard = 0;
#else
		hold((seen == 0), ((seen | (1 << (o - FIRST(w)))) == ALL(w)));
#endif
		atomic {
			SAME;
			avail = avail + (seen == 0);
			whole = whole + ((seen | (1 << (o - FIRST(w)))) == ALL(w));
			place = where;
			if
#ifdef MUTANT_LISTS_WHERE_ANY
			:: where == FULL && seen == 0 && avail > 0 -> what = NO_LONGER_FULL
#else
			:: where == FULL && seen == 0 && avail == 1 -> what = NO_LONGER_FULL
#endif
			:: where >= ON_NODE && EMPTY(avail, whole) -> what = EMPTY_ON_NODE
			:: else
			fi;
			hands = hands + (what == NO_LONGER_FULL)
		}
	:: else
	fi
}

/* After a free has made a listed slab empty. */
inline emptied()
{
#ifdef MUTANT_RETIRES_WITHOUT_HOLD
	/* The lock is taken only now: the page may be anything. */
	if
	:: !held_shard ->
		k = place - ON_NODE;
		trylock(k);
		held_shard = ok
	:: else
	fi;
#endif
	if
	:: held_shard -> __retire(k)
#ifndef MUTANT_NEVER_MISSED
	:: else ->
		missed[place - ON_NODE] = 1;
#ifdef CATCH_UP
		some_missed = 1
#endif
#else
	:: else
#endif
	fi
}

inline free_object(o)
{
	atomic {
		assert(held[o]);
		held[o] = 0;
		mine = generation;
		w = (o < 2 -> 0 : 1)
	}
#ifdef MUTANT_STATE_FIRST
	old = bits[w];
	change_state(o, w, old);
	set_bit(o, w);
#else
	set_bit(o, w);
	change_state(o, w, old);
#endif
	if
	:: what == NO_LONGER_FULL ->
		atomic {
			SAME;
			assert(where == FULL && hands == 1);
			where = WITH_CPU
		}
		node_add()
	:: what == EMPTY_ON_NODE -> emptied()
	:: else
	fi;
	if
	:: held_shard -> unlock(k)
	:: else
	fi
}

/* Objects of the slab in hand or under the lock; up to @n. */
inline take(n)
{
	w = 0;
	da = 0;
	dh = 0;
	do
	:: w < WORDS && n ->
		/* Bits are only set meanwhile, so that a look in one step before is enough. */
		old = bits[w];
		got = 0;
		if
		:: old & 1 -> got = 1
		:: else
		fi;
		if
		:: old & 2 && (n > 1 || !(old & 1)) -> got = got | 2
		:: else
		fi;
		if
		:: got ->
			atomic {
				assert(is == OURS);
				old = bits[w];
				bits[w] = old & ~got;
				da = da + (old == got);
				dh = dh + (old == ALL(w));
				if
				:: got & 1 ->
					assert(!held[FIRST(w)]);
					held[FIRST(w)] = 1;
					took = took | (1 << FIRST(w));
					n--
				:: else
				fi;
				if
				:: got & 2 ->
					assert(!held[1]);
					held[1] = 1;
					took = took | 2;
					n--
				:: else
				fi
			}
		:: else
		fi;
		w++
	:: else -> break
	od;
	atomic { avail = avail - da; whole = whole - dh }
}

inline leave_if_full(left)
{
	left = 0;
	atomic { a = avail; h = whole }
	do
	:: a > 0 -> break
	:: else ->
#ifdef MUTANT_LEAVE_STORES
		atomic { avail = a; whole = h; where = FULL; left = 1 }
		break
#else
		atomic {
			if
			:: avail == a && whole == h -> where = FULL; left = 1
			:: else -> a = avail; h = whole
			fi
		}
		if
		:: left -> break
		:: else
		fi
#endif
	od
}

/* As catch_up_all(): any request looks for what frees left on any list. Without CATCH_UP only who
 * takes from a shard looks for that on its list. */
inline catch_up_all()
{
#ifdef CATCH_UP
	if
	:: atomic { some_missed -> some_missed = 0; k = 0 }
		do
		:: k < SHARDS ->
			if
			:: missed[k] ->
				trylock(k);
				if
				:: ok -> unlock(k)
#ifndef MUTANT_TAKEN_FORGOTTEN
				:: else -> again = 1
#else
				:: else
#endif
				fi
			:: else
			fi;
			atomic { k++; ok = 0 }
		:: else -> break
		od;
		atomic { some_missed = some_missed | again; again = 0; k = 0 }
	:: else
	fi
#else
	skip
#endif
}

/* As slab_node_take(): under the lock of one shard, and then perhaps the slab in hand. */
inline take_listed()
{
	keep = 0;
	k = own;
	lock_wait(k);
	__catch_up(k);
	if
	:: listed == 1 + k ->
#ifdef MUTANT_LEAVE_BEFORE_REMOVE
		take(n);
		leave_if_full(left);
		listed = 0;
#else
		listed = 0;
		take(n);
		leave_if_full(left);
#endif
		if
		:: left
		:: !left -> listed = 1 + k
		:: !left ->
			atomic { assert(where == ON_NODE + k); where = WITH_CPU; hands++; keep = 1 }
		fi
	:: else
	fi;
	unlock(k);
	catch_up_all();
	/* Some more of it while it is with the CPU, and then to the node. */
	if
	:: keep ->
		n = 1;
		take(n);
		hands--; /* others may see it from the next step on */
		leave_if_full(left);
		if
		:: left
		:: else -> hands++; node_add()
		fi
	:: else
	fi
}

/* A slab of this cache again, of which one object is taken at once. */
inline new_slab()
{
	if
	:: atomic {
		is == NOTHING ->
		is = OURS;
		where = WITH_CPU;
		bits[0] = 2;
		avail = WORDS;
		whole = WORDS - 1;
#if WORDS == 2
		bits[1] = 1;
#endif
		held[0] = 1;
		took = took | 1;
		hands++
	};
		node_add()
	:: else
	fi
}

inline free_taken()
{
	do
	:: took & 1 -> took = took - 1; free_object(0)
	:: took & 2 -> took = took - 2; free_object(1)
#if WORDS == 2
	:: took & 4 -> took = took - 4; free_object(2)
#endif
	:: !took -> break
	od
}

#define FREE_LOCALS                                                                            \
	byte w, old, mine, what, place, k, own;                                                \
	short a, h;                                                                            \
	bit ok, retired, held_shard

proctype freer(byte first, last)
{
	FREE_LOCALS;
	byte o = first;

	own = (first > 0);
	do
	:: o <= last -> free_object(o); o++
	:: else -> break
	od;
	finished++
}

proctype taker()
{
	FREE_LOCALS;
	byte n, got, took, i;
	short da, dh;
#ifdef CATCH_UP
	bit again;
#endif
	bit left, keep;

	do
	:: i < ROUNDS ->
		i++;
#if WORDS == 1 && !defined(CATCH_UP)
		if
		:: own = 0
		:: own = 1
		fi;
#endif
		if
		:: n = 1
		:: n = 2
#if WORDS == 2
		:: n = 3
#endif
		:: n = 0
		fi;
		if
		:: n -> take_listed()
		:: else -> new_slab()
		fi;
		free_taken()
	:: else -> break
	od;
	finished++
}

/* Another cache: it makes a slab of the page, which is soon empty and on its list. */
proctype other()
{
	bit again;

	do
	:: atomic { is == NOTHING -> is = OTHERS };
		atomic {
			where = ON_NODE;
			avail = WORDS;
			whole = WORDS;
			bits[0] = ALL(0)
		};
		if
		:: atomic { !again -> is = NOTHING; where = WITH_CPU; again = 1 }
		:: break
		fi
	:: finished == FREERS + 1 -> break
	od
}

inline check_words()
{
	n = 0;
	nr = 0;
	i = 0;
	do
	:: i < WORDS ->
		n = n + (bits[i] != 0);
		nr = nr + (bits[i] == ALL(i));
		i++
	:: else -> break
	od
}

active proctype main()
{
	byte i, n, nr;

	atomic {
		run freer(0, 0);
		run freer(1, OBJECTS - 1);
		run taker();
		run other()
	}
	finished == FREERS + 1;
	atomic {
		assert(!locked[0] && !locked[1] && !hands);
		if
		:: is == OURS ->
			/* All objects were freed: it is empty. */
			check_words();
			assert(avail == n && whole == nr && ALL_THERE);
			assert((listed > 0) + deferred == 1);
			assert(where == (listed -> ON_NODE + listed - 1 : WITH_CPU));
			assert(deferred || missed[listed - 1]);
#ifdef CATCH_UP
			assert(deferred || some_missed)
#endif

		:: else -> assert(!listed && !deferred)
		fi
	}
}
