/* SPDX-License-Identifier: MIT */
/* Bytes as requests that come by a process's socket, a line each. */
#include "input.h"
#include "live/request.h"
#include "ukmem/profile.h"
#include "ukmem/ukmem.h"

enum { LINES_MOST = 8 };

static char answer[64]; /* the beginning of a reply */
static size_t answered;

static bool keep(struct live_reply *r, const char *bytes, size_t n)
{
	(void)r;
	for (size_t i = 0; i < n && answered < sizeof(answer) - 1; i++)
		answer[answered++] = bytes[i];
	answer[answered] = '\0';
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	char line[LIVE_REQUEST_SIZE];

	kfree(kmalloc(1, GFP_KERNEL)); /* there are caches */
	for (int i = 0; i < LINES_MOST && input_more(&in); i++) {
		struct live_reply reply = { .send = keep };
		size_t n = 0;

		/* As the server cuts them: without the newline, and none longer than that. */
		for (unsigned int c; input_more(&in) && (c = input_byte(&in)) != '\n';)
			if (n < sizeof(line) - 1)
				line[n++] = (char)c;
		line[n] = '\0';
		answered = 0;
		live_request(line, &reply);
		MUST(!reply.failed && !reply.used);
		MUST(!strncmp(answer, "ukmem 1 ok\n", 11) ||
		     !strncmp(answer, "ukmem 1 error ", 14));
	}
	(void)ukmem_profile_stop();
	return 0;
}
