/* SPDX-License-Identifier: MIT */
/*
 * The requests that a process serves by its socket (server.c).
 *
 * A request is a line, of the protocol's version, a name and arguments:
 *
 *	ukmem 1 trim
 *
 * The reply is a line that says whether the request was served, and then the text that the
 * request's function writes (request.c), until the end of the connection:
 *
 *	ukmem 1 ok			ukmem 1 error it has no cache 'x'
 *	1048576
 */
#ifndef LIVE_REQUEST_H
#define LIVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "ukmem/compiler.h"

enum {
	LIVE_PROTOCOL = 1,
	LIVE_REQUEST_SIZE = 512, /* the longest request, with its newline */
	LIVE_REPLY_SIZE = 1024,	 /* bytes of a reply that are sent at once */
};

/*
 * A reply in the making. Nothing is sent before the buffer is full or the reply is complete, so
 * an error may come in place of it until then.
 * Synchronization: the server's thread alone uses it.
 */
struct live_reply {
	/* Sends bytes. False: the client has gone, or takes too long. */
	bool (*send)(struct live_reply *r, const char *bytes, size_t n);
	int client;
	bool failed; /* a send has failed: the rest is for nobody */
	size_t used;
	char buf[LIVE_REPLY_SIZE];
};

/* Does what @line says, without its newline, and replies. Changes @line. Sends everything. */
void live_request(char *line, struct live_reply *r);
/* Replies with an error, of at most 400 bytes. Sends everything. */
void live_reply_error(struct live_reply *r, const char *fmt, ...) UKMEM_PRINTF(2, 3);

#endif
