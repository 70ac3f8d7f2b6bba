// SPDX-License-Identifier: Apache-2.0
/*
 * The pages of an imprint are copied by several threads of the writer, if it has several
 * processors: most of the time of a fork is this copy. Each takes the next piece of the file until
 * none is left. If no thread can be made, the writer does it alone.
 */
#include "driver/imprint.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/sched.h>

#define PIECE        (2UL << 20) /* of the file; a multiple of a page */
#define THREADS_MAX  3           /* beside the writer itself: memory has no room for more at once */
#define THREAD_STACK (16UL << 10)
#define MASK_WORDS   16

static struct {
	const struct head *head;
	uint64_t next; /* piece */
	long error;    /* the last one, or 0 */
	int fd;
} work;
static char stacks[THREADS_MAX][THREAD_STACK] __attribute__((aligned(16)));
static int tids[THREADS_MAX]; /* 0: it has ended */

long imprint_write_range(int fd, uint64_t begin, uint64_t end, uint64_t offset)
{
	while (begin < end) {
		long n =
			call5(__NR_pwrite64, fd, (long)begin, (long)(end - begin), (long)offset, 0);

		if (n <= 0)
			return n < 0 ? n : -EIO;
		begin += (uint64_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* What entries have in [from, upto) of the file. */
static long write_piece(const struct head *h, uint64_t from, uint64_t upto)
{
	long r = 0;

	for (uint64_t i = 0; r == 0 && i < h->entries; i++) {
		const struct entry *e = &h->table[i];
		const uint64_t begin = e->offset > from ? e->offset : from;
		const uint64_t end = e->offset + e->len < upto ? e->offset + e->len : upto;

		if (e->offset >= TABLE_SIZE && begin < end)
			r = imprint_write_range(work.fd, e->begin + (begin - e->offset),
			                        e->begin + (end - e->offset), begin);
	}
	return r;
}

static void write_pieces(void)
{
	const struct head *h = work.head;
	uint64_t from;

	while ((from = TABLE_SIZE + __atomic_fetch_add(&work.next, 1, __ATOMIC_RELAXED) * PIECE) <
	       h->size) {
		const uint64_t upto = h->size - from > PIECE ? from + PIECE : h->size;
		const long r = write_piece(h, from, upto);

		if (r < 0) {
			__atomic_store_n(&work.error, r, __ATOMIC_RELAXED);
			return;
		}
	}
}

static void help(void)
{
	write_pieces();
	for (;;)
		(void)call(__NR_exit, 0, 0, 0);
}

static long count_processors(void)
{
	uint64_t mask[MASK_WORDS] = {0};
	const long len = call(__NR_sched_getaffinity, 0, sizeof(mask), (long)mask);
	long n = 0;

	for (long i = 0; i < len / 8; i++)
		for (uint64_t word = mask[i]; word; word &= word - 1)
			n++;
	return n;
}

long imprint_write_pages(int fd, const struct head *h)
{
	const uint64_t pieces = (h->size - TABLE_SIZE) / PIECE;
	const long most = count_processors() - 1;

	work.head = h;
	work.next = 0;
	work.error = 0;
	work.fd = fd;
	for (long i = 0; i < THREADS_MAX && i < most && (uint64_t)i < pieces; i++) {
		tids[i] = 1;
		if (imprint_thread(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
		                           CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID,
		                   stacks[i] + THREAD_STACK, help, &tids[i]) < 0)
			tids[i] = 0;
	}
	write_pieces();
	for (int i = 0; i < THREADS_MAX; i++)
		while (__atomic_load_n(&tids[i], __ATOMIC_ACQUIRE) != 0)
			(void)call5(__NR_futex, (long)&tids[i], FUTEX_WAIT, 1, 0, 0);
	return work.error;
}
