/* SPDX-License-Identifier: MIT */
#include "gate_shim.h"

#include "base/verify.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"
#include "percpu/percpu_init.h"

bool shim_gate_init(void)
{
	return pcpu_init();
}

void shim_gate_enter(bool may_wait)
{
	pcpu_gate_enter(may_wait);
}

bool shim_gate_try_enter(void)
{
	return pcpu_gate_try_enter();
}

void shim_gate_leave(void)
{
	pcpu_gate_leave();
}

bool shim_gate_is_closed(void)
{
	return pcpu_gate_is_closed();
}

bool shim_gate_is_inside(void)
{
	return pcpu_gate_depth;
}

bool shim_gate_is_forced(void)
{
	return pcpu_gate_is_forced();
}

void shim_gate_close(void)
{
	pcpu_gate_close();
}

void shim_gate_open(void)
{
	pcpu_gate_open();
}

void shim_gate_fork_child(void)
{
	pcpu_gate_fork_child();
}

bool shim_gate_wrong(void)
{
	struct verify v = { .n = 0 };

	pcpu_gate_verify(&v);
	return v.n;
}
