/* SPDX-License-Identifier: MIT */
/*
 * The table of layers, and the loops over it: fork, CPUs, trim, verification.
 *
 * References to layers but live are weak, since a static program may contain only the lower
 * ones, and only the malloc drop-in has the layer malloc.
 */
#include "layer/layer.h"

#include <pthread.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/verify.h"
#include "ukmem/stats.h"

#pragma weak percpu_layer
#pragma weak kfence_layer
#pragma weak page_layer
#pragma weak slab_layer
#pragma weak kmalloc_layer
#pragma weak profile_layer
#pragma weak pool_layer
#pragma weak malloc_layer

/* Lowest first. */
static const struct layer *const layers[] = {
	&percpu_layer,	&kfence_layer, &page_layer, &slab_layer,   &kmalloc_layer,
	&profile_layer, &pool_layer,   &live_layer, &malloc_layer,
};

/* Every program has the layer live, and the description of the library's layout
 * (live/description.c). */
struct live_layout;
extern const struct live_layout live_layout;
__attribute__((used)) static const struct live_layout *const described = &live_layout;

static bool is_ready(const struct layer *l)
{
	return l && l->once && once_done(l->once);
}

const struct layer *layer_next(const struct layer *l)
{
	bool found = !l;

	for (size_t i = 0; i < ARRAY_SIZE(layers); i++) {
		if (found && is_ready(layers[i]))
			return layers[i];
		found = found || layers[i] == l;
	}
	return NULL;
}

void layers_cpus_changed(const struct os_mask *online)
{
	for_each_layer (l)
		if (l->cpus_changed)
			l->cpus_changed(online);
}

void layers_cpu_offline(unsigned int cpu)
{
	for (size_t i = ARRAY_SIZE(layers); i-- > 0;)
		if (is_ready(layers[i]) && layers[i]->cpu_offline)
			layers[i]->cpu_offline(cpu);
}

void layers_drain(struct pcpu_drain *d)
{
	bool ready[ARRAY_SIZE(layers)]; /* others may become so meanwhile */

	for (size_t i = ARRAY_SIZE(layers); i-- > 0;) {
		ready[i] = is_ready(layers[i]);
		if (ready[i] && layers[i]->drain)
			layers[i]->drain(d);
	}
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		if (ready[i] && layers[i]->drained)
			layers[i]->drained();
}

size_t layers_trim(void)
{
	size_t bytes = 0;

	for (size_t i = ARRAY_SIZE(layers); i-- > 0;)
		if (is_ready(layers[i]) && layers[i]->trim)
			bytes += layers[i]->trim();
	return bytes;
}

bool layers_start_threads(void)
{
	bool done = true;

	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		if (layers[i] && layers[i]->start_threads)
			done &= layers[i]->start_threads();
	return done;
}

static void look(struct verify *v, void *unused)
{
	(void)unused;
	for_each_layer (l)
		if (l->verify)
			l->verify(v);
}

unsigned int layers_verify(struct verify *v)
{
	return verify_run(v, look, NULL);
}

int ukmem_verify(FILE *out)
{
	struct verify v;
	unsigned int n = layers_verify(&v);

	for (unsigned int i = 0; out && i < n; i++)
		fprintf(out, "ukmem_verify: %s\n", v.text[i]);
	return (int)n;
}

/* Also calls layers that are not ready: a handler may fork in the middle of their start. */
void layers_fork_prepare(void)
{
	for (size_t i = ARRAY_SIZE(layers); i-- > 0;)
		if (layers[i] && layers[i]->fork_prepare)
			layers[i]->fork_prepare();
}

void layers_fork_parent(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		if (layers[i] && layers[i]->fork_parent)
			layers[i]->fork_parent();
}

void layers_fork_child(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		if (layers[i] && layers[i]->fork_child)
			layers[i]->fork_child();
}

/* Synchronization: the thread that runs the process's first constructors. */
static bool fork_registered written_anyway;

/*
 * A constructor registers the handlers, as early as any other library's. A layer's
 * initialisation must not: libc allocates memory for a new handler, and may do that under the
 * lock that another thread's fork needs.
 */
__attribute__((constructor(101))) void layers_register_fork(void)
{
	if (fork_registered)
		return;
	fork_registered = true;
	pthread_atfork(layers_fork_prepare, layers_fork_parent, layers_fork_child);
}
