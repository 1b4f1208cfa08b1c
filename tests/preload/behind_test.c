/* SPDX-License-Identifier: MIT */
/*
 * The drop-in stands before chroot and prctl. It passes each call on to the library that is
 * preloaded behind it (behind.c), as fakechroot may be, with all arguments.
 */
#include <sys/prctl.h>

#include "behind.h"
#include "preload_test.h"

int main(void)
{
	CHECK(chroot("/") == BEHIND_CHROOT + 1, "chroot went elsewhere");
	CHECK(prctl(PR_GET_DUMPABLE, 10ul, 200ul, 3000ul, 40000ul) ==
		      BEHIND_PRCTL + PR_GET_DUMPABLE + 43210,
	      "prctl went elsewhere");
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1ul, 0ul, 0ul, 0ul) ==
		      BEHIND_PRCTL + PR_SET_NO_NEW_PRIVS + 1,
	      "prctl went elsewhere");
	puts("the calls went on");
	return 0;
}
