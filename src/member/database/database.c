// SPDX-License-Identifier: Apache-2.0
#include "member/database/database.h"

#include "base/buf.h"
#include "base/id.h"
#include "base/log.h"
#include "base/units.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define CALLS_MAX    64
#define REST_US      (SECOND_US / 5)
#define HOSTS_MAX    16
#define MESSAGE_SIZE 300

enum database_state { DATABASE_RESTING, DATABASE_RESOLVING, DATABASE_CONNECTING, DATABASE_UP };

struct database_call {
	const char *sql;
	char *params[DATABASE_PARAMS_MAX];
	size_t n;
	database_fn fn;
	void *arg;
};

struct database_host { /* one address to try */
	char name[256], address[RESOLVER_TEXT], port[8];
};

struct database {
	struct database_config config;
	enum database_state state;
	PGconn *conn;
	struct loop_io *io;
	struct loop_timer *timer; /* patience of the state, or of the call under way */
	uint64_t rest_us;
	struct database_call calls[CALLS_MAX]; /* a ring; the first is under way if is_sent */
	size_t first, n;
	bool is_sent, is_flushed;
	PGresult *rows; /* of the call under way */
	struct database_host hosts[HOSTS_MAX];
	size_t n_hosts;
	size_t next_name; /* of the names in the setting, while they are resolved */
	char why[MESSAGE_SIZE];
	bool is_dropping;
	enum trouble drop_trouble;
};

static void resolve_next(struct database *db);
static void send_next(struct database *db);
static void on_io(struct loop *loop, uint32_t events, void *arg);

bool database_is_up(const struct database *db)
{
	return db->state == DATABASE_UP && !db->is_dropping;
}

void database_set_call_us(struct database *db, uint64_t call_us)
{
	db->config.call_us = call_us;
}

void database_set_rest_max_us(struct database *db, uint64_t rest_max_us)
{
	db->config.rest_max_us = rest_max_us;
}

static void call_done(struct database_call *call)
{
	for (size_t i = 0; i < call->n; i++)
		free(call->params[i]);
}

/* The first call leaves the ring before it is answered: the answer may add one. */
static void answer_first(struct database *db, const struct database_answer *answer)
{
	struct database_call call = db->calls[db->first];

	db->first = (db->first + 1) % CALLS_MAX;
	db->n--;
	db->is_sent = false;
	call.fn(answer, call.arg);
	call_done(&call);
}

/* Between half of it and all. */
static uint64_t jittered(uint64_t us)
{
	uint64_t random;

	random_bytes(&random, sizeof(random));
	return us / 2 + random % (us / 2 + 1);
}

static void close_connection(struct database *db)
{
	loop_io_removep(&db->io);
	PQclear(db->rows);
	db->rows = NULL;
	PQfinish(db->conn);
	db->conn = NULL;
}

static void lose(struct database *db, enum trouble trouble, const char *message)
{
	char why[MESSAGE_SIZE];
	const struct database_answer answer = {.trouble = trouble, .message = why};

	(void)snprintf(why, sizeof(why), "%s", message);
	close_connection(db);
	db->state = DATABASE_RESTING;
	db->is_dropping = false;
	while (db->n > 0)
		answer_first(db, &answer);
	loop_timer_set_in(db->timer, jittered(db->rest_us));
	db->rest_us = MIN(2 * db->rest_us, db->config.rest_max_us);
	db->config.ops->lost(trouble, why, db->config.arg);
}

static void lose_by_libpq(struct database *db)
{
	const char *message = db->conn ? PQerrorMessage(db->conn) : "no memory";
	auto_free char *line = trouble_line(message);

	lose(db, trouble_of_connection(message), line);
}

static void on_drop(struct loop *loop, void *arg)
{
	struct database *db = arg;

	(void)loop;
	if (db->is_dropping)
		lose(db, db->drop_trouble, db->why);
}

void database_drop_later(struct database *db, enum trouble trouble, const char *message)
{
	if (db->state != DATABASE_UP || db->is_dropping)
		return;
	db->is_dropping = true;
	db->drop_trouble = trouble;
	(void)snprintf(db->why, sizeof(db->why), "%s", message);
	loop_defer(db->config.loop, on_drop, db);
}

/* libpq may take another socket between two steps of a connection. */
static int watch(struct database *db, uint32_t events)
{
	loop_io_removep(&db->io);
	return loop_io_add(db->config.loop, PQsocket(db->conn), events, on_io, db, &db->io);
}

