/* SPDX-License-Identifier: MIT */
/*
 * <ukmem/percpu.h> - per-CPU data and operations on this CPU's copy.
 *
 * A per-CPU variable has one copy per CPU. A handle names the variable: it is the address
 * of a DEFINE_PER_CPU variable, or the result of alloc_percpu(). A handle is not the address
 * of any copy and must not be dereferenced; per_cpu_ptr() and this_cpu_ptr() turn it into
 * the address of a copy. The operations take an lvalue at a handle, as in the kernel:
 *
 *	static DEFINE_PER_CPU(unsigned long, packets);
 *	this_cpu_inc(packets);
 *
 *	struct stats *s = alloc_percpu(struct stats);
 *	this_cpu_add(s->bytes, len);
 *	total = per_cpu_sum(s->bytes);
 *
 * Three families; the prefix says what an operation is safe against:
 *
 *   this_cpu_*    preemption, migration and signal handlers on this CPU: each operation
 *		   is atomic with respect to every other this_cpu_ operation on that copy,
 *		   by any thread. No lock, no locked instruction.
 *   __this_cpu_*  nothing; the caller must be in an owner context
 *		   (percpu_owner_enter). Compiled with UKMEM_DEBUG=1, each operation
 *		   checks that, and aborts with its name and place if it is not so.
 *   raw_cpu_*	   nothing, without a check: an update may be lost. For counters of
 *		   events where that does not matter.
 *
 *   operation			    on the copy *p of this CPU		 result
 *   read(x)			    -					 *p
 *   write(x, v)		    *p = v				 -
 *   add sub and or xor (x, v)	    *p = *p op v			 -
 *   inc dec (x)		    *p = *p +- 1			 -
 *   add_return sub_return (x, v),  *p = *p +- v			 new *p
 *   inc_return dec_return (x)
 *   xchg(x, v)			    *p = v				 old *p
 *   cmpxchg(x, old, new)	    if (*p == old) *p = new		 old *p
 *   try_cmpxchg(x, &old, new)	    if (*p == old) *p = new,		 true
 *				    else old = *p			 false
 *   cmpxchg_double(x, y, o1, o2,   if (*p == o1 && *q == o2)		 true
 *		    n1, n2)	      *p = n1, *q = n2			 or false
 *
 * x is an integer, a bool, an enum or a pointer of 1, 2, 4 or 8 bytes, naturally
 * aligned; arithmetic on integers wraps. For cmpxchg_double x and y are two
 * adjacent words of 4 or 8 bytes, x aligned to both together.
 *
 * How it works: this_cpu_ operations are restartable sequences (rseq(2)). Each is one
 * section, specified here and implemented in arch/rseq_*.h:
 *
 *	arm the section
 *	if (cpu_id >= limit) fail
 *	p = handle + base + index * stride
 *	o = *p			      (cmpxchg: if (o != old) leave)
 *	commit *p = f(o, v)	      (one instruction)
 *
 * If the thread is preempted, migrated or signalled before the commit, the kernel
 * makes the section fail. ukmem_percpu_op() tries a failed section again a few times. A
 * thread that never gets through (single-stepped in a debugger) and a thread that has no
 * CPU (not registered for rseq) use the spill copy instead, with locked instructions.
 * Without rseq at all (fallback mode) every operation is a locked instruction on the copy
 * of the CPU the thread was on. percpu_mode() tells the mode and the reason for it.
 *
 * A loop around try_cmpxchg should go on with the value that the failed call stored in old.
 * A loop that reads the variable again may read another copy than the one that the
 * exchange of a single-stepped thread uses, and never end.
 *
 * The idea of one meaning per prefix is that of the kernel's this_cpu operations; the
 * structure of the sections is that of librseq.
 *
 * The spill copy counts as one more CPU, the last one: num_possible_cpus()
 * and for_each_possible_cpu() include it, so that sums are exact.
 *
 * Ordering: the operations order no other memory accesses. Another thread that reads
 * a copy (per_cpu, per_cpu_sum) sees some value the copy had; writers are never stopped.
 *
 * Thread safety: all functions and macros. Signal safety: all operations,
 * per_cpu_ptr and the like, from the first use on; alloc_percpu_gfp with
 * GFP_NOWAIT. Constructors of priority 102 and later may use everything here.
 *
 * fork: the child has a copy of all copies and goes on with its own registration.
 * vfork: the child runs on its parent's memory and rseq area, but the kernel does not
 * serve that area for the child: a section would run unprotected. In programs that use the
 * malloc drop-in the child may allocate and use the operations, which then take the spill
 * copy: the drop-in's vfork gives up the parent's registration until the parent goes on.
 * In all other programs the child must not use the operations, nor allocate. posix_spawn,
 * system and popen are safe everywhere. After fork, a thread that was an owner
 * (percpu_owner_enter) is one in the child: of the child's copy. vfork's child owns nothing.
 *
 * Other compilers (before gcc 11, clang 14), architectures and ThreadSanitizer
 * have no sections: each operation calls the library.
 */
