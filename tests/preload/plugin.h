/* SPDX-License-Identifier: MIT */
/* What plugin.so, a library loaded late by tests, offers. */
#ifndef PLUGIN_H
#define PLUGIN_H

/* plugin_exchange - frees @given; the result is the caller's to free. */
char *plugin_exchange(char *given);
/* plugin_end_thread - to be called at the end of each thread that exchanged. */
void plugin_end_thread(void);

#endif
