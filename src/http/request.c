// SPDX-License-Identifier: Apache-2.0
/* What a handler can read of its request. */
#include "http/conn.h"

#include "base/clock.h"
#include "base/parse.h"

#include <inttypes.h>

static void make_id(struct http_req *req)
{
	char id[ID_SIZE];

	id_make(id, "req");
	(void)snprintf(req->id, sizeof(req->id), "%s", id);
}

struct http_req *request_new(struct conn *c)
{
	struct http_req *req = xnew0(struct http_req);

	req->conn = c;
	req->reply_left = -1;
	make_id(req);
	http_head_init(&req->head, HTTP_REQUEST);
	buf_init(&req->reply_fields, HTTP_HEAD_MAX);
	return req;
}

void request_free(struct http_req *req)
{
	if (!req)
		return;
	http_head_done(&req->head);
	http_target_done(&req->target);
	buf_done(&req->reply_fields);
	buf_done(&req->body);
	json_decref(req->json);
	free(req);
}

void request_done(struct http_req *req, bool whole)
{
	const struct http_tunnel_ops *upgrade = take_ptr(req->upgrade);
	http_done_fn fn = take_ptr(req->on_done);

	req->is_whole = whole;
	if (upgrade)
		upgrade->on_gone(req);
	if (fn)
		fn(req->on_done_arg);
}

void request_end(struct http_req *req, bool whole)
{
	const struct http_app *app = server_app(req->conn->server);
	const struct http_outcome outcome = {
		.status = req->status,
		.bytes = req->reply_bytes,
		.us = clock_steady_us() - req->begun_us,
		.is_whole = whole,
	};

	request_done(req, whole);
	if (app->ended && req->begun_us > 0)
		app->ended(req, &outcome);
}

void *http_app_arg(const struct http_req *req)
{
	return server_app(req->conn->server)->arg;
}

struct loop *http_loop(const struct http_req *req)
{
	return req->conn->loop;
}

enum http_method http_req_method(const struct http_req *req)
{
	return req->method;
}

const struct http_route *http_route(const struct http_req *req)
{
	return req->route;
}

const char *http_path(const struct http_req *req)
{
	return req->target.path ? req->target.path : "*";
}

static const char *find_pair(const struct http_pair *pairs, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(pairs[i].name, name) == 0)
			return pairs[i].value;
	return NULL;
}

const char *http_param(const struct http_req *req, const char *name)
{
	for (size_t i = 0; i < req->n_params; i++) {
		const struct route_param *p = &req->params[i];

		if (strncmp(p->name, name, p->name_len) == 0 && name[p->name_len] == '\0')
			return p->value;
	}
	return NULL;
}

const char *http_query(const struct http_req *req, const char *name)
{
	return find_pair(req->target.pairs, req->target.n_pairs, name);
}

static bool is_listed(const char *const *list, const char *word)
{
	for (; *list; list++)
		if (strcmp(*list, word) == 0)
			return true;
	return false;
}

int http_query_check(const struct http_req *req, const char *const *allowed, struct err *err)
{
	const struct http_target *t = &req->target;

	for (size_t i = 0; i < t->n_pairs; i++) {
		if (!is_listed(allowed, t->pairs[i].name))
			return err_field(err, t->pairs[i].name, "is not a known query parameter");
		if (find_pair(t->pairs, i, t->pairs[i].name))
			return err_field(err, t->pairs[i].name, "is given more than once");
	}
	return 0;
}

int http_query_u64(const struct http_req *req, const char *name, uint64_t min, uint64_t max,
                   uint64_t *ret, struct err *err)
{
	const char *text = http_query(req, name);
	uint64_t value;

	if (!text)
		return 0;
	if (parse_u64(text, max, &value) < 0 || value < min)
		return err_field(err, name, "must be a number from %" PRIu64 " to %" PRIu64, min,
		                 max);
	*ret = value;
	return 0;
}

int http_query_bool(const struct http_req *req, const char *name, bool *ret, struct err *err)
{
	static const char *const yes[] = {"1", "true", "", NULL};
	static const char *const no[] = {"0", "false", NULL};
	const char *text = http_query(req, name);

	if (!text)
		return 0;
	if (!is_listed(yes, text) && !is_listed(no, text))
		return err_field(err, name, "must be true, false, 1 or 0");
	*ret = is_listed(yes, text);
	return 0;
}

