/* SPDX-License-Identifier: MIT */
/*
 * <linux/cleanup.h> - what is freed, and which locks are released, when a variable goes out of
 * scope.
 *
 * 	char *name __free(kfree) = kstrdup(s, GFP_KERNEL);
 * 	...
 * 	return_ptr(name);		not freed: the caller owns it
 *
 * 	guard(mutex)(&table->lock);	released at the end of the block
 * 	scoped_guard(spinlock_irqsave, &table->lock) {
 * 		...			released behind it, also by break, goto and return
 * 	}
 * 	scoped_cond_guard(mutex_try, return -EBUSY, &table->lock) {
 * 		...
 * 	}
 *
 * <linux/mutex.h>, <linux/spinlock.h> and <linux/rwsem.h> have guards of their locks.
 *
 * A class is a type with a constructor and a destructor. In what a class is defined by, _T is
 * its value: an expression that cleans it up, or that a lock is taken and released by.
 */
#ifndef UKMEM_COMPAT_LINUX_CLEANUP_H
#define UKMEM_COMPAT_LINUX_CLEANUP_H

#include <stddef.h>

#include <linux/compiler.h>

#define UKMEM_OF_CLASS static inline __attribute__((__unused__))
#ifdef __cplusplus
#define UKMEM_ALL_ZERO                                                                         \
	{                                                                                      \
	}
#else
#define UKMEM_ALL_ZERO                                                                         \
	{                                                                                      \
		0                                                                              \
	}
#endif
#define UKMEM_AT_END(function) __attribute__((__cleanup__(function), __unused__))

#define DEFINE_FREE(name, type, action)                                                        \
	UKMEM_OF_CLASS void __free_##name(void *variable)                                      \
	{                                                                                      \
		type _T = *(type *)variable;                                                   \
		action;                                                                        \
	}
#define __free(name) __attribute__((__cleanup__(__free_##name)))

#define no_free_ptr(p)                                                                         \
	__extension__({                                                                        \
		__typeof__(p) ukmem_taken = (p);                                               \
		(p) = NULL;                                                                    \
		ukmem_taken;                                                                   \
	})
#define return_ptr(p) return no_free_ptr(p)
#define retain_and_null_ptr(p) ((void)no_free_ptr(p))

/* @...: the parameters of the constructor, whose result is @init. */
#define DEFINE_CLASS(name, type, exit, init, ...)                                              \
	typedef type class_##name##_t;                                                         \
	UKMEM_OF_CLASS void class_##name##_destructor(class_##name##_t *variable)              \
	{                                                                                      \
		class_##name##_t _T = *variable;                                               \
		exit;                                                                          \
	}                                                                                      \
	UKMEM_OF_CLASS class_##name##_t class_##name##_constructor(__VA_ARGS__)                \
	{                                                                                      \
		return init;                                                                   \
	}
/* Another constructor of the class, whose name is that of the class and @ext. */
#define EXTEND_CLASS(name, ext, init, ...)                                                     \
	typedef class_##name##_t class_##name##ext##_t;                                        \
	UKMEM_OF_CLASS void class_##name##ext##_destructor(class_##name##_t *variable)         \
	{                                                                                      \
		class_##name##_destructor(variable);                                           \
	}                                                                                      \
	UKMEM_OF_CLASS class_##name##_t class_##name##ext##_constructor(__VA_ARGS__)           \
	{                                                                                      \
		return init;                                                                   \
	}
/* CLASS(name, variable)(arguments of the constructor); */
#define CLASS(name, variable)                                                                  \
	class_##name##_t variable UKMEM_AT_END(class_##name##_destructor) =                    \
		class_##name##_constructor

