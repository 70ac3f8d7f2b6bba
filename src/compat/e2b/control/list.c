// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of sandboxes: filtered, sorted, then cut into pages. A page's token has the start time and
 * id of its last sandbox, so that sandboxes that come or end do not shift later pages. In a cluster
 * the other nodes' parts are asked for, and merged (src/api/nodes/node_list.h).
 */
#include "compat/e2b/frame/objects.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/nodes/node_list.h"
#include "base/parse.h"
#include "base/text/wall_time.h"
#include "http/parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIST_LIMIT 100
#define PAIRS_MAX  32
#define TOKEN_SIZE 64

struct pairs { /* of metadata that must be there */
	char *text;
	const char *name[PAIRS_MAX], *value[PAIRS_MAX];
	size_t n;
};

struct wanted {
	struct pairs metadata;
	bool running, paused;
	uint64_t started_after_us;
	const char *template; /* NULL = any */
	bool is_ascending;
	uint64_t limit;
	bool has_token;
	uint64_t token_us;
	char token_id[ID_SIZE];
};

struct found {
	const struct sandbox **at;
	size_t n, size, n_running;
	const struct wanted *wanted;
};

static void pairs_done(struct pairs *p)
{
	free(p->text);
}

/* Decodes in place; -EINVAL for bad escapes. '+' stays: the outer encoding has already decoded
 * blanks. */
static int unescape(char *text)
{
	char *to = text;

	for (char *p = text; *p; p++) {
		uint64_t byte;

		if (*p != '%') {
			*to++ = *p;
			continue;
		}
		if (!p[1] || !p[2] || parse_hex(p + 1, 2, &byte) < 0 || byte == 0)
			return -EINVAL;
		*to++ = (char)byte;
		p += 2;
	}
	*to = '\0';
	return 0;
}

/* A form inside a query: "k=v&k2=v2". Each part is escaped twice: by the form and by the client. */
static int read_metadata(const char *form, struct pairs *ret, struct err *err)
{
	char *rest;

	if (!form || !form[0])
		return 0;
	rest = ret->text = xstrdup(form);
	while (rest) {
		char *name = strsep(&rest, "&"), *value = name;

		name = strsep(&value, "=");
		if (ret->n == PAIRS_MAX || !value || unescape(name) < 0 || unescape(value) < 0 ||
		    unescape(name) < 0 || unescape(value) < 0)
			return err_field(err, "metadata", "must be NAME=VALUE&…, up to %d of them",
			                 PAIRS_MAX);
		ret->name[ret->n] = name;
		ret->value[ret->n++] = value;
	}
	return 0;
}

static int read_states(const char *text, struct wanted *w, struct err *err)
{
	w->running = !text || http_list_has(text, "running");
	w->paused = !text || http_list_has(text, "paused");
	if (text && !w->running && !w->paused)
		return err_field(err, "state", "must be running, paused or both");
	return 0;
}

static int read_time(const char *text, uint64_t *ret, struct err *err)
{
	if (text && wall_time_parse(text, ret) < 0)
		return err_field(err, "startedAfter", "must be a time as in RFC 3339");
	return 0;
}

static int read_token(const char *text, struct wanted *w, struct err *err)
{
	char digits[24];
	size_t len = text ? strcspn(text, ".") : 0;

	if (!text || !text[0])
		return 0;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)len, text);
	if (len >= sizeof(digits) || text[len] != '.' || strlen(text + len + 1) >= ID_SIZE ||
	    parse_u64(digits, UINT64_MAX, &w->token_us) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "invalid next token");
	(void)snprintf(w->token_id, sizeof(w->token_id), "%s", text + len + 1);
	w->has_token = true;
	return 0;
}