#ifndef UKMEM_PERCPU_H
#define UKMEM_PERCPU_H

#include <ukmem/compiler.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ukmem/gfp.h>

#ifndef UKMEM_DEBUG
#define UKMEM_DEBUG 0
#endif

UKMEM_BEGIN_DECLS

/*
 * The values that sections load. Synchronization: the library writes them once, when it is
 * initialised, and they are read-only afterwards. They are declared const here, so that
 * compilers can keep them in registers in loops. For that to be true of every program that
 * has a handle, a constructor of this header initialises the library.
 *
 * rseq leads to the thread's area even where no area is registered, or none is used. Then
 * the limit is 0 and every section fails into the library, so no operation needs a test of
 * the mode.
 */
struct ukmem_percpu_state {
	ptrdiff_t rseq;	 /* thread pointer -> struct rseq */
	ptrdiff_t index; /* thread pointer -> the index field: cpu_id or mm_cid */
	ptrdiff_t base;	 /* handle -> copy of index 0 */
	size_t stride;	 /* copy of index i -> copy of index i + 1 */
	uint32_t limit;	 /* CPU ids below it may run sections; 0: fallback mode */
	uint32_t nr_ids; /* the spill copy's index */
	uint32_t ending; /* the library's: limit, while other CPUs' sections can be ended */
};

extern UKMEM_EXPORT const struct ukmem_percpu_state ukmem_percpu_state;

/* The state that the macros use; the library itself uses a hidden symbol, which is nearer. */
#ifndef UKMEM_PERCPU_STATE
#define UKMEM_PERCPU_STATE ukmem_percpu_state
#ifndef UKMEM_PERCPU_EARLY
#define UKMEM_PERCPU_EARLY 1 /* whether the constructor is there */
#endif
#else
#define UKMEM_PERCPU_EARLY 0
#endif

enum ukmem_percpu_mode {
	UKMEM_PERCPU_RSEQ,     /**< restartable sequences */
	UKMEM_PERCPU_FALLBACK, /**< locked instructions, and a lock per CPU for arrays */
};

/** What percpu_mode() tells. Strings are static. */
struct ukmem_percpu_info {
	enum ukmem_percpu_mode mode;
	const char *mode_name;	  /**< "rseq" or "fallback" */
	const char *reason;	  /**< why this mode, one line */
	const char *index_kind;	  /**< "cpu_id", "mm_cid", or "cpu" (asked by system call) */
	const char *self_test;	  /**< whether restarting was tried out: "passed", ... */
	unsigned int nr_cpu_ids;  /**< largest possible CPU id + 1 */
	unsigned int cpus_online; /**< number of indices that online CPUs may have */
	size_t unit_size;	  /**< bytes of address space per CPU and chunk */
	unsigned int chunks;	  /**< chunks mapped */
	size_t allocated;   /**< bytes per CPU handed out by alloc_percpu and the library */
	size_t static_size; /**< bytes per CPU of DEFINE_PER_CPU variables */
	size_t resident;    /**< bytes of memory behind both, all CPUs together */
	unsigned int cpus_allowed; /**< CPUs the process may use: cpuset, affinity */
	/** CPU time the process may use at once, in thousandths of a CPU: cpus_allowed, or
	 * the cgroup's quota if that is less */
	unsigned int cpu_milli;
	size_t cache_bytes; /**< bytes of free objects that one CPU may hold */
};

/** percpu_mode - the mode in use, the reason for it, and the size of the areas. */
UKMEM_EXPORT void percpu_mode(struct ukmem_percpu_info *info) UKMEM_SYMBOL(percpu_mode);

/**
 * __alloc_percpu - @size bytes per CPU, zeroed
 * @align: a power of two up to 4096
 *
 * Result: a handle, or NULL: no memory, @size is 0 or above the unit size
 * (percpu_mode), or @align is invalid. A CPU's copy takes memory when it is first
 * written, on that CPU's node. Free with free_percpu().
 */
UKMEM_EXPORT void *__alloc_percpu(size_t size, size_t align) UKMEM_SYMBOL(__alloc_percpu)
	__attribute__((__warn_unused_result__));
/** __alloc_percpu_gfp - the same; with GFP_NOWAIT and GFP_ATOMIC only from mapped chunks. */
UKMEM_EXPORT void *__alloc_percpu_gfp(size_t size, size_t align, gfp_t flags)
	UKMEM_SYMBOL(__alloc_percpu_gfp) __attribute__((__warn_unused_result__));
/**
 * free_percpu - free a handle of alloc_percpu; NULL is ignored
 *
 * No thread may use the handle any more. The library reports (tunable invalid_free) and
 * ignores a pointer that alloc_percpu did not return. May block.
 */
UKMEM_EXPORT void free_percpu(void *handle) UKMEM_SYMBOL(free_percpu);

/** alloc_percpu - a per-CPU variable of @type: a handle of type `type *`, or NULL. */
#define alloc_percpu(type)                                                                     \
	UKMEM_CAST(__typeof__(type) *, __alloc_percpu(sizeof(type), __alignof__(type)))