static void on_connected(struct database *db)
{
	if (PQsetnonblocking(db->conn, 1) != 0 || watch(db, EPOLLIN) < 0) {
		lose_by_libpq(db);
		return;
	}
	loop_timer_set(db->timer, UINT64_MAX);
	db->state = DATABASE_UP;
	db->is_flushed = true;
	db->rest_us = REST_US;
	db->config.ops->ready(db->config.arg);
}

static void step_connection(struct database *db)
{
	PostgresPollingStatusType next = PQconnectPoll(db->conn);

	if (next == PGRES_POLLING_OK)
		on_connected(db);
	else if (next == PGRES_POLLING_FAILED ||
	         watch(db, next == PGRES_POLLING_READING ? EPOLLIN : EPOLLOUT) < 0)
		lose_by_libpq(db);
}

static void join_field(struct buf *out, const char *text, bool is_first)
{
	if (buf_printf(out, "%s%s", is_first ? "" : ",", text) < 0)
		abort(); /* HOSTS_MAX fields fit */
}

static void on_named(struct database *db)
{
	struct buf names = BUF_INIT(8192), addresses = BUF_INIT(8192), ports = BUF_INIT(8192);
	struct conninfo conninfo = {0};

	for (size_t i = 0; i < db->n_hosts; i++) {
		join_field(&names, db->hosts[i].name, i == 0);
		join_field(&addresses, db->hosts[i].address, i == 0);
		join_field(&ports, db->hosts[i].port, i == 0);
	}
	conninfo_copy(&conninfo, db->config.conninfo);
	conninfo_set(&conninfo, "host", buf_str(&names));
	conninfo_set(&conninfo, "hostaddr", buf_str(&addresses));
	conninfo_set(&conninfo, "port", buf_str(&ports));
	buf_done(&names);
	buf_done(&addresses);
	buf_done(&ports);
	db->state = DATABASE_CONNECTING;
	db->conn = PQconnectStartParams((const char *const *)conninfo.keys,
	                                (const char *const *)conninfo.values, 0);
	conninfo_done(&conninfo);
	if (!db->conn || PQstatus(db->conn) == CONNECTION_BAD || watch(db, EPOLLOUT) < 0) {
		lose_by_libpq(db);
		return;
	}
	(void)PQsetErrorVerbosity(db->conn, PQERRORS_VERBOSE);
}

