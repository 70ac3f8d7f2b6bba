// SPDX-License-Identifier: Apache-2.0
/*
 * What the wall decided about a sandbox, and the policy that this suggests: both are read from the
 * event log, where they outlive the daemon.
 */
#include "api/frame/event_scan.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"
#include "base/parse.h"
#include "net/policy/judge.h"
#include "net/policy/learn.h"

#include <stdio.h>
#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define HTTP_PORT     80
#define HTTPS_PORT    443

struct decisions {
	uint64_t left; /* to list */
	struct reply reply;
	struct json_writer *w;
	struct learner *learner; /* NULL: decisions are listed */
	bool has_begin;          /* nothing was removed from the log before it was read */
	bool has_gap;            /* there were more decisions than were told */
};

static void decisions_free(void *arg)
{
	struct decisions *d = arg;

	learner_free(d->learner);
	buf_done(&d->reply.body);
	free(d);
}

static int list_one(struct decisions *d, const json_t *entry)
{
	const char *key;
	json_t *value;

	json_open_object(d->w, NULL);
	json_put_value(d->w, "seq", json_object_get(entry, "seq"));
	json_put_value(d->w, "at_us", json_object_get(entry, "at_us"));
	json_object_foreach (json_object_get(entry, "data"), key, value) {
		json_put_value(d->w, key, value);
	}
	json_close_object(d->w);
	return --d->left == 0;
}

static void learn_place(struct decisions *d, const char *name, const char *address, json_int_t port)
{
	struct hostname host;
	struct address a;
	const char *why;

	if (name && hostname_parse(name, strlen(name), &host, &why) < 0)
		return;
	if (address && address_parse(address, strlen(address), &a, &why) < 0)
		return;
	if ((name || address) && port > 0 && port <= UINT16_MAX)
		(void)learner_add(d->learner, name ? &host : NULL, address ? &a : NULL,
		                  (uint16_t)port);
}

/*
 * Of a policy that enforces: what was reached, and what no rule allowed. A name that was not found
 * was not connected to, so that its ports are not known: it gets those of the web.
 */
static void learn_decision(struct decisions *d, const json_t *data, const char *name,
                           const char *address, json_int_t port)
{
	const char *verdict = json_string_value(json_object_get(data, "verdict"));
	const char *kind = json_string_value(json_object_get(data, "kind"));
	const bool is_dns = kind && strcmp(kind, "dns") == 0;
	const char *why = json_string_value(json_object_get(data, "reason"));
	const bool is_denied = verdict && strcmp(verdict, "denied") == 0;

	if (json_is_true(json_object_get(data, "recorded")))
		return; /* it is told as learnt, too */
	if (json_integer_value(json_object_get(data, "left_out")) > 0)
		d->has_gap = true;
	if (is_denied ? !why || strcmp(why, JUDGE_NO_RULE_WHY) != 0 : is_dns)
		return;
	if (!is_dns) {
		learn_place(d, name, name ? NULL : address, port);
		return;
	}
	learn_place(d, name, NULL, HTTP_PORT);
	learn_place(d, name, NULL, HTTPS_PORT);
}

static int learn_one(struct decisions *d, const json_t *entry, bool is_decision)
{
	const json_t *data = json_object_get(entry, "data");
	const char *name = json_string_value(json_object_get(data, "name"));
	const char *address = json_string_value(json_object_get(data, "address"));
	json_int_t port = json_integer_value(json_object_get(data, "port"));

	if (is_decision)
		learn_decision(d, data, name, address, port);
	else
		learn_place(d, name, address, port);
	return 0;
}

static int on_line(const struct event_line *line, void *arg)
{
	struct decisions *d = arg;
	auto_json json_t *entry = NULL;

	if (strcmp(line->type, event_type_name(EVENT_SANDBOX_CREATED)) == 0) {
		d->has_begin = true;
		return 0;
	}
	entry = json_loadb(line->json, line->len, 0, NULL);
	if (!d->learner)
		return list_one(d, entry);
	return learn_one(d, entry, strcmp(line->type, event_type_name(EVENT_POLICY_DECIDED)) == 0);
}

static void decisions_send(struct http_req *req, uint64_t after, void *arg)
{
	struct decisions *d = arg;
	struct reply reply;
	char cursor[24];

	if (d->learner) {
		learner_write(d->learner, d->w, "policy");
		json_put_bool(d->w, "complete",
		              d->has_begin && !d->has_gap && !learner_is_full(d->learner));
		json_put_u64(d->w, "upto", after);
	} else {
		json_close_array(d->w);
		(void)snprintf(cursor, sizeof(cursor), "%" PRIu64, after);
		json_put_str(d->w, "next_cursor", d->left == 0 ? cursor : NULL);
	}
	reply = d->reply;
	reply.w.out = &reply.body;
	d->reply = (struct reply){0};
	decisions_free(d);
	reply_send_late(&reply, req, 200);
}

static const struct event_scan_ops ops = {
	.line = on_line, .end = decisions_send, .free = decisions_free};

static void scan(struct http_req *req, const struct sandbox *s, uint64_t types, uint64_t after,
                 const struct decisions *from)
{
	const struct api *api = http_app_arg(req);
	struct decisions *d = xnew0(struct decisions);

	*d = *from;
	d->w = reply_begin(&d->reply);
	json_put_str(d->w, "sandbox_id", sandbox_id(s));
	if (!d->learner)
		json_open_array(d->w, "decisions");
	event_scan_start(req, api->events, s, types, after, &ops, d);
}

int list_network_decisions(struct http_req *req, struct err *err)
{
	struct decisions d = {.left = LIMIT_DEFAULT};
	const char *cursor = http_query(req, "cursor");
	uint64_t after = 0;
	struct sandbox *s;
	int r = http_query_u64(req, "limit", 1, LIMIT_MAX, &d.left, err);

	if (r == 0 && cursor && parse_u64(cursor, INT64_MAX, &after) < 0)
		r = err_field(err, "cursor", "is not one of this list");
	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		scan(req, s, BIT64(EVENT_POLICY_DECIDED), after, &d);
	return r;
}

int suggest_network(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct event_filter filter = {.types = BIT64(EVENT_POLICY_LEARNT) |
	                                       BIT64(EVENT_POLICY_DECIDED) |
	                                       BIT64(EVENT_SANDBOX_CREATED)};
	struct decisions d = {.left = UINT64_MAX};
	uint64_t after = 0;
	struct sandbox *s;
	int r = http_query_u64(req, "after", 0, INT64_MAX, &after, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	filter.project_id = sandbox_project_id(s);
	d.has_begin = after > 0 && after >= event_log_removed(api->events, &filter);
	d.learner = learner_new();
	scan(req, s, filter.types, after, &d);
	return 0;
}
