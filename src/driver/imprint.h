// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The part of the Python driver that Python cannot say: how the memory of an interpreter is written
 * down, and how another process goes on with it. kernels/python/cloche_kernel/imprint.py loads it,
 * and tells when this may be done.
 *
 *	source ── imprint_save() ──► goes on
 *	           └ writer, a fork: pages into a memfd, seals it, gives it to the agent
 *	copy ── imprint_enter() ──► returns from the source's imprint_save()
 *
 * Source and copy are forks of one zygote, so libraries, the stack and libc's own data lie at the
 * same addresses in both. What a mapping is (its way) is decided in Python, from /proc/self/maps;
 * the text is compared once more right before the fork, so that no mapping is missed.
 *
 * A copy maps the pages as its own, shared with all others until it writes to them. It does so on a
 * stack of its own in a place that no source uses, by bare system calls. All that it reads after
 * that, also this library's variables, is the source's. The imprint is the memory of the sandbox
 * that the process is a copy of, and nothing else is done with it. Its table is checked
 * nevertheless: what fails there fails before a page was mapped.
 *
 * Every call returns the kernel's answer: 0 or more, or a negative errno.
 */
#include "driver/system_call.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE        4096UL /* imprint.py sees to that */
#define TABLE_SIZE  (512UL << 10)
#define ENTRIES_MAX ((TABLE_SIZE - sizeof(struct head)) / sizeof(struct entry))
#define MAGIC       0x31746e6972706d69UL
#define SIGNALS     64
#define TOKEN_SIZE  16
/* Where a copy stands while it takes the memory over. */
#define SCRATCH      0x3000000000UL /* below where a kernel puts anything by itself */
#define SCRATCH_SIZE (1UL << 20)    /* stack, then the table */
#define STACK_SIZE   (64UL << 10)

#define SEALS  (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define HIDDEN __attribute__((visibility("hidden")))

struct mapping { /* as in imprint.py */
	uint64_t begin, end;
	uint32_t protection, way;
};

enum kind { KIND_PAGES, KIND_EMPTY, KIND_STACK, KIND_WIPED, KIND_DROPPABLE, KIND_COUNT };

struct entry {
	uint64_t begin, len, offset;
	uint32_t protection, kind;
};

struct head {
	uint64_t magic, brk, entries, size;
	unsigned char token[TOKEN_SIZE];
	struct entry table[];
};

struct action { /* as the kernel has it */
	uint64_t words[4];
};

/* The registers that a call keeps, and the floating-point modes. */
struct place {
	uint64_t words[24];
};

/* What the kernel keeps for the source; a copy finds it here once it has the source's memory. */
struct kept {
	unsigned char token[TOKEN_SIZE];
	struct place place;
	struct action actions[SIGNALS];
	stack_t stack;
	uint64_t mask;
};
extern struct kept kept HIDDEN;

EXPORT void imprint_init(const unsigned char *token);
EXPORT long imprint_save(int fd, const struct mapping *mappings, long n, const char *maps,
                         long maps_len, const char *tag);
EXPORT long imprint_enter(int fd);

/* Of a file with size bytes. The copy's own code is in [code_begin, code_end). -EPROTO: it may not
 * be followed; -ESTALE: it is of another zygote, whose token differs. */
HIDDEN long imprint_check_table(const struct head *h, uint64_t size, const unsigned char *token,
                                uint64_t code_begin, uint64_t code_end);

/* 0, and 1 when it returns once more by go(). */
long imprint_mark(struct place *place) HIDDEN __attribute__((returns_twice));
__attribute__((noreturn)) HIDDEN void imprint_go(const struct place *place);
/* Calls fn(arg) on another stack; it does not return. */
__attribute__((noreturn)) HIDDEN void imprint_call_on(void *stack, void (*fn)(long), long arg);

/* A thread on a stack of its own, as clone(2) with these flags; fn does not return. Its tid is
 * cleared at its end. What the kernel answers. */
HIDDEN long imprint_thread(long flags, void *stack, void (*fn)(void), int *tid);

/* imprint_pages.c: writes all pages of the table into the file, on several processors. */
HIDDEN long imprint_write_pages(int fd, const struct head *h);
HIDDEN long imprint_write_range(int fd, uint64_t begin, uint64_t end, uint64_t offset);

static inline void *copy_bytes(void *to, const void *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
	return to;
}

static inline int is_same(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (a[i] != b[i])
			return 0;
	return 1;
}
