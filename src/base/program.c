/* SPDX-License-Identifier: MIT */
#include "base/program.h"

#include <errno.h>

#include "base/bits.h"
#include "base/text.h"

static char name[256]; /* as long as a file's may be; "": libc had none yet */

void program_note(void)
{
	size_t n = min_size(strlen(program_invocation_short_name), sizeof(name) - 1);

	memcpy(name, program_invocation_short_name, n);
}

const char *program_name(void)
{
	return *name ? name : program_invocation_short_name;
}
