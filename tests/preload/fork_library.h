/* SPDX-License-Identifier: MIT */
#ifndef FORK_LIBRARY_H
#define FORK_LIBRARY_H

/* Opens and closes a file under the library's lock, which its handlers take around fork. */
void library_log(void);
/* In a child: waits for the threads that the library's handler has started there. */
void library_join(void);

#endif
