// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Variables that release themselves. One that is declared with an auto_* word is released when its
 * scope ends, so set it where you declare it (NULL and -1 are fine). take_*() hands the value over
 * to the caller.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a)                   (sizeof(a) / sizeof((a)[0]))
#define BIT(n)                          (1U << (n))
#define BIT64(n)                        (UINT64_C(1) << (n))
#define MIN(a, b)                       ((a) < (b) ? (a) : (b))
#define MAX(a, b)                       ((a) > (b) ? (a) : (b))
#define must_check                      __attribute__((warn_unused_result))
#define printf_like(fmt, first)         __attribute__((format(printf, fmt, first)))
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Casts const away from what free() and exec() want without it. */
static inline void *unconst(const void *p)
{
	return (void *)(uintptr_t)p;
}

static inline void auto_freep(void *p)
{
	free(*(void **)p);
}

/* Closes, and keeps errno, which the caller may not have reported yet. */
static inline void auto_closep(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

#define auto_free     __attribute__((cleanup(auto_freep)))
#define auto_fd       __attribute__((cleanup(auto_closep)))
#define auto_call(fn) __attribute__((cleanup(fn)))

/* Defines x_freep() for auto_call() from x_free(). */
#define DEFINE_FREEP(type, fn)                                                                     \
	static inline void fn##p(type **p)                                                         \
	{                                                                                          \
		fn(*p);                                                                            \
	}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define take_ptr(p)                                                                                \
	({                                                                                         \
		typeof(p) taken_ = (p);                                                            \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

/* These abort when memory runs out. Use them for sizes that we choose, never for a size that a
 * client or guest chooses. */
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) printf_like(1, 2);
#define xnew0(type)     ((type *)xcalloc(1, sizeof(type)))
#define xnew0n(type, n) ((type *)xcalloc((n), sizeof(type)))
