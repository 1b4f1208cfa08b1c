/* SPDX-License-Identifier: MIT */
#include "percpu_tls.h"

__thread uint64_t percpu_tls_words[8];

/* Exported one by one, so that each has an address of its own to be asked for. */
#define TLS_WORDS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define DEFINE_WORD(i)                                                                         \
	extern "C" __thread uint64_t percpu_tls_word##i;                                       \
	__thread uint64_t percpu_tls_word##i;
#define ADD_WORD(i) percpu_tls_word##i += 1;

TLS_WORDS(DEFINE_WORD)

void percpu_tls_add(size_t i)
{
	percpu_tls_words[i] += 1;
}

void percpu_tls_add_each(void)
{
	TLS_WORDS(ADD_WORD)
}
