// SPDX-License-Identifier: Apache-2.0
/*
 * What the wall decided about a sandbox, and the policy that this suggests: both are read from the
 * event log, where they outlive the daemon. The log is looked through a bounded stretch a
 * turn, so that a long one holds up nobody.
 */
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

struct scan {
	struct http_req *req;
	struct event_log *events;
	struct loop_job *again;
	struct event_filter filter;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE]; /* what the filter points to */
	uint64_t after, left;
	struct reply reply;
	struct json_writer *w;
	struct learner *learner; /* NULL: decisions are listed */
	bool has_begin;          /* nothing was removed from the log before it was read */
	bool has_gap;            /* there were more decisions than were told */
};

static void scan_free(struct scan *sc)
{
	loop_job_free(sc->again);
	learner_free(sc->learner);
	buf_done(&sc->reply.body);
	free(sc);
}

static void on_client_gone(void *arg)
{
	scan_free(arg);
}

static int list_one(struct scan *sc, const json_t *entry)
{
	const char *key;
	json_t *value;

	json_open_object(sc->w, NULL);
	json_put_value(sc->w, "seq", json_object_get(entry, "seq"));
	json_put_value(sc->w, "at_us", json_object_get(entry, "at_us"));
	json_object_foreach (json_object_get(entry, "data"), key, value) {
		json_put_value(sc->w, key, value);
	}
	json_close_object(sc->w);
	return --sc->left == 0;
}

static void learn_place(struct scan *sc, const char *name, const char *address, json_int_t port)
{
	struct hostname host;
	struct address a;
	const char *why;

	if (name && hostname_parse(name, strlen(name), &host, &why) < 0)
		return;
	if (address && address_parse(address, strlen(address), &a, &why) < 0)
		return;
	if ((name || address) && port > 0 && port <= UINT16_MAX)
		(void)learner_add(sc->learner, name ? &host : NULL, address ? &a : NULL,
		                  (uint16_t)port);
}

/*
 * Of a policy that enforces: what was reached, and what no rule allowed. A name that was not found
 * was not connected to, so that its ports are not known: it gets those of the web.
 */
static void learn_decision(struct scan *sc, const json_t *data, const char *name,
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
		sc->has_gap = true;
	if (is_denied ? !why || strcmp(why, JUDGE_NO_RULE_WHY) != 0 : is_dns)
		return;
	if (!is_dns) {
		learn_place(sc, name, name ? NULL : address, port);
		return;
	}
	learn_place(sc, name, NULL, HTTP_PORT);
	learn_place(sc, name, NULL, HTTPS_PORT);
}

static int learn_one(struct scan *sc, const json_t *entry, bool is_decision)
{
	const json_t *data = json_object_get(entry, "data");
	const char *name = json_string_value(json_object_get(data, "name"));
	const char *address = json_string_value(json_object_get(data, "address"));
	json_int_t port = json_integer_value(json_object_get(data, "port"));

	if (is_decision)
		learn_decision(sc, data, name, address, port);
	else
		learn_place(sc, name, address, port);
	return 0;
}

static int on_line(const struct event_line *line, void *arg)
{
	struct scan *sc = arg;
	auto_json json_t *entry = NULL;

	if (strcmp(line->type, event_type_name(EVENT_SANDBOX_CREATED)) == 0) {
		sc->has_begin = true;
		return 0;
	}
	entry = json_loadb(line->json, line->len, 0, NULL);
	if (!sc->learner)
		return list_one(sc, entry);
	return learn_one(sc, entry, strcmp(line->type, event_type_name(EVENT_POLICY_DECIDED)) == 0);
}

static void finish(struct scan *sc)
{
	struct http_req *req = sc->req;
	struct reply reply;
	char cursor[24];

	if (sc->learner) {
		learner_write(sc->learner, sc->w, "policy");
		json_put_bool(sc->w, "complete",
		              sc->has_begin && !sc->has_gap && !learner_is_full(sc->learner));
		json_put_u64(sc->w, "upto", sc->after);
	} else {
		json_close_array(sc->w);
		(void)snprintf(cursor, sizeof(cursor), "%" PRIu64, sc->after);
		json_put_str(sc->w, "next_cursor", sc->left == 0 ? cursor : NULL);
	}
	reply = sc->reply;
	reply.w.out = &reply.body;
	sc->reply = (struct reply){0};
	http_on_done(req, NULL, NULL);
	scan_free(sc);
	reply_send_late(&reply, req, 200);
}

static bool scan_some(struct loop *loop, void *arg)
{
	struct scan *sc = arg;
	struct http_req *req = sc->req;
	struct err err;
	int r = event_log_read(sc->events, &sc->filter, &sc->after, on_line, sc, &err);

	(void)loop;
	if (r < 0) {
		http_on_done(req, NULL, NULL);
		scan_free(sc);
		http_reply_err(req, &err);
	} else if (r == 0 || sc->left == 0) {
		finish(sc);
	} else {
		return false;
	}
	return true;
}

static void scan_start(struct http_req *req, const struct sandbox *s, struct scan *from)
{
	const struct api *api = http_app_arg(req);
	struct scan *sc = xnew0(struct scan);

	*sc = *from;
	sc->req = req;
	sc->events = api->events;
	(void)snprintf(sc->sandbox_id, sizeof(sc->sandbox_id), "%s", sandbox_id(s));
	(void)snprintf(sc->project_id, sizeof(sc->project_id), "%s", sandbox_project_id(s));
	sc->filter.sandbox_id = sc->sandbox_id;
	sc->filter.project_id = sc->project_id;
	sc->again = loop_job_new(http_loop(req), scan_some, sc);
	sc->w = reply_begin(&sc->reply);
	json_put_str(sc->w, "sandbox_id", sc->sandbox_id);
	if (!sc->learner)
		json_open_array(sc->w, "decisions");
	http_on_done(req, on_client_gone, sc);
	loop_job_start(sc->again);
}

int list_network_decisions(struct http_req *req, struct err *err)
{
	struct scan sc = {.left = LIMIT_DEFAULT, .filter = {.types = BIT64(EVENT_POLICY_DECIDED)}};
	const char *cursor = http_query(req, "cursor");
	struct sandbox *s;
	int r = http_query_u64(req, "limit", 1, LIMIT_MAX, &sc.left, err);

	if (r == 0 && cursor && parse_u64(cursor, INT64_MAX, &sc.after) < 0)
		r = err_field(err, "cursor", "is not one of this list");
	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		scan_start(req, s, &sc);
	return r;
}

int suggest_network(struct http_req *req, struct err *err)
{
	struct scan sc = {.left = UINT64_MAX,
	                  .filter = {.types = BIT64(EVENT_POLICY_LEARNT) |
	                                      BIT64(EVENT_POLICY_DECIDED) |
	                                      BIT64(EVENT_SANDBOX_CREATED)}};
	const struct api *api = http_app_arg(req);
	struct sandbox *s;
	int r = http_query_u64(req, "after", 0, INT64_MAX, &sc.after, err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r < 0)
		return r;
	sc.filter.project_id = sandbox_project_id(s);
	sc.has_begin = sc.after > 0 && sc.after >= event_log_removed(api->events, &sc.filter);
	sc.learner = learner_new();
	scan_start(req, s, &sc);
	return 0;
}