/* The field of a list with commas; a list of one stands for all. False: there is none. */
static bool field_of(const char *list, size_t at, bool is_for_all, char *ret, size_t size)
{
	bool is_one = is_for_all && list && !strchr(list, ',');

	for (size_t i = 0; list && !is_one && i < at; i++) {
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	if (!list)
		return false;
	(void)snprintf(ret, size, "%.*s", (int)strcspn(list, ","), list);
	return true;
}

static void add_host(struct database *db, const char *name, const char *address)
{
	struct database_host *h = &db->hosts[db->n_hosts];

	if (db->n_hosts == HOSTS_MAX)
		return;
	(void)snprintf(h->name, sizeof(h->name), "%s", name);
	(void)snprintf(h->address, sizeof(h->address), "%s", address);
	if (!field_of(conninfo_get(db->config.conninfo, "port"), db->next_name, true, h->port,
	              sizeof(h->port)))
		(void)snprintf(h->port, sizeof(h->port), "5432");
	db->n_hosts++;
}

static void on_resolved(const struct resolved *result, void *arg)
{
	struct database *db = arg;
	char name[256] = "";

	if (db->state != DATABASE_RESOLVING)
		return; /* it took too long */
	(void)field_of(conninfo_get(db->config.conninfo, "host"), db->next_name, false, name,
	               sizeof(name));
	for (size_t i = 0; i < result->n; i++)
		add_host(db, name, result->addresses[i]);
	if (result->n == 0)
		(void)snprintf(db->why, sizeof(db->why), "%s: %s", name, result->why);
	db->next_name++;
	resolve_next(db);
}

static bool is_address(const char *text)
{
	uint8_t bytes[16];

	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static void resolve_next(struct database *db)
{
	const struct conninfo *c = db->config.conninfo;
	char name[256] = "", address[RESOLVER_TEXT];

	for (;; db->next_name++) {
		bool has_name =
			field_of(conninfo_get(c, "host"), db->next_name, false, name, sizeof(name));
		bool has_address = field_of(conninfo_get(c, "hostaddr"), db->next_name, false,
		                            address, sizeof(address));

		if (!has_name && !has_address)
			break;
		if (has_address) {
			add_host(db, has_name ? name : address, address);
		} else if (is_address(name)) {
			add_host(db, name, name);
		} else {
			if (name_resolver_ask(db->config.resolver, name, on_resolved, db) < 0)
				lose(db, TROUBLE_NAME, "names cannot be resolved");
			return;
		}
	}
	if (db->n_hosts == 0)
		lose(db, TROUBLE_NAME, db->why[0] ? db->why : "names no host");
	else
		on_named(db);
}

static void connect_anew(struct database *db)
{
	db->state = DATABASE_RESOLVING;
	db->n_hosts = 0;
	db->next_name = 0;
	db->why[0] = '\0';
	loop_timer_set_in(db->timer, db->config.connect_us);
	resolve_next(db);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct database *db = arg;

	(void)loop;
	switch (db->state) {
	case DATABASE_RESTING:
		connect_anew(db);
		break;
	case DATABASE_RESOLVING:
		lose(db, TROUBLE_NAME, "the resolver of names does not answer");
		break;
	case DATABASE_CONNECTING:
		lose(db, TROUBLE_UNREACHABLE, "PostgreSQL does not accept the connection in time");
		break;
	case DATABASE_UP:
		lose(db, TROUBLE_UNREACHABLE, "PostgreSQL does not answer in time");
		break;
	}
}

static void answer_rows(struct database *db)
{
	PGresult *rows = db->rows;
	struct database_answer answer = {.rows = rows};
	auto_free char *line = NULL;

	db->rows = NULL;
	loop_timer_set(db->timer, UINT64_MAX);
	if (PQresultStatus(rows) != PGRES_TUPLES_OK) {
		line = trouble_line(PQresultErrorMessage(rows));
		answer = (struct database_answer){
			.trouble = trouble_of_state(PQresultErrorField(rows, PG_DIAG_SQLSTATE)),
			.message = line};
	}
	answer_first(db, &answer);
	PQclear(rows);
	send_next(db);
}

static void read_answer(struct database *db)
{
	if (PQconsumeInput(db->conn) != 1) {
		lose_by_libpq(db);
		return;
	}
	while (db->is_sent && PQisBusy(db->conn) == 0) {
		PGresult *rows = PQgetResult(db->conn);

		if (rows) {
			PQclear(db->rows);
			db->rows = rows;
		} else if (db->rows) {
			answer_rows(db);
			return;
		} else {
			lose_by_libpq(db);
			return;
		}
	}
}

static void flush(struct database *db)
{
	int r = PQflush(db->conn);

	if (r < 0) {
		lose_by_libpq(db);
		return;
	}
	db->is_flushed = r == 0;
	loop_io_set(db->io, db->is_flushed ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct database *db = arg;

	(void)loop;
	if (db->is_dropping)
		return;
	if (db->state == DATABASE_CONNECTING) {
		step_connection(db);
		return;
	}
	if ((events & EPOLLOUT) && !db->is_flushed)
		flush(db);
	if (db->state == DATABASE_UP && (events & ~(uint32_t)EPOLLOUT))
		read_answer(db);
}

static void send_next(struct database *db)
{
	struct database_call *call = &db->calls[db->first];

	if (db->state != DATABASE_UP || db->is_sent || db->n == 0 || db->is_dropping)
		return;
	db->is_sent = true;
	loop_timer_set_in(db->timer, db->config.call_us);
	if (PQsendQueryParams(db->conn, call->sql, (int)call->n, NULL,
	                      (const char *const *)call->params, NULL, NULL, 0) != 1) {
		lose_by_libpq(db);
		return;
	}
	flush(db);
}

static void on_send(struct loop *loop, void *arg)
{
	(void)loop;
	send_next(arg);
}

int database_call(struct database *db, const char *sql, const char *const *params, size_t n,
                  database_fn fn, void *arg)
{
	struct database_call *call = &db->calls[(db->first + db->n) % CALLS_MAX];

	assert(n <= DATABASE_PARAMS_MAX);
	if (!database_is_up(db))
		return -ENOTCONN;
	if (db->n == CALLS_MAX)
		return -EAGAIN;
	*call = (struct database_call){.sql = sql, .n = n, .fn = fn, .arg = arg};
	for (size_t i = 0; i < n; i++)
		call->params[i] = params[i] ? xstrdup(params[i]) : NULL;
	db->n++;
	loop_defer(db->config.loop, on_send, db); /* a failure answers, which this call may not */
	return 0;
}

struct database *database_new(const struct database_config *config)
{
	struct database *db = xnew0(struct database);

	db->config = *config;
	db->rest_us = REST_US;
	db->timer = loop_timer_new(config->loop, on_timer, db);
	return db;
}

void database_start(struct database *db)
{
	loop_timer_set_in(db->timer, 0);
}
