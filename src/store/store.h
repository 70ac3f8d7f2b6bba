// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The only SQL. One SQLite file in WAL mode, one connection, one thread (the loop's), so that the
 * WAL-reset bug of SQLite before 3.51.3 cannot happen; no other process opens it. What is live is
 * kept in memory by the layers above; the store is what they come back to after a restart. Rows are
 * plain structs; strings in rows handed to a callback are borrowed for the call.
 */
#include "base/err.h"

#include <stdbool.h>

struct store;
must_check int store_open(const char *path, struct store **ret,
                          struct err *err); /* migrates; refuses a newer or corrupt file */
void store_close(struct store *st);
/* Drawn when the file was made: tells it from every other. Never 0. */
uint64_t store_number(const struct store *st);
bool store_is_new(const struct store *st); /* there was no file before */

/*
 * Changes reach the disk by themselves within half a minute or so. Those that are acknowledged as
 * kept are numbered: whoever answers for one syncs the log first (sandbox/model/durable.h). What
 * this gives is the number of the last such change.
 */
uint64_t store_durable(const struct store *st);
/* The file to sync for all that was committed so far; the caller owns *ret_fd. */
must_check int store_open_log(const struct store *st, int *ret_fd);
/* What the database failed with last, in this process, and has not got over: a full, broken or
 * read-only disk, a damaged file. False: nothing. */
bool store_is_failing(const struct store *st, char *ret_message, size_t size);
/* Looks whether writes work, by one that changes nothing, where there is doubt: something failed or
 * was rolled back since the last look. is_asked: in any case. */
void store_look(struct store *st, bool is_asked);

uint64_t store_bytes(const struct store *st); /* on disk, with what is not yet in its place */

struct project_row {
	const char *id, *name;
	uint64_t created_us;
};
struct key_row {
	const char *id, *project_id, *name;
	unsigned char hash[32];          /* SHA-256 of the secret's 40 hex digits */
	uint32_t scope;                  /* enum key_scope */
	uint64_t created_us, revoked_us; /* 0 = not */
	uint64_t expires_us;             /* 0 = never */
};
struct sandbox_row {
	const char *id, *project_id, *name; /* name "" = none */
	const char *json; /* all else, written and read by sandbox.c: template, tags, env, limits,
	                     times, isolation, end */
	uint32_t state;
	uint64_t created_us, ended_us; /* 0 = not ended */
	bool is_durable;               /* outlives the machine's restart */
};
struct exec_row {
	const char *id, *sandbox_id;
	uint32_t channel;
	const char *json;
	uint32_t state;
	uint64_t created_us;
};
struct context_row {
	const char *id, *sandbox_id;
	uint32_t channel;
	const char *json;
	uint64_t created_us;
};

must_check int store_put_project(struct store *st, const struct project_row *row,
                                 struct err *err); /* insert or replace, all of these */
must_check int store_put_key(struct store *st, const struct key_row *row, struct err *err);
must_check int store_put_sandbox(struct store *st, const struct sandbox_row *row, struct err *err);
must_check int store_put_exec(struct store *st, const struct exec_row *row, struct err *err);
must_check int store_put_context(struct store *st, const struct context_row *row, struct err *err);
must_check int store_delete_sandbox(struct store *st, const char *id,
                                    struct err *err); /* with its execs and contexts */
must_check int store_delete_context(struct store *st, const char *id, struct err *err);
/* All of these or none. */
must_check int store_delete_execs(struct store *st, const char *const *ids, size_t n,
                                  struct err *err);

/* Each row in order of creation; fn returning < 0 ends the walk and is the result. */
must_check int store_each_project(struct store *st,
                                  int (*fn)(const struct project_row *row, void *arg), void *arg,
                                  struct err *err);
must_check int store_each_key(struct store *st, int (*fn)(const struct key_row *row, void *arg),
                              void *arg, struct err *err);
must_check int store_each_sandbox(struct store *st,
                                  int (*fn)(const struct sandbox_row *row, void *arg), void *arg,
                                  struct err *err);
must_check int store_each_exec(struct store *st, int (*fn)(const struct exec_row *row, void *arg),
                               void *arg, struct err *err);
must_check int store_each_context(struct store *st,
                                  int (*fn)(const struct context_row *row, void *arg), void *arg,
                                  struct err *err);