static int read_query(const struct http_req *req, struct wanted *w, struct err *err)
{
	const char *order = http_query(req, "order");
	int r = read_metadata(http_query(req, "metadata"), &w->metadata, err);

	w->limit = LIST_LIMIT;
	w->template = http_query(req, "template");
	w->is_ascending = order && strcmp(order, "asc") == 0;
	if (r == 0 && order && !w->is_ascending && strcmp(order, "desc") != 0)
		r = err_field(err, "order", "must be asc or desc");
	if (r == 0)
		r = read_states(http_query(req, "state"), w, err);
	if (r == 0)
		r = read_time(http_query(req, "startedAfter"), &w->started_after_us, err);
	if (r == 0)
		r = http_query_u64(req, "limit", 1, LIST_LIMIT, &w->limit, err);
	if (r == 0)
		r = read_token(http_query(req, "nextToken"), w, err);
	return r;
}

static bool has_metadata(const struct sandbox *s, const struct pairs *p)
{
	struct sandbox_facts f;
	struct notes n;
	const json_t *metadata;

	sandbox_facts(s, &f);
	notes_read(s, &n);
	metadata = n.metadata ? n.metadata : f.tags;
	for (size_t i = 0; i < p->n; i++) {
		const char *value = json_string_value(json_object_get(metadata, p->name[i]));

		if (!value || strcmp(value, p->value[i]) != 0)
			return false;
	}
	return true;
}

static bool is_wanted(const struct wanted *w, const struct sandbox *s, bool is_running)
{
	if (!(is_running ? w->running : w->paused))
		return false;
	if (w->template && strcmp(w->template, e2b_template(s)) != 0)
		return false;
	return e2b_started_us(s) >= w->started_after_us && has_metadata(s, &w->metadata);
}

static void take(struct sandbox *s, void *arg)
{
	struct found *f = arg;
	bool is_running = sandbox_state(s) == SANDBOX_RUNNING;

	if (!e2b_is_there(s) || sandbox_state(s) == SANDBOX_CREATING)
		return;
	f->n_running += is_running;
	if (!is_wanted(f->wanted, s, is_running))
		return;
	if (f->n == f->size) {
		f->size = f->size ? f->size * 2 : 64;
		f->at = xrealloc(f->at, f->size * sizeof(void *));
	}
	f->at[f->n++] = s;
}

/* By start, then by id. */
static int compare(uint64_t us, const char *id, const struct sandbox *s)
{
	uint64_t other = e2b_started_us(s);

	if (us != other)
		return us < other ? -1 : 1;
	return strcmp(id, sandbox_id(s));
}

static int by_start(const void *a, const void *b)
{
	const struct sandbox *s = *(const struct sandbox *const *)a;

	return compare(e2b_started_us(s), sandbox_id(s), *(const struct sandbox *const *)b);
}

static bool is_behind(const struct wanted *w, const struct sandbox *s)
{
	int order = w->has_token ? compare(w->token_us, w->token_id, s) : 0;

	return !w->has_token || (w->is_ascending ? order < 0 : order > 0);
}

/* What is to be shown of what this node has. */
static void find(struct http_req *req, struct wanted *w, struct found *f)
{
	const struct api *api = http_app_arg(req);
	const struct sandbox_filter all = {.project_id = caller_project(req), .limit = SIZE_MAX};
	bool has_more;

	*f = (struct found){.wanted = w};
	(void)fleet_list(api->fleet, &all, take, f, &has_more);
	if (f->n > 0)
		qsort(f->at, f->n, sizeof(void *), by_start);
}

static void tell_page(struct http_req *req, uint64_t last_us, const char *last_id, uint64_t running)
{
	char token[TOKEN_SIZE], total[24];

	if (last_id) {
		(void)snprintf(token, sizeof(token), "%" PRIu64 ".%s", last_us, last_id);
		http_reply_header(req, "X-Next-Token", token);
	}
	(void)snprintf(total, sizeof(total), "%" PRIu64, running);
	http_reply_header(req, "X-Total-Running", total);
}

