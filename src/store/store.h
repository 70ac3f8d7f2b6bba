// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The only SQL. One SQLite file in WAL mode, one connection, one thread (the loop's), so that the
 * WAL-reset bug of SQLite before 3.51.3 cannot happen; no other process opens it. The layers above
 * keep live objects in memory; they read the store after a restart. Rows are plain structs; strings
 * in a callback's row are borrowed for the call.
 */
#include "base/err.h"

#include <stdbool.h>

struct store;
must_check int store_open(const char *path, struct store **ret,
                          struct err *err); /* migrates; refuses a newer or corrupt file */
void store_close(struct store *st);
/* A random number, drawn when the file was made, that identifies it. Never 0. */
uint64_t store_number(const struct store *st);
bool store_is_new(const struct store *st); /* there was no file before */

/*
 * Changes reach the disk by themselves within about half a minute. Changes that must survive a
 * power cut are numbered, and the WAL is synced before one is acknowledged
 * (sandbox/model/durable.h). Returns the number of the last such change.
 */
uint64_t store_durable(const struct store *st);
/* Opens the file to sync for everything that was committed so far; the caller owns *ret_fd. */
must_check int store_open_log(const struct store *st, int *ret_fd);
/* Whether the last failure of the database persists, and its message: a full, broken or read-only
 * disk, or a damaged file. */
bool store_is_failing(const struct store *st, char *ret_message, size_t size);
/* Tries a write that changes nothing, if something failed or was rolled back since the last look.
 * is_asked: tries it in any case. */
void store_look(struct store *st, bool is_asked);

uint64_t store_bytes(const struct store *st); /* on disk, with the WAL */

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
	uint64_t used_us;                /* give or take some minutes; 0 = never */
	const char *person;              /* JSON of who it stands for; "" or NULL = nobody */
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

/* For who replaced text that should not have been there as it was. It may still be in free parts of
 * the file: store_erase() writes all of it anew then, which takes a while, and only once. */
void store_wants_erasing(struct store *st);
void store_erase(struct store *st);

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

/* Calls fn for each row in order of creation. If it returns < 0, that ends the walk and is the
 * result. */
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
