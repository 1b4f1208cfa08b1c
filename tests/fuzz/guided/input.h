/* SPDX-License-Identifier: MIT */
/* Bytes of a fuzzer as numbers: what a target does is read from them, until there are no more.
 */
#ifndef GUIDED_INPUT_H
#define GUIDED_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
	const uint8_t *at, *end;
};

/* A target: what libFuzzer, and replay.c, call for each input. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline bool input_more(const struct input *in)
{
	return in->at < in->end;
}

/* The next byte; 0 behind the end. */
static inline unsigned int input_byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static inline unsigned int input_below(struct input *in, unsigned int n)
{
	return input_byte(in) % n;
}

/* A size from 0 to 2^@max_shift: small ones are more frequent. */
static inline size_t input_size(struct input *in, unsigned int max_shift)
{
	unsigned int shift = input_below(in, max_shift + 1), high = input_byte(in),
		     low = input_byte(in);

	return ((size_t)(high << 8 | low) << shift) >> 16;
}

/* The text up to a zero byte, in memory of its own. */
static inline char *input_text(struct input *in)
{
	size_t len = strnlen((const char *)in->at, (size_t)(in->end - in->at));
	char *s = malloc(len + 1);

	if (!s)
		abort();
	memcpy(s, in->at, len);
	s[len] = '\0';
	in->at += len;
	if (in->at < in->end)
		in->at++;
	return s;
}

/* True once in sixteen calls: for what takes longer than an input. */
static inline bool input_seldom(void)
{
	static unsigned int calls;

	return calls++ % 16 == 0;
}

/* Ends the process unless @what holds. */
#define MUST(what)                                                                             \
	do {                                                                                   \
		if (!(what)) {                                                                 \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__,       \
				#what);                                                        \
			abort();                                                               \
		}                                                                              \
	} while (0)

/* Memory handed out, each byte with a value that follows from its slot. */
struct block {
	unsigned char *p;
	size_t size;
	unsigned char mark;
};

static inline void block_fill(struct block *b, void *p, size_t size, unsigned int mark)
{
	*b = (struct block){ p, size, (unsigned char)mark };
	memset(p, b->mark, size);
}

/* The first @n bytes are as they were filled. */
static inline void block_check(const struct block *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		MUST(b->p[i] == b->mark);
}

#endif