#define alloc_percpu_gfp(type, flags)                                                          \
	UKMEM_CAST(__typeof__(type) *,                                                         \
		   __alloc_percpu_gfp(sizeof(type), __alignof__(type), (flags)))

/*
 * The operations' slow path: it tries the section again, then uses the spill copy. In
 * fallback mode it is the operation. @v, @w: operands as in the section. Result: that of the
 * operation; 0 if the operation has none.
 */
enum ukmem_percpu_op {
	UKMEM_OP_WRITE,
	UKMEM_OP_ADD,
	UKMEM_OP_AND,
	UKMEM_OP_OR,
	UKMEM_OP_XOR,
	UKMEM_OP_ADD_RETURN,
	UKMEM_OP_XCHG,
	UKMEM_OP_CMPXCHG,
};
UKMEM_EXPORT uint64_t ukmem_percpu_op(enum ukmem_percpu_op op, unsigned int size, void *handle,
				      uint64_t v, uint64_t w) UKMEM_COLD;
UKMEM_EXPORT bool ukmem_percpu_cmpxchg_double(void *handle, const uint64_t *oldv,
					      const uint64_t *newv) UKMEM_COLD;
/* The index of the copy this thread may use now; without a CPU, that of the spill copy. */
UKMEM_EXPORT unsigned int ukmem_percpu_index(void);
/* The first index from @i on whose copy is in use: possible CPUs, then the spill copy. */
UKMEM_EXPORT unsigned int ukmem_percpu_next(unsigned int i);
/* The number of such indices. */
UKMEM_EXPORT unsigned int ukmem_percpu_count(void);

/**
 * percpu_owner_enter - from here on this thread owns the CPU it runs on
 *
 * For a data-plane thread that is pinned to a CPU: if no other thread uses the same
 * per-CPU data on that CPU, the owner may use the __this_cpu_ operations, which are plain
 * loads and stores. The caller answers for that condition; the library does not check it.
 *
 * Result: 0, or a negative errno: -EINVAL the thread may run on more than one
 * CPU, -EBUSY another live thread owns this CPU, -EOPNOTSUPP copies are not bound
 * to CPUs here (the index is mm_cid, set UKMEM_CONF=percpu:cpu_id; or this thread
 * has no CPU), -ENOMEM. Calls nest: each needs its percpu_owner_exit(). Not for signal
 * handlers.
 */
UKMEM_EXPORT int percpu_owner_enter(void) UKMEM_SYMBOL(percpu_owner_enter);
/** percpu_owner_exit - undo one percpu_owner_enter; one call too many aborts. */
UKMEM_EXPORT void percpu_owner_exit(void) UKMEM_SYMBOL(percpu_owner_exit);
/* Abort unless this thread owns the CPU it is on. @what: the operation used at @file:@line. */
UKMEM_EXPORT void ukmem_percpu_owner_check(const char *what, const char *file, int line);

/**
 * struct percpu_notifier - functions that are called when CPUs come and go
 * @offline: the threads that used index @cpu are gone; take what its copies hold. A thread
 *	     may have been there a moment ago, so use means that are safe against this_cpu
 *	     operations on the copy. No thread comes to run there until @online is called.
 * @online:  index @cpu is in use again. May be NULL.
 * @arg:     passed to both
 *
 * Both run in the thread that called percpu_cpus_update(), one at a time, without a
 * lock; they may allocate and register others, but not unregister. (The library empties its
 * own caches of a CPU that is gone by itself, every look_ms.)
 */
struct percpu_notifier {
	void (*online)(unsigned int cpu, void *arg);
	void (*offline)(unsigned int cpu, void *arg);
	void *arg;
	struct percpu_notifier *next; /* the library's */
};
/** percpu_notifier_register - call @n from now on. @n must live until it is unregistered. */
UKMEM_EXPORT void percpu_notifier_register(struct percpu_notifier *n)
	UKMEM_SYMBOL(percpu_notifier_register);
/** percpu_notifier_unregister - after the call none of @n's functions runs. May block. */
UKMEM_EXPORT void percpu_notifier_unregister(struct percpu_notifier *n)
	UKMEM_SYMBOL(percpu_notifier_unregister);
/**
 * percpu_cpus_update - look which CPUs the process may use now and call the notifiers
 *
 * The process may use CPUs that are online and in its cpuset as its control group shows it.
 * ukmem_trim() calls this too, unless a trim did so within the last 8 ms. Result: the number of
 * indices that changed; -EBUSY: another thread is in this function, or this thread is, in a
 * notifier; another negative errno: the system does not tell. Reads sysfs; may block.
 */
UKMEM_EXPORT int percpu_cpus_update(void) UKMEM_SYMBOL(percpu_cpus_update);

/* Called by the constructors of this header. */
UKMEM_EXPORT void ukmem_percpu_start(const void *object);
UKMEM_EXPORT void ukmem_percpu_register_static(void *start, void *stop, int trap);

UKMEM_END_DECLS

#include <ukmem/percpu_ops.h>

#endif
