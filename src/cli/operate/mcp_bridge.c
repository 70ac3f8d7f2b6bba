// SPDX-License-Identifier: Apache-2.0
/*
 * The main thread reads messages, one per line. Each request gets its own thread and connection, so
 * that it can be cancelled by closing that, which ends the call inside too. One more thread holds a
 * stream open: when it ends, for whatever reason, the daemon knows that we are gone, and deletes
 * our session's sandbox.
 *
 *	stdin --> main --> flight --> POST /mcp --> stdout
 *	            |         '-- cancelled: its connection is shut
 *	          holder --> GET /mcp (held)
 *
 * A session that the daemon does not know any more (it ended idle) is replaced by the next request.
 */
#include "cli/operate/mcp_bridge.h"

#include "base/list.h"
#include "base/parse.h"
#include "cli/remote/lines.h"
#include "mcp/rpc.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LINE_MAX_       (4 * 1024 * 1024)
#define REPLY_MAX       (32 * 1024 * 1024)
#define FLIGHTS_MAX     32
#define HOLD_AGAIN_MS   500 /* the daemon is being started anew */
#define SESSION_SIZE    80
#define HEADER_TEXT_MAX (RPC_TEXT_MAX * 2)

struct bridge {
	const struct remote *remote; /* to be opened again; what is read of it does not change */
	const char *path;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	char session[SESSION_SIZE]; /* "" = none */
	struct list flights;
	size_t n_flights;
	bool has_tried_hold; /* the stream is held, or cannot be */
	bool has_lost_reader;
	pthread_mutex_t out; /* one message at a time */
};

struct flight { /* its thread's own, but for what the lock guards */
	struct list link;
	struct bridge *bridge;
	json_t *body;
	struct rpc_message message;
	char session[SESSION_SIZE]; /* that it was sent in */
	int fd;                     /* a duplicate of its connection; guarded */
	bool is_cancelled;          /* guarded */
};

static void emit(struct bridge *b, const char *text, size_t len)
{
	(void)pthread_mutex_lock(&b->out);
	if (fwrite(text, 1, len, stdout) != len || fputc('\n', stdout) == EOF ||
	    fflush(stdout) != 0)
		b->has_lost_reader = true;
	(void)pthread_mutex_unlock(&b->out);
}

static void emit_error(struct bridge *b, const json_t *id, int code, const struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(16 * 1024);

	if (rpc_put_error(&out, id, code, err->message, err->hint) == 0)
		emit(b, out.data, out.len);
}

static void copy_session(struct bridge *b, char ret[SESSION_SIZE])
{
	(void)pthread_mutex_lock(&b->lock);
	memcpy(ret, b->session, SESSION_SIZE);
	(void)pthread_mutex_unlock(&b->lock);
}

/* Whoever finds the session gone says which; another may have replaced it. */
static void drop_session(struct bridge *b, const char *session)
{
	(void)pthread_mutex_lock(&b->lock);
	if (strcmp(b->session, session) == 0)
		b->session[0] = '\0';
	(void)pthread_mutex_unlock(&b->lock);
}

static int open_session(struct bridge *b, struct err *err)
{
	auto_call(remote_closep) struct remote *remote = NULL;
	auto_json json_t *body = json_pack(
		"{s:s, s:i, s:s, s:{s:s, s:{}, s:{s:s, s:s}}}", "jsonrpc", "2.0", "id", 0, "method",
		"initialize", "params", "protocolVersion", RPC_VERSION_LEGACY, "capabilities",
		"clientInfo", "name", "cloche mcp", "version", CLOCHE_VERSION);
	auto_json json_t *reply = NULL;
	struct remote_request request = {.accept = "application/json, text/event-stream",
	                                 .body = body};
	const char *id;
	int r = remote_open_again(b->remote, &remote, err);

	if (r == 0)
		r = remote_exchange(remote, "POST", b->path, &request, &reply, err);
	if (r < 0)
		return r;
	id = http_client_header(remote_client(remote), "Mcp-Session-Id");
	if (!id || strlen(id) >= sizeof(b->session))
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon opened no MCP session");
	(void)snprintf(b->session, sizeof(b->session), "%s", id);
	return 0;
}

