// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A connection of a command, which may wait for the database: it serves nobody else. */
#include "member/papers/conninfo.h"
#include "member/papers/trouble.h"

#include <libpq-fe.h>

struct session {
	PGconn *conn;
};

must_check int session_open(struct session *s, const struct conninfo *conninfo, struct err *err);
void session_close(struct session *s);
/* For PQclear(); NULL: err says why. */
PGresult *session_ask(struct session *s, const char *sql, const char *const *params, size_t n,
                      struct err *err);
/* Several statements, without an answer. */
must_check int session_run(struct session *s, const char *sql, struct err *err);
const char *session_text(const PGresult *rows, const char *column); /* "" for NULL */
DEFINE_FREEP(PGresult, PQclear)
