/* SPDX-License-Identifier: MIT */
/* A number where a pointer should be; NULL would be fine. */
#include "misuse.h"

#include <stddef.h>
#include <stdint.h>

void *misuse_bug(void)
{
	volatile uintptr_t number = 1;
	return (void *)number;
}

void *misuse_control(void)
{
	return NULL;
}