/* The lock is held meanwhile: others wait for the same session. */
static int need_session(struct bridge *b, char ret[SESSION_SIZE], struct err *err)
{
	int r = 0;

	(void)pthread_mutex_lock(&b->lock);
	if (!b->session[0])
		r = open_session(b, err);
	memcpy(ret, b->session, SESSION_SIZE);
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
	return r;
}

/* Headers are ASCII: what is not goes as base64. */
static const char *header_text(const char *text, char *room, size_t size)
{
	char base64[base64_size(RPC_TEXT_MAX)];
	size_t len = strlen(text);

	for (const char *p = text; *p > ' ' && *p < 0x7f; p++)
		if (!p[1])
			return text;
	(void)base64_encode(text, MIN(len, (size_t)RPC_TEXT_MAX), base64);
	(void)snprintf(room, size, "=?base64?%s?=", base64);
	return room;
}

/* What is left is the answer's body. */
static int post(struct flight *f, struct remote *remote, struct err *err)
{
	const struct rpc_message *m = &f->message;
	const char *name = rpc_param(m, "name");
	char method_text[HEADER_TEXT_MAX], name_text[HEADER_TEXT_MAX];
	struct http_field fields[REMOTE_FIELDS_MAX];
	struct remote_request request = {
		.accept = "application/json, text/event-stream", .fields = fields, .body = f->body};
	int status = 0;
	int r = need_session(f->bridge, f->session, err);

	if (r < 0)
		return r;
	fields[request.n_fields++] = (struct http_field){"Mcp-Session-Id", f->session};
	if (m->version) {
		fields[request.n_fields++] =
			(struct http_field){"MCP-Protocol-Version", unconst(m->version)};
		fields[request.n_fields++] = (struct http_field){
			"Mcp-Method",
			unconst(header_text(m->method, method_text, sizeof(method_text)))};
	}
	if (m->version && name)
		fields[request.n_fields++] = (struct http_field){
			"Mcp-Name", unconst(header_text(name, name_text, sizeof(name_text)))};
	request.ret_status = &status;
	return remote_begin(remote, "POST", f->bridge->path, &request, err);
}

static int take_event(void *arg, const char *line, size_t len, struct err *err)
{
	static const char data[] = "data: ";

	(void)err;
	if (len > strlen(data) && memcmp(line, data, strlen(data)) == 0)
		emit(arg, line + strlen(data), len - strlen(data));
	return 0;
}

static bool is_session_gone(const json_t *reply)
{
	const json_t *code = json_object_get(json_object_get(reply, "error"), "code");

	return json_is_integer(code) && json_integer_value(code) == RPC_NO_SESSION;
}

/* 1: the daemon has no such session. */
static int pass_on(struct flight *f, struct remote *remote, struct err *err)
{
	auto_call(buf_done) struct buf body = BUF_INIT(REPLY_MAX);
	auto_json json_t *reply = NULL;
	const char *type = http_client_header(remote_client(remote), "Content-Type");
	int r;

	if (type && strncmp(type, "text/event-stream", 17) == 0)
		return lines_read(remote, REPLY_MAX, take_event, f->bridge, err);
	r = http_client_read_all(remote_client(remote), &body);
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "the daemon's answer is incomplete");
	if (body.len == 0)
		return 0;
	r = json_parse(body.data, body.len, &reply, err);
	if (r < 0)
		return err_prefix(err, "the daemon's answer");
	if (is_session_gone(reply)) {
		drop_session(f->bridge, f->session);
		return 1;
	}
	if (json_object_get(reply, "jsonrpc")) {
		emit(f->bridge, body.data, body.len);
		return 0;
	}
	return err_set(
		err, ERR_UNAVAILABLE, 0, "%s",
		json_string_value(json_object_get(json_object_get(reply, "error"), "message"))
			?: "the daemon refused it");
}

