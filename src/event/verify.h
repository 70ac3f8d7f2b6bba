// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Checks chains from their exported lines alone, so anybody can do it without the daemon. An entry
 * is one line of JSON that ends in
 *
 *	,"prev":"<64 hex digits>","hash":"<64 hex digits>"}
 *
 * hash is the SHA-256 of the line up to the comma before "hash"; prev, which it covers, is the hash
 * of the entry before in its chain. So a changed, removed or inserted entry breaks its chain at its
 * place. Every project has a chain, and so have entries of no project; the audit log (types
 * "api.…") has chains of its own beside those. An export of the whole host has all of them in one
 * order, and each entry's place in it behind the hash.
 *
 * Entries without "from" are from before that: all of them, of whatever project, are one former
 * chain, and a chain that goes on behind it has the former chain's last hash as its first prev.
 */
#include "base/err.h"
#include "base/id.h"

#include <stdbool.h>

#define CHAIN_HEX_SIZE  65
#define CHAIN_NAME_SIZE (ID_SIZE + 8) /* the project, and CHAIN_AUDIT if it is of the audit log */
#define CHAIN_AUDIT     "/audit"
#define CHAIN_FORMER    "+former"

struct chain_link {
	uint64_t seq;
	uint64_t place;           /* 0 = not told */
	char project_id[ID_SIZE]; /* "" = none */
	bool is_former;
	char chain[CHAIN_NAME_SIZE];
	char prev[CHAIN_HEX_SIZE], hash[CHAIN_HEX_SIZE];
};

/* project_id: "" = none. */
void chain_name(char ret[CHAIN_NAME_SIZE], const char *project_id, bool is_former, bool is_audit);
void chain_hex(const unsigned char hash[32], char ret[CHAIN_HEX_SIZE]);
void chain_hash(const void *data, size_t len, unsigned char ret[32]);
/* One line without its newline. An error says what is wrong with it. */
must_check int chain_check_line(const char *line, size_t len, struct chain_link *ret,
                                struct err *err);
/* Whether next may follow directly after prev, of the same chain. */
must_check int chain_check_next(const struct chain_link *prev, const struct chain_link *next,
                                struct err *err);

/* What was seen of each chain of an export. */
struct chain_seen {
	struct chain_link first, last;
	uint64_t n;
};
struct chain_export;
struct chain_export *chain_export_new(void);
void chain_export_free(struct chain_export *export); /* NULL is fine */
/* The next line of the export. is_partial: lines are missing on purpose. */
must_check int chain_export_add(struct chain_export *export, const struct chain_link *link,
                                bool is_partial, struct err *err);
/* A seal says that the entries behind `after`, up to seq, were removed on purpose: the chain goes
 * on behind the latter. What was seen of it must reach up to `after`. */
must_check int chain_export_skip(struct chain_export *export, const char *chain, uint64_t after,
                                 uint64_t seq, const char *hash, struct err *err);
/* By the chain's name; NULL if there was none. */
const struct chain_seen *chain_export_find(const struct chain_export *export, const char *chain);
size_t chain_export_count(const struct chain_export *export); /* chains, the former included */
