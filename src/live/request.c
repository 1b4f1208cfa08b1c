/* SPDX-License-Identifier: MIT */
/*
 * The table of requests. A row calls functions of lower layers, which do not know of requests.
 * References to these functions are weak, since a static program may contain only some layers.
 *
 * The functions run in the server's thread, in which the program's files are not open
 * (server.c). They hold no lock while they send, because a client may be slow.
 */
#include "live/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/decimal.h"
#include "base/text.h"
#include "base/verify.h"
#include "layer/layer.h"
#include "slab/slab_list.h"
#include "ukmem/profile.h"
#include "ukmem/stats.h"

#pragma weak ukmem_trim
#pragma weak slab_pin
#pragma weak slab_unpin
#pragma weak kmem_cache_attr_store
#pragma weak ukmem_profile_start
#pragma weak ukmem_profile_stop

static void flush(struct live_reply *r)
{
	r->failed = r->failed || !r->send(r, r->buf, r->used);
	r->used = 0;
}

static void reply_bytes(struct live_reply *r, const char *bytes, size_t n)
{
	while (n && !r->failed) {
		size_t part = sizeof(r->buf) - r->used;

		part = part < n ? part : n;
		memcpy(r->buf + r->used, bytes, part);
		r->used += part;
		bytes += part;
		n -= part;
		if (r->used == sizeof(r->buf))
			flush(r);
	}
}

/* At most 400 bytes. */
static void reply_list(struct live_reply *r, const char *fmt, va_list ap)
{
	char text[400];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n > 0)
		reply_bytes(r, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

UKMEM_PRINTF(2, 3)
static void reply_text(struct live_reply *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	reply_list(r, fmt, ap);
	va_end(ap);
}

static void reply_ok(struct live_reply *r)
{
	reply_text(r, "ukmem %d ok\n", LIVE_PROTOCOL);
}

void live_reply_error(struct live_reply *r, const char *fmt, ...)
{
	va_list ap;

	reply_text(r, "ukmem %d error ", LIVE_PROTOCOL);
	va_start(ap, fmt);
	reply_list(r, fmt, ap);
	va_end(ap);
	reply_text(r, "\n");
	flush(r);
}

/* Replies with the number of bytes that the process has given back to the system. */
static void trim(char *arguments, struct live_reply *r)
{
	(void)arguments;
	if (!ukmem_trim) {
		live_reply_error(r, "the program has no layer of the library that has memory");
		return;
	}

	size_t bytes = ukmem_trim();

	reply_ok(r);
	reply_text(r, "%zu\n", bytes);
}

/* Cuts the last word off a text. Result: that word; NULL: there is only one. */
static char *cut_word(char *text)
{
	const char *space = text_find_last(text, ' ');
	size_t len = space ? (size_t)(space - text) : 0;

	if (!space)
		return NULL;
	text[len] = '\0';
	return text + len + 1;
}

/* Arguments: CACHE NAME VALUE. A name of a cache may have spaces. */
static void set_attribute(char *arguments, struct live_reply *r)
{
	const char *value = cut_word(arguments), *name = value ? cut_word(arguments) : NULL;
	struct kmem_cache *s;
	int err;

	if (!name || !*arguments || !*name || !*value) {
		live_reply_error(r, "attr needs CACHE NAME VALUE");
		return;
	}
	s = slab_pin ? slab_pin(arguments) : NULL;
	if (!s) {
		live_reply_error(r, "it has no cache '%.64s'", arguments);
		return;
	}
	err = kmem_cache_attr_store(s, name, value);
	slab_unpin();
	switch (err) {
	case 0:
		reply_ok(r);
		break;
	case -ENOENT:
		live_reply_error(r, "caches have no attribute '%.64s'", name);
		break;
	case -EACCES:
		live_reply_error(r, "the attribute '%.64s' cannot be set", name);
		break;
	case -EINVAL:
		live_reply_error(r, "'%.64s' is no value for '%.64s'", value, name);
		break;
	case -ENOMEM:
		live_reply_error(r, "it has no memory for that");
		break;
	case -EUCLEAN:
		live_reply_error(r, "the cache is not sound: its process has logged why");
		break;
	default:
		live_reply_error(r, "'%.64s' was not set", name);
	}
}

static void reply_profile(struct live_reply *r, int err)
{
	switch (err) {
	case 0:
		reply_ok(r);
		break;
	case -EINVAL:
		live_reply_error(r, "a profile that was started before keeps its interval, and "
				    "that has to be from 1024 to 1073741824");
		break;
	case -EOPNOTSUPP:
		live_reply_error(r, "a hardened process has no heap profile");
		break;
	case -EBUSY:
		live_reply_error(r, "another thread starts or stops the profile");
		break;
	default:
		live_reply_error(r, "it has no memory for that");
	}
}

/* Arguments: start, start BYTES, or stop. */
static void profile(char *arguments, struct live_reply *r)
{
	const char *number = cut_word(arguments);
	uint64_t interval = 0;

	if (!ukmem_profile_start)
		live_reply_error(r, "the program was linked without the heap profile");
	else if (text_is(arguments, "stop") && !number)
		reply_profile(r, ukmem_profile_stop());
	else if (text_is(arguments, "start") &&
		 (!number || (parse_decimal(&number, &interval) && !*number)))
		reply_profile(r, ukmem_profile_start(interval));
	else
		live_reply_error(r, "profile needs start, start BYTES, or stop");
}

/* Replies with a line for each finding. */
static void verify(char *arguments, struct live_reply *r)
{
	struct verify v;
	unsigned int n = layers_verify(&v);

	(void)arguments;
	reply_ok(r);
	for (unsigned int i = 0; i < n; i++)
		reply_text(r, "%s\n", v.text[i]);
}

static const struct request {
	const char *name;
	bool has_arguments;
	void (*run)(char *arguments, struct live_reply *r);
} requests[] = {
	{ "trim", false, trim },
	{ "attr", true, set_attribute },
	{ "profile", true, profile },
	{ "verify", false, verify },
};

/* Moves *@text behind @word and a space, or to the end behind the word. */
static bool skip_word(char **text, const char *word)
{
	size_t n = strlen(word);

	if (!text_same(*text, word, n) || ((*text)[n] && (*text)[n] != ' '))
		return false;
	*text += n + !!(*text)[n];
	return true;
}

void live_request(char *line, struct live_reply *r)
{
	if (!skip_word(&line, "ukmem")) {
		live_reply_error(r, "this is no request");
		return;
	}
	if (!skip_word(&line, "1")) {
		live_reply_error(r, "its library, version %s, knows only protocol %d",
				 UKMEM_VERSION, LIVE_PROTOCOL);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		if (!skip_word(&line, requests[i].name))
			continue;
		if (*line && !requests[i].has_arguments)
			live_reply_error(r, "%s has no arguments", requests[i].name);
		else
			requests[i].run(line, r);
		flush(r);
		return;
	}
	live_reply_error(r, "its library, version %s, knows no request '%.32s'", UKMEM_VERSION,
			 line);
}

_Static_assert(LIVE_PROTOCOL == 1, "live_request() says so");
