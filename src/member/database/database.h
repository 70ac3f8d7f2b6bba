// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One connection to PostgreSQL on the loop, which never waits for it: libpq's asynchronous calls,
 * with names resolved elsewhere (name_resolver.h).
 *
 *	resting --> resolving --> connecting --> up --+
 *	   ^                                          |
 *	   +----------- anything fails ---------------+
 *
 * A connection that fails is made anew after a pause that grows and is never the same for two
 * nodes, so that a thousand of them do not come back at once. Calls are made one after the other;
 * one that is not answered in time ends the connection. No call leaves anything in the session, so
 * a pooler may stand between.
 */
#include "loop/loop.h"
#include "member/name_resolver.h"
#include "member/papers/conninfo.h"
#include "member/papers/trouble.h"

#include <libpq-fe.h>

#define DATABASE_PARAMS_MAX 12

struct database;

struct database_answer {
	const PGresult *rows; /* NULL: it failed, and the other two say why */
	enum trouble trouble;
	const char *message;
};
typedef void (*database_fn)(const struct database_answer *answer, void *arg);

struct database_ops {
	void (*ready)(void *arg);
	/* Also of an attempt that failed. Calls that wait have been answered before. */
	void (*lost)(enum trouble trouble, const char *message, void *arg);
};

struct database_config {
	struct loop *loop;
	struct name_resolver *resolver;
	const struct conninfo *conninfo; /* borrowed */
	const struct database_ops *ops;
	void *arg;
	uint64_t connect_us, call_us; /* how long each may take */
	uint64_t rest_max_us;         /* between two attempts */
};

struct database *database_new(const struct database_config *config);
void database_start(struct database *db);
bool database_is_up(const struct database *db);
void database_set_call_us(struct database *db, uint64_t call_us);
void database_set_rest_max_us(struct database *db, uint64_t rest_max_us);
/* Ends the connection, for this reason; another follows after a pause. Not from inside an answer's
 * callback, where database_drop_later() does the same at the end of the turn. */
void database_drop_later(struct database *db, enum trouble trouble, const char *message);

/* sql is a text that lives for ever; the parameters are copied, NULL is SQL's. -ENOTCONN: it is not
 * up; -EAGAIN: too many wait. fn is never called from inside. */
must_check int database_call(struct database *db, const char *sql, const char *const *params,
                             size_t n, database_fn fn, void *arg);