static int reply_page(struct http_req *req, const struct found *f, struct err *err)
{
	const struct wanted *w = f->wanted;
	const struct sandbox *last = NULL;
	struct json_writer *out;
	struct reply reply;
	uint64_t n = 0;

	out = reply_begin_bare(&reply);
	json_open_array(out, NULL);
	for (size_t i = 0; i < f->n; i++) {
		const struct sandbox *s = f->at[w->is_ascending ? i : f->n - 1 - i];

		if (!is_behind(w, s))
			continue;
		if (n++ == w->limit)
			break;
		e2b_put_listed(s, out, NULL);
		last = s;
	}
	json_close_array(out);
	tell_page(req, last ? e2b_started_us(last) : 0,
	          n > w->limit && last ? sandbox_id(last) : NULL, f->n_running);
	return reply_send(&reply, req, 200, err);
}

static int read_wanted(const struct http_req *req, bool is_v1, struct wanted *w, struct err *err)
{
	int r = read_query(req, w, err);

	if (is_v1)
		w->paused = false;
	return r;
}

/* Of all nodes of the cluster. */
static int reply_merged(struct http_req *req, struct node_list *l, const struct wanted *w,
                        const struct found *f, struct err *err)
{
	uint64_t n = 0, running = f->n_running;
	const struct node_row *last;
	struct json_writer *out;
	struct reply reply;

	for (size_t i = 0; i < f->n && n <= w->limit; i++) {
		const struct sandbox *s = f->at[w->is_ascending ? i : f->n - 1 - i];

		if (!is_behind(w, s))
			continue;
		if (n++ < w->limit)
			node_list_add_own(l, e2b_started_us(s), sandbox_id(s), s);
	}
	if (n > w->limit)
		node_list_own_has_more(l);
	node_list_merge(l, w->limit);
	for (size_t i = 0; i < l->n_parts; i++)
		running += l->parts[i].total;
	out = reply_begin_bare(&reply);
	json_open_array(out, NULL);
	for (size_t i = 0; i < l->n_rows; i++)
		if (l->rows[i].row)
			json_put_value(out, NULL, l->rows[i].row);
		else
			e2b_put_listed(l->rows[i].own, out, NULL);
	json_close_array(out);
	last = l->n_rows > 0 ? &l->rows[l->n_rows - 1] : NULL;
	tell_page(req, last ? last->us : 0, l->has_more && last ? last->id : NULL, running);
	return reply_send(&reply, req, 200, err);
}

static int finish(struct http_req *req, struct node_list *l, bool is_v1, struct err *err)
{
	struct wanted w = {0};
	struct found f = {0};
	int r = read_wanted(req, is_v1, &w, err);

	if (r == 0) {
		find(req, &w, &f);
		r = reply_merged(req, l, &w, &f, err);
	}
	free(f.at);
	pairs_done(&w.metadata);
	return r;
}

static int finish_v1(struct http_req *req, struct node_list *l, struct err *err)
{
	return finish(req, l, /* is_v1= */ true, err);
}

static int finish_v2(struct http_req *req, struct node_list *l, struct err *err)
{
	return finish(req, l, /* is_v1= */ false, err);
}

/* [is_v1][is_ascending] */
#define KIND(ascending, fn)                                                                        \
	{                                                                                          \
		.id_kind = "sb", .id_field = "sandboxID", .time_field = "startedAt",               \
		.is_time_text = true, .is_ascending = (ascending), .finish = (fn)                  \
	}
static const struct node_list_kind kinds[2][2] = {
	{KIND(false, finish_v2), KIND(true, finish_v2)},
	{KIND(false, finish_v1), KIND(true, finish_v1)},
};

static int list(struct http_req *req, bool is_v1, struct err *err)
{
	struct wanted w = {0};
	struct found f = {0};
	int r = read_wanted(req, is_v1, &w, err);

	if (r == 0)
		r = node_list_begin(req, &kinds[is_v1][w.is_ascending], err);
	if (r == 0) {
		find(req, &w, &f);
		r = reply_page(req, &f, err);
	}
	free(f.at);
	pairs_done(&w.metadata);
	return r;
}

int e2b_list_sandboxes(struct http_req *req, struct err *err)
{
	return list(req, /* is_v1= */ false, err);
}

int e2b_list_sandboxes_v1(struct http_req *req, struct err *err)
{
	return list(req, /* is_v1= */ true, err);
}
