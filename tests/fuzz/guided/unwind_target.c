/* SPDX-License-Identifier: MIT */
/* Bytes as a file with unwind tables, which begins with the sorted table (.eh_frame_hdr). The
 * first two bytes say where in it, or a little behind it, the code lies that is looked up. */
#include <sys/mman.h>

#include "base/unwind_rule.h"
#include "input.h"

enum { PLACE = 64 << 10 };

/* Memory that ends where a page begins that cannot be read, so nothing is read behind a file.
 */
static uint8_t *place(void)
{
	static uint8_t *memory;

	if (!memory) {
		memory = mmap(NULL, 2 * (size_t)PLACE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED || mprotect(memory + PLACE, PLACE, PROT_NONE))
			abort();
	}
	return memory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	size_t at = input_byte(&in);
	struct unwind_file f;
	struct rule r, again;
	uint8_t *file;

	at |= (size_t)input_byte(&in) << 8;
	size = (size_t)(in.end - in.at);
	if (size > PLACE)
		return 0;
	file = place() + PLACE - size;
	memcpy(file, in.at, size);
	f = (struct unwind_file){ file, file, file + size };
	/* What it makes of the bytes follows from them alone. */
	r = unwind_read_rule(&f, (uintptr_t)file + at);
	again = unwind_read_rule(&f, (uintptr_t)file + at);
	MUST(r.kind == again.kind && r.cfa == again.cfa && r.rbp == again.rbp);
	return 0;
}
