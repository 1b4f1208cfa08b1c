/* SPDX-License-Identifier: MIT */
/* The system behind os_calls, of which one kind of call fails at a chosen place. */
#ifndef SWEEP_FAULTS_H
#define SWEEP_FAULTS_H

#include <cstddef>

namespace sweep
{

/* The entries of os_calls that can fail; page_size and now_ms cannot. */
enum Call {
	MMAP,
	MUNMAP,
	MPROTECT,
	MADVISE,
	MREMAP,
	MINCORE,
	MBIND,
	MEMS_ALLOWED,
	MEMPOLICY,
	MLOCK,
	MUNLOCK,
	MEMBARRIER,
	GETRANDOM,
	READ_FILE,
	GETCPU,
	AFFINITY,
	SET_AFFINITY,
	RSEQ,
	RELEASE,
	AUXVAL,
	AS_LIMIT,
	NR_CALLS
};

struct Fault {
	Call call;
	unsigned nth; /* from 1; 0: none fails */
	bool ever;    /* all later ones, too */
	int error;
	/* Nothing is done, yet the answer is success, as if the error were ignored: of MMAP
	 * only steps of growth count, since the others' answer is an address. */
	bool untold;
};

const char *call_name(Call call);
/* What that call may say, to be tried in turn; the list ends with 0. */
const int *call_errors(Call call);

/*
 * Put all this behind os_calls as they are now, with a clock that runs fast, and a machine on
 * which a CPU goes and comes back. @scarce: address space is limited. Before the library's
 * first use.
 */
void install_faults(bool scarce);
void arm(const Fault &fault);
void disarm();
/* Calls of each kind, and those that failed, since arm(). */
unsigned calls_made(Call call);
unsigned failures();
/* Bytes of address space that the library has mapped and not given back. */
size_t mapped_bytes();
/* Whether all CPUs but the first are offline, as far as the library can see. */
void set_offline(bool offline);

} // namespace sweep

#endif
