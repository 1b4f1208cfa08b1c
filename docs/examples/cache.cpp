/* SPDX-License-Identifier: MIT */
/* A cache of objects that have constructors. */
#include <cassert>
#include <string>
#include <ukmem/cache.hpp>

struct session {
	session(int socket, std::string user) : socket(socket), user(std::move(user))
	{
	}

	int socket;
	std::string user;
};

int main()
{
	ukmem::cache<session> sessions("session");
	session *first = sessions.create(3, "ada");

	{
		ukmem::cache_ptr<session> second = sessions.make(4, "grace");

		assert(second->user == "grace" && sessions.size() == 2);
	}
	assert(first->socket == 3 && sessions.size() == 1);
	sessions.destroy(first);

	/* Where a signal handler may be, or waiting is forbidden: nullptr if there is no
	 * memory. */
	session *third = sessions.try_create(GFP_NOWAIT, 5, "edsger");

	sessions.destroy(third);
	sessions.shrink();
	return 0;
}
