/* SPDX-License-Identifier: MIT */
/* Events are not traced. */
#define trace_ma_op(...) ((void)0)
#define trace_ma_read(...) ((void)0)
#define trace_ma_write(...) ((void)0)
