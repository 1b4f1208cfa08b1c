/* SPDX-License-Identifier: MIT */
/* deep/sub/libdeep_inner.so: what deep_plugin.so opens. */
int inner(void);

int inner(void)
{
	return 1;
}
