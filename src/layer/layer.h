/* SPDX-License-Identifier: MIT */
/*
 * The layers of the library, in one table (layer.c). Each layer has functions for fork, for
 * CPUs that come and go, for giving memory back, for statistics and for verification.
 *
 * A layer defines one struct layer. A statically linked program contains only the layers that
 * it uses. Nothing is registered at run time: the table gives the order.
 */
#ifndef LAYER_LAYER_H
#define LAYER_LAYER_H

#include <stdbool.h>
#include <stddef.h>

struct once;
struct ukmem_gauges;
struct emitter;
struct pcpu_drain;
struct verify;
struct os_mask;

/*
 * Functions may be NULL. The functions for fork are always called, the others only after the
 * layer's initialisation.
 */
struct layer {
	struct once *once; /* its initialisation; NULL: it has none, and is never ready */
	/* Around fork, in this process and in the child. */
	void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
	/* The CPUs online are no longer those of the last look. */
	void (*cpus_changed)(const struct os_mask *online);
	/* Threads use CPU index @cpu no longer: it is offline, or the process may not use it.
	 * The lowest layer empties the arrays of all layers then, by drain. */
	void (*cpu_offline)(unsigned int cpu);
	/* The first adds the layer's per-CPU arrays to a drain (percpu/drain.h), and keeps
	 * other threads from freeing them; the second ends that. */
	void (*drain)(struct pcpu_drain *d), (*drained)(void);
	size_t (*trim)(void); /* gives memory back, after a drain; result: bytes */
	void (*gauges)(struct ukmem_gauges *g);	  /* adds to the gauges; no system call */
	void (*resident)(struct ukmem_gauges *g); /* adds gauges that need one */
	void (*emit)(struct emitter *e);	  /* writes objects and tables */
	void (*report)(
		void); /* logs what the layer has, when a request failed; waits for no lock */
	void (*verify)(struct verify *v); /* checks the layer's invariants */
	/* Starts the layer's threads if they are wanted. The caller holds no lock of the
	 * library or of libc. False: not now, but perhaps later. Always called. */
	bool (*start_threads)(void);
};

extern const struct layer percpu_layer, kfence_layer, page_layer, slab_layer, kmalloc_layer,
	profile_layer, pool_layer, live_layer;
/* The drop-in's; hidden, so that the dynamic linker does not look for it in the others. */
extern const struct layer malloc_layer __attribute__((visibility("hidden")));

/* The next layer above @l that is ready, or the lowest one; NULL: there is none. */
const struct layer *layer_next(const struct layer *l);

#define for_each_layer(l) for (const struct layer *l = layer_next(NULL); l; l = layer_next(l))

/* Calls the layers, lowest first. */
void layers_cpus_changed(const struct os_mask *online);
/* Highest first: a higher layer frees to a lower one, which then has more to give. The lowest
 * layer, percpu, empties the arrays that the others have added. */
void layers_drain(struct pcpu_drain *d);
void layers_cpu_offline(unsigned int cpu);
size_t layers_trim(void);
/* False: a layer's threads are to be started later. */
bool layers_start_threads(void);
/* Registers the functions for fork, unless they are. The library's constructor calls it; the
 * drop-in does, too, before any other library registers some (malloc/bootstrap.c). */
void layers_register_fork(void);
/* These functions, for what makes a process without libc's fork. */
void layers_fork_prepare(void);
void layers_fork_parent(void);
void layers_fork_child(void);
/* As ukmem_verify(), with the findings in @v. */
unsigned int layers_verify(struct verify *v);

#endif