void http_tunnel(struct http_req *req, const struct http_tunnel_ops *ops, void *arg)
{
	req->upgrade = ops;
	req->upgrade_arg = arg;
}

void http_tunnel_outlasts_client(struct http_req *req)
{
	req->outlasts_client = true;
}

void *http_tunnel_arg(const struct http_req *req)
{
	return req->upgrade_arg;
}

const struct http_head *http_req_head(const struct http_req *req)
{
	return &req->head;
}

bool http_is_tls(const struct http_req *req)
{
	return req->conn->transport.ssl != NULL;
}

const char *http_header(const struct http_req *req, const char *name)
{
	return http_head_find(&req->head, name);
}

const json_t *http_json(const struct http_req *req)
{
	return req->json;
}

const char *http_request_id(const struct http_req *req)
{
	return req->id;
}

uint64_t http_begun_us(const struct http_req *req)
{
	return req->begun_us;
}

uint32_t http_hop_from(const struct http_req *req)
{
	return req->conn->hop_from;
}

bool http_peer_is_unix(const struct http_req *req)
{
	return req->conn->is_unix;
}

uid_t http_peer_uid(const struct http_req *req)
{
	return req->conn->peer_uid;
}

uint64_t http_peer_network(const struct http_req *req)
{
	return req->conn->peer_network;
}

const char *http_peer(const struct http_req *req)
{
	return req->conn->peer;
}

void http_set_subject(struct http_req *req, const char *id)
{
	(void)snprintf(req->subject, sizeof(req->subject), "%s", id);
}

const char *http_subject(const struct http_req *req)
{
	return req->subject;
}

void http_set_told(struct http_req *req, bool is_told)
{
	req->is_told = is_told;
}

bool http_is_told(const struct http_req *req)
{
	return req->is_told;
}

void http_set_read(struct http_req *req)
{
	req->is_read = true;
}

bool http_is_read(const struct http_req *req)
{
	return req->is_read;
}

void http_set_trace(struct http_req *req, void *trace)
{
	req->trace = trace;
}

void *http_trace(const struct http_req *req)
{
	return req->trace;
}

int64_t http_content_length(const struct http_req *req)
{
	return req->head.framing == HTTP_CHUNKED ? -1 : (int64_t)req->head.length;
}

void http_set_user(struct http_req *req, void *user)
{
	req->user = user;
}

bool http_is_asked_again(const struct http_req *req)
{
	return req->is_asked_again;
}

void http_set_recheck(struct http_req *req, http_fn fn)
{
	req->recheck = fn;
	req->is_let_in = true;
	server_request_let_in(req->conn->server);
}

void http_set_share(struct http_req *req, struct fair_share *share)
{
	loop_io_set_share(req->conn->io, share);
}

void *http_user(const struct http_req *req)
{
	return req->user;
}

void http_set_state(struct http_req *req, void *state)
{
	req->state = state;
}

void *http_state(const struct http_req *req)
{
	return req->state;
}

void http_on_body(struct http_req *req, http_body_fn fn, void *arg)
{
	req->on_body = fn;
	req->on_body_arg = arg;
	conn_take_body(req->conn);
}

void http_body_may_rest(struct http_req *req)
{
	req->may_body_rest = true;
}

void http_body_pause(struct http_req *req, bool on)
{
	if (!req->is_body_paused && !on)
		return;
	req->is_body_paused = on;
	req->conn->last_read_us = loop_now_us(req->conn->loop); /* the pause was not the client's */
	conn_kick(req->conn);
}

void http_on_done(struct http_req *req, http_done_fn fn, void *arg)
{
	req->on_done = fn;
	req->on_done_arg = arg;
}

bool http_is_whole(const struct http_req *req)
{
	return req->is_whole;
}

void http_on_drain(struct http_req *req, http_done_fn fn, void *arg)
{
	req->on_drain = fn;
	req->on_drain_arg = arg;
}
