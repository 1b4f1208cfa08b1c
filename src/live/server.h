/* SPDX-License-Identifier: MIT */
/* The process's socket, and the thread that serves it; see server.c. */
#ifndef LIVE_SERVER_H
#define LIVE_SERVER_H

#include "layer/layer.h"

/* The beginning of the socket's name; the PID, "/" and random hexadecimal digits follow. The
 * name is abstract: it begins with a zero byte, and belongs to no file. */
#define LIVE_SOCKET_NAME "ukmem/"

#endif
