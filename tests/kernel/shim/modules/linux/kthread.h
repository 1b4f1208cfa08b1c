/* SPDX-License-Identifier: MIT */
/* <linux/kthread.h>: threads of pthreads, registered with liburcu. */
#ifndef KERNEL_SHIM_KTHREAD_H
#define KERNEL_SHIM_KTHREAD_H

#include <linux/err.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include <pthread.h>

struct task_struct {
	pthread_t thread;
	int (*function)(void *data);
	void *data;
	int stop, result;
};

static __thread struct task_struct *shim_current;

static inline void *shim_kthread(void *task)
{
	shim_current = task;
	rcu_register_thread();
	shim_current->result = shim_current->function(shim_current->data);
	rcu_unregister_thread();
	return NULL;
}

static inline struct task_struct *shim_kthread_run(int (*function)(void *data), void *data)
{
	struct task_struct *task = kzalloc(sizeof(*task), GFP_KERNEL);

	if (!task)
		return ERR_PTR(-ENOMEM);
	task->function = function;
	task->data = data;
	if (!pthread_create(&task->thread, NULL, shim_kthread, task))
		return task;
	kfree(task);
	return ERR_PTR(-EAGAIN);
}
#define kthread_run(function, data, ...) shim_kthread_run((function), (data))

#define kthread_should_stop() __atomic_load_n(&shim_current->stop, __ATOMIC_ACQUIRE)

/* Waits for the thread's end. Result: its function's. */
static inline int kthread_stop(struct task_struct *task)
{
	int result;

	__atomic_store_n(&task->stop, 1, __ATOMIC_RELEASE);
	pthread_join(task->thread, NULL);
	result = task->result;
	kfree(task);
	return result;
}

#endif
