/* SPDX-License-Identifier: MIT */
/* Signals that end a program, for commands that have something left to do then. */
#ifndef TOOLS_SIGNALS_H
#define TOOLS_SIGNALS_H

#include <csignal>
#include <map>

/** While it lives, signals that end a program are noted. One at a time. */
class signals
{
      public:
	signals();
	~signals();
	signals(const signals &) = delete;
	signals &operator=(const signals &) = delete;

	/** The last signal that came since the first object was made; 0: none. */
	static volatile std::sig_atomic_t came;

      private:
	std::map<int, struct sigaction> before;
};

#endif
