/* SPDX-License-Identifier: MIT */
/*
 * The system's own <linux/...> are found behind those of the compat folder, and both can be
 * used in one file, whichever comes first.
 */
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/mm.h>
#include <linux/netlink.h>
#include <sys/sysinfo.h>
#include <sys/user.h>

#include <linux/fs.h>
#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/mempolicy.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/userfaultfd.h>

struct sysinfo compat_uapi_info;
int compat_uapi_values[] = {
	FUTEX_WAIT, MPOL_BIND, MODULE_INIT_IGNORE_VERMAGIC, NETLINK_ROUTE, ETH_ALEN, E2BIG,
};
u64 compat_uapi_u64 = sizeof(struct io_uring_params) + sizeof_field(struct nlmsghdr, nlmsg_len);
