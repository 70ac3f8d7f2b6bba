// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Checks the chain from its exported lines alone, so anybody can do it without the daemon. An entry
 * is one line of JSON that ends in
 *
 *	,"prev":"<64 hex digits>","hash":"<64 hex digits>"}
 *
 * hash is the SHA-256 of the line up to the comma before "hash"; prev, which it covers, is the hash
 * of the entry before. So a changed, removed or inserted entry breaks the chain at its place.
 */
#include "base/err.h"

#define CHAIN_HEX_SIZE 65

struct chain_link {
	uint64_t seq;
	char prev[CHAIN_HEX_SIZE], hash[CHAIN_HEX_SIZE];
};

void chain_hex(const unsigned char hash[32], char ret[CHAIN_HEX_SIZE]);
void chain_hash(const void *data, size_t len, unsigned char ret[32]);
/* One line without its newline. An error says what is wrong with it. */
must_check int chain_check_line(const char *line, size_t len, struct chain_link *ret,
                                struct err *err);
/* Whether next may follow directly after prev. */
must_check int chain_check_next(const struct chain_link *prev, const struct chain_link *next,
                                struct err *err);
