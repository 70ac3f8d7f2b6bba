// SPDX-License-Identifier: Apache-2.0
/* A copy's side: it checks the table, and takes the source's memory over on a stack of its own. */
#include "driver/imprint.h"

#include <errno.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <sys/mman.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

/* The linker's: where this library's code begins and ends. */
extern const char __ehdr_start[] HIDDEN;
extern const char __etext[] HIDDEN;

static long map(uint64_t at, uint64_t len, long protection, long flags, int fd, uint64_t offset)
{
	return call6(__NR_mmap, (long)at, (long)len, protection, flags, fd, (long)offset);
}

static long check_table(int fd, const struct head *h)
{
	const uint64_t size = (uint64_t)call(__NR_lseek, fd, 0, SEEK_END);
	const long seals = call(__NR_fcntl, fd, F_GET_SEALS, 0);

	if (seals < 0 || (seals & SEALS) != SEALS)
		return -EPERM;
	if ((long)size < (long)TABLE_SIZE)
		return -EPROTO;
	return imprint_check_table(h, size, kept.token, (uint64_t)__ehdr_start, (uint64_t)__etext);
}

static long take_entry(const struct entry *e, int fd)
{
	const long fixed = MAP_FIXED | MAP_PRIVATE;
	long r;

	switch ((enum kind)e->kind) {
	case KIND_PAGES:
		return map(e->begin, e->len, e->protection, fixed, fd, e->offset);
	case KIND_STACK:
		return call5(__NR_pread64, fd, (long)e->begin, (long)e->len, (long)e->offset, 0) ==
		                       (long)e->len
		               ? 0
		               : -EIO;
	case KIND_DROPPABLE:
		return map(e->begin, e->len, e->protection,
		           MAP_FIXED | MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
	case KIND_EMPTY:
	case KIND_WIPED:
	case KIND_COUNT:
		break;
	}
	r = map(e->begin, e->len, e->protection, fixed | MAP_ANONYMOUS, -1, 0);
	if (r > 0 && e->kind == KIND_WIPED)
		r = call(__NR_madvise, (long)e->begin, (long)e->len, MADV_WIPEONFORK);
	return r;
}

/* On the stack in SCRATCH. From the first entry on there is no way back. */
static void become(long fd)
{
	const struct head *h = (const struct head *)(SCRATCH + STACK_SIZE);
	int *tid = 0;
	long r = 0;

	(void)call(__NR_brk, (long)h->brk, 0, 0);
	for (uint64_t i = 0; r >= 0 && i < h->entries; i++)
		r = take_entry(&h->table[i], (int)fd);
	if (r < 0)
		(void)call(__NR_exit_group, 75, 0, 0);
	/* The variables are the source's from here on. */
	if (call(__NR_prctl, PR_GET_TID_ADDRESS, (long)&tid, 0) == 0 && tid)
		*tid = (int)call(__NR_gettid, 0, 0, 0);
	for (int i = 0; i < SIGNALS; i++)
		(void)call5(__NR_rt_sigaction, i + 1, (long)&kept.actions[i], 0, 8, 0);
	(void)call(__NR_sigaltstack, (long)&kept.stack, 0, 0);
	imprint_go(&kept.place);
}

/* Returns only if nothing has changed: -EPROTO, -EPERM, -ESTALE if it is of another zygote. */
long imprint_enter(int fd)
{
	const uint64_t all = ~0UL;
	uint64_t mask = 0;
	long r = map(SCRATCH, SCRATCH_SIZE, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (r != (long)SCRATCH)
		return r < 0 ? r : -EEXIST;
	r = map(SCRATCH + STACK_SIZE, TABLE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	r = r < 0 ? r : check_table(fd, (const struct head *)(SCRATCH + STACK_SIZE));
	if (r < 0) {
		(void)call(__NR_munmap, SCRATCH, SCRATCH_SIZE, 0);
		return r;
	}
	(void)call5(__NR_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, 8, 0);
	imprint_call_on((void *)(SCRATCH + STACK_SIZE), become, fd);
}
