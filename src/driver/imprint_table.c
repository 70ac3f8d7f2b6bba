// SPDX-License-Identifier: Apache-2.0
/*
 * Whether an imprint's table may be followed. It was written in a hostile sandbox, and is followed
 * in a copy of that sandbox alone. What is looked at is therefore that a copy either goes on or
 * fails before its first mapping: each entry within the file and the addresses of a process, none
 * on another, and none where the copy itself stands meanwhile.
 */
#include "driver/imprint.h"

#include <errno.h>
#include <sys/mman.h>

#define ADDRESS_MAX (1UL << 48) /* a kernel gives no more unasked */

static int overlaps(const struct entry *e, uint64_t begin, uint64_t end)
{
	return e->begin < end && e->begin + e->len > begin;
}

static int is_entry_sound(const struct entry *e, uint64_t size)
{
	const int has_pages = e->kind == KIND_PAGES || e->kind == KIND_STACK;

	return e->kind < KIND_COUNT && !((e->begin | e->len | e->offset) & (PAGE - 1)) &&
	       e->len > 0 && e->begin >= 16 * PAGE && e->len <= ADDRESS_MAX &&
	       e->begin <= ADDRESS_MAX - e->len &&
	       !(e->protection & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC)) &&
	       !overlaps(e, SCRATCH, SCRATCH + SCRATCH_SIZE) &&
	       !(has_pages &&
	         (e->offset < TABLE_SIZE || e->len > size || e->offset > size - e->len));
}

long imprint_check_table(const struct head *h, uint64_t size, const unsigned char *token,
                         uint64_t code_begin, uint64_t code_end)
{
	uint64_t upto = 0; /* entries are in the order of their addresses */

	if (size < TABLE_SIZE || h->magic != MAGIC || h->entries > ENTRIES_MAX || h->size > size)
		return -EPROTO;
	if (!is_same((const char *)h->token, (const char *)token, TOKEN_SIZE))
		return -ESTALE;
	for (uint64_t i = 0; i < h->entries; i++) {
		const struct entry *e = &h->table[i];

		if (!is_entry_sound(e, size) || e->begin < upto ||
		    overlaps(e, code_begin, code_end))
			return -EPROTO;
		upto = e->begin + e->len;
	}
	return 0;
}