/* From here on the main thread can shut the connection. */
static void show_connection(struct flight *f, struct remote *remote)
{
	(void)pthread_mutex_lock(&f->bridge->lock);
	f->fd = fcntl(http_client_fd(remote_client(remote)), F_DUPFD_CLOEXEC, 3);
	if (f->is_cancelled)
		(void)shutdown(f->fd, SHUT_RDWR);
	(void)pthread_mutex_unlock(&f->bridge->lock);
}

static bool land(struct flight *f)
{
	struct bridge *b = f->bridge;
	bool is_cancelled;

	(void)pthread_mutex_lock(&b->lock);
	is_cancelled = f->is_cancelled;
	auto_closep(&f->fd);
	list_remove(&f->link);
	b->n_flights--;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
	return is_cancelled;
}

static int exchange(struct flight *f, struct err *err)
{
	auto_call(remote_closep) struct remote *remote = NULL;
	int r = remote_open_again(f->bridge->remote, &remote, err);

	if (r < 0)
		return r;
	show_connection(f, remote);
	for (int n = 0; n < 2; n++) {
		r = post(f, remote, err);
		if (r == 0)
			r = pass_on(f, remote, err);
		if (r <= 0)
			return r;
	}
	return err_set(err, ERR_UNAVAILABLE, 0, "the daemon ends each session at once");
}

static void *fly(void *arg)
{
	struct flight *f = arg;
	struct bridge *b = f->bridge;
	struct err err;
	int r = exchange(f, &err);

	if (!land(f) && r < 0 && f->message.id)
		emit_error(b, f->message.id, RPC_INTERNAL, &err);
	json_decref(f->body);
	free(f);
	return NULL;
}

static void cancel(struct bridge *b, const json_t *id)
{
	(void)pthread_mutex_lock(&b->lock);
	list_for_each (&b->flights, struct flight, f, link) {
		if (!json_equal(unconst(f->message.id), unconst(id)))
			continue;
		f->is_cancelled = true;
		if (f->fd >= 0)
			(void)shutdown(f->fd, SHUT_RDWR);
	}
	(void)pthread_mutex_unlock(&b->lock);
}

static int take_off(struct bridge *b, json_t *body, const struct rpc_message *m, struct err *err)
{
	struct flight *f = xnew0(struct flight);
	pthread_t thread;
	bool is_full;

	*f = (struct flight){.bridge = b, .body = json_incref(body), .message = *m, .fd = -1};
	(void)pthread_mutex_lock(&b->lock);
	is_full = b->n_flights == FLIGHTS_MAX;
	if (!is_full) {
		list_append(&b->flights, &f->link);
		b->n_flights++;
	}
	(void)pthread_mutex_unlock(&b->lock);
	if (!is_full && pthread_create(&thread, NULL, fly, f) == 0) {
		(void)pthread_detach(thread);
		return 0;
	}
	if (!is_full)
		(void)land(f);
	json_decref(f->body);
	free(f);
	return err_set(err, ERR_LIMIT, 0, "more than %d requests are under way", FLIGHTS_MAX);
}

/* 1: nobody reads what we write. */
static int take_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct bridge *b = arg;
	auto_json json_t *body = NULL;
	struct rpc_message m = {0};
	int code = json_parse(line, len, &body, err) < 0 ? RPC_PARSE : 0;

	if (code == 0)
		code = rpc_read(body, &m, err);
	if (code < 0)
		emit_error(b, m.id, code, err);
	else if (m.kind == RPC_REQUEST && take_off(b, body, &m, err) < 0)
		emit_error(b, m.id, RPC_INTERNAL, err);
	else if (m.kind == RPC_NOTIFICATION && strcmp(m.method, "notifications/cancelled") == 0)
		cancel(b, json_object_get(m.params, "requestId"));
	return b->has_lost_reader;
}

