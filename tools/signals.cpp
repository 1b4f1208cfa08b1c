/* SPDX-License-Identifier: MIT */
#include "signals.h"

volatile std::sig_atomic_t signals::came;

static void note_signal(int signal)
{
	signals::came = signal;
}

signals::signals()
{
	struct sigaction action = {};

	action.sa_handler = note_signal; /* without SA_RESTART: it ends a wait */
	for (int s : { SIGINT, SIGTERM, SIGHUP }) {
		sigaction(s, &action, &before[s]);
		if (before[s].sa_handler == SIG_IGN)
			sigaction(s, &before[s], nullptr);
	}
}

signals::~signals()
{
	for (const auto &[s, action] : before)
		sigaction(s, &action, nullptr);
}
