// SPDX-License-Identifier: Apache-2.0
/* Where the chains of the event log begin and end, and the daemon's signature under that. */
#include "api/account/event_scope.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

#include "base/clock.h"
#include "event/statement.h"

#include <stdio.h>

int wants_all_projects(const struct http_req *req, struct err *err)
{
	const struct key *key = http_user(req);
	bool wants_all = false;
	int r = http_query_bool(req, "all", &wants_all, err);

	if (r < 0 || !wants_all)
		return r;
	if (key_scope(key) != SCOPE_ADMIN)
		return err_set(err, ERR_FORBIDDEN, 0, "all: needs a key with scope 'admin'");
	r = check_is_default(req, err);
	return r < 0 ? r : 1;
}

static void put_project_chain(const struct event_chain_status *chain, void *arg)
{
	struct json_writer *w = arg;

	json_open_object(w, NULL);
	json_put_str(w, "project_id", chain->project_id[0] ? chain->project_id : NULL);
	json_put_bool(w, "audit", chain->is_audit);
	statement_put_chain(w, chain);
	json_close_object(w);
}

/* Of all chains, and where the order of all entries begins and ends. */
static void put_all(struct json_writer *w, const struct event_log *events)
{
	struct event_chain_status former;
	struct event_status status;

	event_log_status(events, &status);
	json_put_u64(w, "place", status.place);
	json_put_u64(w, "removed_place", event_log_removed(events, &(struct event_filter){0}));
	json_put_u64(w, "count", status.count);
	json_open_array(w, "chains");
	event_log_each_chain(events, put_project_chain, w);
	json_close_array(w);
	if (!event_log_former(events, &former)) {
		json_put_null(w, "former");
		return;
	}
	json_open_object(w, "former");
	statement_put_chain(w, &former);
	json_close_object(w);
}

int get_events_head(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct event_chain_status chain;
	struct reply reply;
	struct json_writer *w;
	bool is_audit = false, is_all;
	int r = wants_all_projects(req, err);

	is_all = r > 0;
	if (r >= 0)
		r = http_query_bool(req, "audit", &is_audit, err);
	if (r < 0)
		return r;
	w = reply_begin(&reply);
	if (is_all) {
		put_all(w, api->events);
	} else {
		event_log_chain(api->events, caller_project(req), is_audit, &chain);
		statement_put_chain(w, &chain);
	}
	return reply_send(&reply, req, 200, err);
}

struct seal_writer {
	const struct api *api;
	struct json_writer *w;
	int error;
};

static void put_seal(struct seal_writer *s, const struct event_chain_status *chain, bool is_former)
{
	const struct statement statement = {
		.chain = chain, .is_former = is_former, .at_us = clock_wall_us()};
	int r = statement_seal(s->w, &statement, s->api->seal_key);

	if (r < 0)
		s->error = r;
}

static void put_chain_seal(const struct event_chain_status *chain, void *arg)
{
	put_seal(arg, chain, /* is_former= */ false);
}

static void put_seals(struct seal_writer *s, const char *project_id)
{
	struct event_chain_status chain;

	if (project_id) {
		for (int is_audit = 0; is_audit < 2; is_audit++) {
			event_log_chain(s->api->events, project_id, is_audit != 0, &chain);
			(void)snprintf(chain.project_id, sizeof(chain.project_id), "%s",
			               project_id);
			chain.is_audit = is_audit != 0;
			put_seal(s, &chain, /* is_former= */ false);
		}
		return;
	}
	event_log_each_chain(s->api->events, put_chain_seal, s);
	if (event_log_former(s->api->events, &chain))
		put_seal(s, &chain, /* is_former= */ true);
}

int get_event_seals(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct reply reply;
	struct seal_writer s = {.api = api};
	int r = wants_all_projects(req, err);

	if (r < 0)
		return r;
	s.w = reply_begin(&reply);
	json_put_str(s.w, "key", seal_key_public(api->seal_key));
	json_open_array(s.w, "seals");
	put_seals(&s, r > 0 ? NULL : caller_project(req));
	json_close_array(s.w);
	if (s.error < 0) {
		buf_done(&reply.body);
		return err_set(err, ERR_INTERNAL, -s.error, "the log cannot be sealed");
	}
	return reply_send(&reply, req, 200, err);
}
