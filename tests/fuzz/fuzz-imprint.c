// SPDX-License-Identifier: Apache-2.0
/*
 * The table of an imprint, as a hostile sandbox may write it. The input is a byte that says how
 * many pages the file has behind its table, then the table's first bytes. A table that is taken
 * leads to nothing but the file and the addresses of a process, each of them once, and leaves the
 * place alone on which the copy stands.
 */
#include "driver/imprint.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CODE_BEGIN 0x7f0000000000UL
#define CODE_END   0x7f0000004000UL

static const unsigned char token[TOKEN_SIZE + 1] = "the-zygote-token";

static int is_apart(const struct entry *e, uint64_t begin, uint64_t end)
{
	return e->begin >= end || e->begin + e->len <= begin;
}

static void check_entry(const struct head *h, uint64_t i, uint64_t file_size)
{
	const struct entry *e = &h->table[i];

	assert(e->len > 0 && e->begin + e->len > e->begin && e->begin + e->len <= 1UL << 48);
	assert(e->begin % PAGE == 0 && e->len % PAGE == 0 && e->protection <= 7);
	assert(e->kind < KIND_COUNT);
	if (e->kind == KIND_PAGES || e->kind == KIND_STACK)
		assert(e->offset >= TABLE_SIZE && e->offset + e->len <= file_size);
	assert(is_apart(e, SCRATCH, SCRATCH + SCRATCH_SIZE));
	assert(is_apart(e, CODE_BEGIN, CODE_END));
	for (uint64_t k = 0; k < i && k < 64; k++)
		assert(is_apart(e, h->table[k].begin, h->table[k].begin + h->table[k].len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct head head;
		unsigned char bytes[TABLE_SIZE];
	} table;
	uint64_t file_size;

	if (size == 0)
		return 0;
	file_size = TABLE_SIZE + data[0] * PAGE;
	memset(table.bytes, 0, sizeof(table.bytes));
	memcpy(table.bytes, data + 1, size - 1 < TABLE_SIZE ? size - 1 : TABLE_SIZE);
	if (imprint_check_table(&table.head, file_size, token, CODE_BEGIN, CODE_END) != 0)
		return 0;
	assert(memcmp(table.head.token, token, TOKEN_SIZE) == 0);
	for (uint64_t i = 0; i < table.head.entries; i++)
		check_entry(&table.head, i, file_size);
	return 0;
}