/* The lock that a guard holds; NULL, in a class that is conditional: it could not be had. */
#define UKMEM_HELD_BY(name, conditional, held)                                                 \
	enum { class_##name##_is_conditional = conditional };                                  \
	UKMEM_OF_CLASS void *class_##name##_lock_ptr(const class_##name##_t *guard)            \
	{                                                                                      \
		return (void *)(held);                                                         \
	}

/* A guard of locks of @type, a pointer. */
#define DEFINE_GUARD(name, type, lock, unlock)                                                 \
	DEFINE_CLASS(                                                                          \
		name, type, if (_T) { unlock; }, __extension__({                               \
			lock;                                                                  \
			_T;                                                                    \
		}),                                                                            \
		type _T)                                                                       \
	UKMEM_HELD_BY(name, 0, *guard)
/* One that holds the lock if @condlock is true. */
#define DEFINE_GUARD_COND(name, ext, condlock)                                                 \
	EXTEND_CLASS(name, ext, (_T && (condlock)) ? _T : NULL, class_##name##_t _T)           \
	UKMEM_HELD_BY(name##ext, 1, *guard)

/* A guard that keeps a pointer and @..., members, while it has the lock: _T->lock, _T->member.
 * Its constructor has the parameter @parameter; @held is the pointer. */
#define UKMEM_LOCK_GUARD(name, type, parameter, held, lock_it, unlock_it, ...)                 \
	typedef struct {                                                                       \
		type *lock;                                                                    \
		__VA_ARGS__;                                                                   \
	} class_##name##_t;                                                                    \
	UKMEM_OF_CLASS void class_##name##_destructor(class_##name##_t *_T)                    \
	{                                                                                      \
		if (_T->lock) {                                                                \
			unlock_it;                                                             \
		}                                                                              \
	}                                                                                      \
	UKMEM_OF_CLASS class_##name##_t class_##name##_constructor(parameter)                  \
	{                                                                                      \
		class_##name##_t guard = UKMEM_ALL_ZERO, *_T = &guard;                         \
                                                                                               \
		_T->lock = held;                                                               \
		lock_it;                                                                       \
		return guard;                                                                  \
	}                                                                                      \
	UKMEM_HELD_BY(name, 0, guard->lock)
/* A guard of a lock. */
#define DEFINE_LOCK_GUARD_1(name, type, lock_it, unlock_it, ...)                               \
	UKMEM_LOCK_GUARD(name, type, type *lock, lock, lock_it, unlock_it, __VA_ARGS__)
#define DEFINE_LOCK_GUARD_1_COND(name, ext, condlock)                                          \
	EXTEND_CLASS(name, ext, __extension__({                                                \
			     class_##name##_t guard = UKMEM_ALL_ZERO, *_T = &guard;            \
                                                                                               \
			     _T->lock = l;                                                     \
			     if (!_T->lock || !(condlock))                                     \
				     _T->lock = NULL;                                          \
			     guard;                                                            \
		     }),                                                                       \
		     __typeof__(((class_##name##_t *)NULL)->lock) l)                           \
	UKMEM_HELD_BY(name##ext, 1, guard->lock)
/* A guard of what is no variable. */
#define DEFINE_LOCK_GUARD_0(name, lock_it, unlock_it, ...)                                     \
	UKMEM_LOCK_GUARD(name, void, void, (void *)1, lock_it, unlock_it, __VA_ARGS__)

/* guard(name)(lock); until the end of the block. */
#define guard(name) CLASS(name, __UNIQUE_ID(guard))

/*
 * A loop of one round, whose step jumps to its break. So the compiler sees that a body which
 * returns is the end of a function, unless the lock may not have been had.
 */
#define UKMEM_SCOPED(name, scope, end, otherwise, ...)                                         \
	for (CLASS(name, scope)(__VA_ARGS__);; __extension__({ goto end; }))                   \
		if (0) {                                                                       \
end:                                                                                           \
			break;                                                                 \
		} else if (class_##name##_is_conditional &&                                    \
			   !class_##name##_lock_ptr(&scope)) {                                 \
			otherwise;                                                             \
		} else
#define scoped_guard(name, ...)                                                                \
	UKMEM_SCOPED(name, __UNIQUE_ID(scope), __UNIQUE_ID(end), , __VA_ARGS__)
/* @fail: a statement, where the lock could not be had. */
#define scoped_cond_guard(name, fail, ...)                                                     \
	UKMEM_SCOPED(name, __UNIQUE_ID(scope), __UNIQUE_ID(end), fail, __VA_ARGS__)

#endif
