/* SPDX-License-Identifier: MIT */
/* <asm/barrier.h>: smp_mb and its kind are in <linux/atomic.h>. */
#include <linux/atomic.h>
