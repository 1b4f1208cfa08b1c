/* SPDX-License-Identifier: MIT */
#include "page/vm_event.h"

#include "base/assert.h"

struct vm_events *vm_events;

const char *const vm_event_names[NR_VM_EVENTS] = {
#define VM_EVENT_NAME(item, name) [item] = (name),
	VM_EVENTS(VM_EVENT_NAME)
#undef VM_EVENT_NAME
};

bool vm_events_init(void)
{
	if (!vm_events)
		vm_events = alloc_percpu(struct vm_events);
	return vm_events != NULL;
}

uint64_t vm_event_sum(enum vm_event item)
{
	debug_assert((unsigned int)item < NR_VM_EVENTS);
	return per_cpu_sum(vm_events->event[item]);
}
