// SPDX-License-Identifier: Apache-2.0
#include "member/database/session.h"

#include "base/clock.h"
#include "base/units.h"

#include <poll.h>
#include <string.h>

#define CONNECT_US (10 * SECOND_US)

static int fail_by_libpq(const struct session *s, struct err *err)
{
	const char *message = s->conn ? PQerrorMessage(s->conn) : "no memory";
	auto_free char *line = trouble_line(message);

	return trouble_set(err, trouble_of_connection(message), "%s", line);
}

/* Steps by hand: the verbosity, which shows the state of a refusal, is set between the first two.
 */
int session_open(struct session *s, const struct conninfo *conninfo, struct err *err)
{
	const uint64_t until_us = clock_steady_us() + CONNECT_US;
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	s->conn = PQconnectStartParams((const char *const *)conninfo->keys,
	                               (const char *const *)conninfo->values, 0);
	if (!s->conn || PQstatus(s->conn) == CONNECTION_BAD)
		return fail_by_libpq(s, err);
	(void)PQsetErrorVerbosity(s->conn, PQERRORS_VERBOSE);
	while (next != PGRES_POLLING_OK) {
		struct pollfd p = {.fd = PQsocket(s->conn),
		                   .events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT};
		uint64_t now_us = clock_steady_us();

		if (next == PGRES_POLLING_FAILED)
			return fail_by_libpq(s, err);
		if (now_us >= until_us || poll(&p, 1, (int)((until_us - now_us) / 1000) + 1) == 0)
			return trouble_set(err, TROUBLE_UNREACHABLE,
			                   "PostgreSQL does not accept the connection in time");
		next = PQconnectPoll(s->conn);
	}
	return 0;
}

void session_close(struct session *s)
{
	PQfinish(s->conn);
	s->conn = NULL;
}

static int fail_by_rows(const PGresult *rows, struct err *err)
{
	auto_free char *line = trouble_line(PQresultErrorMessage(rows));

	return trouble_set(err, trouble_of_state(PQresultErrorField(rows, PG_DIAG_SQLSTATE)), "%s",
	                   line);
}

PGresult *session_ask(struct session *s, const char *sql, const char *const *params, size_t n,
                      struct err *err)
{
	PGresult *rows = PQexecParams(s->conn, sql, (int)n, NULL, params, NULL, NULL, 0);

	if (PQresultStatus(rows) == PGRES_TUPLES_OK)
		return rows;
	(void)fail_by_rows(rows, err);
	PQclear(rows);
	return NULL;
}

int session_run(struct session *s, const char *sql, struct err *err)
{
	auto_call(PQclearp) PGresult *rows = PQexec(s->conn, sql);

	return PQresultStatus(rows) == PGRES_COMMAND_OK || PQresultStatus(rows) == PGRES_TUPLES_OK
	               ? 0
	               : fail_by_rows(rows, err);
}

const char *session_text(const PGresult *rows, const char *column)
{
	int at = PQntuples(rows) > 0 ? PQfnumber(rows, column) : -1;

	return at < 0 || PQgetisnull(rows, 0, at) ? "" : PQgetvalue(rows, 0, at);
}
