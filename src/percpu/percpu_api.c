/* SPDX-License-Identifier: MIT */
/* The program's functions that initialise the library. */
#include <dlfcn.h>
#include <errno.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/report.h"
#include "percpu/notify.h"
#include "percpu/owner.h"
#include "percpu/percpu.h"
#include "percpu/percpu_alloc.h"
#include "percpu/percpu_init.h"
#include "percpu/percpu_static.h"
#include "percpu/register.h"

void *__alloc_percpu_gfp(size_t size, size_t align, gfp_t flags)
{
	bool may_block = flags & __GFP_DIRECT_RECLAIM;
	/* Initialisation enters the kernel, so a request that may not do so fails before it. */
	bool ready = may_block ? pcpu_init() : pcpu_is_ready();
	void *first = ready ? pcpu_alloc_for(size, align, may_block) : NULL;

	return first ? pcpu_handle(first) : NULL;
}

void *__alloc_percpu(size_t size, size_t align)
{
	return __alloc_percpu_gfp(size, align, GFP_KERNEL);
}

void free_percpu(void *handle)
{
	if (handle && (!pcpu_init() || !pcpu_try_free(pcpu_first(handle))))
		report_invalid("free_percpu()", handle, "not a handle of alloc_percpu",
			       CALLER_ADDRESS);
}

unsigned int ukmem_percpu_next(unsigned int i)
{
	return pcpu_init() ? pcpu_next_unit(i) : UINT32_MAX;
}

unsigned int ukmem_percpu_count(void)
{
	unsigned int n = 0;

	if (!pcpu_init())
		return 0;
	for_each_unit (i)
		n++;
	return n;
}

unsigned int ukmem_percpu_index(void)
{
	return pcpu_init() ? pcpu_index() : 0;
}

int percpu_cpus_update(void)
{
	return pcpu_init() ? pcpu_cpus_update() : -ENOMEM;
}

int percpu_owner_enter(void)
{
	return pcpu_init() ? pcpu_owner_enter() : -ENOMEM;
}

void ukmem_percpu_register_static(void *start, void *stop, int trap)
{
	if (!pcpu_init())
		log_fatal("static per-CPU variables: no memory for the first chunk");
	pcpu_static_register(start, stop, trap);
}

/* Weak, because a static program does not have them, nor libraries to keep loaded. */
extern int dladdr(const void *, Dl_info *) __attribute__((weak));
extern void *dlsym(void *, const char *) __attribute__((weak));

/* Keeps @object loaded for ever: its sections must stay mapped as long as the rseq_cs of any
 * thread may point into it. */
static void keep_loaded(const void *object)
{
	void *(*open)(const char *, int) = NULL;
	Dl_info info;

	if (!dladdr || !dlsym || !dladdr(object, &info) || !info.dli_fname || !*info.dli_fname)
		return;
	/* Looked up by name, because a static link would warn of a reference. */
	*(void **)&open = dlsym(RTLD_DEFAULT, "dlopen");
	if (open)
		open(info.dli_fname, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY);
}

void ukmem_percpu_start(const void *object)
{
	pcpu_init();
	keep_loaded(object);
}
