/* SPDX-License-Identifier: MIT */
/* An address on the stack in place of a block. */
#include "misuse.h"

#include <stdlib.h>

void *misuse_bug(void)
{
	return __builtin_frame_address(0);
}

void *misuse_control(void)
{
	return malloc(48);
}