static void tell_hold(struct bridge *b)
{
	(void)pthread_mutex_lock(&b->lock);
	b->has_tried_hold = true;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
}

/* Before anything is made that a kill of us would leave behind. */
static void await_hold(struct bridge *b)
{
	(void)pthread_mutex_lock(&b->lock);
	while (!b->has_tried_hold)
		(void)pthread_cond_wait(&b->changed, &b->lock);
	(void)pthread_mutex_unlock(&b->lock);
}

static void hold_once(struct bridge *b, const char *session)
{
	auto_call(remote_closep) struct remote *remote = NULL;
	struct http_field fields[] = {{"Mcp-Session-Id", unconst(session)},
	                              {"Cloche-Hold-Session", unconst("1")}};
	struct remote_request request = {
		.accept = "text/event-stream", .fields = fields, .n_fields = ARRAY_SIZE(fields)};
	char byte[64];
	struct err err;
	ssize_t n;
	int r;

	r = remote_open_again(b->remote, &remote, &err);
	if (r == 0)
		r = remote_begin(remote, "GET", b->path, &request, &err);
	if (r < 0 && err.code == ERR_NOT_FOUND)
		drop_session(b, session);
	tell_hold(b);
	if (r < 0)
		return;
	do
		n = http_client_read(remote_client(remote), byte, sizeof(byte));
	while (n > 0 || n == -EINTR);
}

static void *hold(void *arg)
{
	struct bridge *b = arg;
	char session[SESSION_SIZE];

	for (;;) {
		(void)pthread_mutex_lock(&b->lock);
		while (!b->session[0])
			(void)pthread_cond_wait(&b->changed, &b->lock);
		memcpy(session, b->session, sizeof(session));
		(void)pthread_mutex_unlock(&b->lock);
		hold_once(b, session);
		(void)poll(NULL, 0, HOLD_AGAIN_MS);
	}
	return NULL;
}

/* Requests that were read are answered before we go; who does not want to wait kills us. */
static void end(struct bridge *b)
{
	auto_call(remote_closep) struct remote *remote = NULL;
	char session[SESSION_SIZE];
	struct http_field fields[] = {{"Mcp-Session-Id", session}};
	struct remote_request request = {.fields = fields, .n_fields = 1};
	struct err err;

	(void)pthread_mutex_lock(&b->lock);
	while (b->n_flights > 0 && !b->has_lost_reader)
		(void)pthread_cond_wait(&b->changed, &b->lock);
	(void)pthread_mutex_unlock(&b->lock);
	copy_session(b, session);
	if (!session[0] || remote_open_again(b->remote, &remote, &err) < 0)
		return;
	(void)!remote_begin(remote, "DELETE", b->path, &request, &err); /* else it ends idle */
}

int mcp_bridge_run(const struct remote *remote, const char *path, struct err *err)
{
	/* The threads outlive this: they end with the process. */
	struct bridge *b = xnew0(struct bridge);
	char session[SESSION_SIZE];
	pthread_t thread;
	int r;

	b->remote = remote;
	b->path = path;
	list_init(&b->flights);
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_mutex_init(&b->out, NULL);
	(void)pthread_cond_init(&b->changed, NULL);
	r = need_session(b, session, err); /* what is wrong with the options is told at once */
	if (r == 0 && pthread_create(&thread, NULL, hold, b) != 0)
		r = err_set(err, ERR_INTERNAL, 0, "cannot start a thread");
	if (r < 0)
		return r;
	(void)pthread_detach(thread);
	await_hold(b);
	r = lines_read_fd(STDIN_FILENO, LINE_MAX_, take_line, b, err);
	end(b);
	return MIN(r, 0);
}
