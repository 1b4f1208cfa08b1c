/* SPDX-License-Identifier: MIT */
/* A heap profile of a part of the program, as text that pprof reads. */
#include <ukmem/kmalloc.h>
#include <ukmem/profile.h>
#include <unistd.h>

/* On the average, each 64 KiB that are allocated give a sample. */
static int profile(void (*part)(void))
{
	int err = ukmem_profile_start(65536);

	if (err)
		return err;
	part();
	err = ukmem_profile_stop();
	return err ? err : ukmem_profile_dump(STDOUT_FILENO);
}

static void allocate(void)
{
	for (int i = 0; i < 10000; i++)
		kfree(kmalloc(1000, GFP_KERNEL));
}

int main(void)
{
	return profile(allocate) ? 1 : 0;
}
