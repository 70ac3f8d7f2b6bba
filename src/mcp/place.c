// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the sandbox for a call: the one that its arguments name, else the main one of its session.
 * The first call that needs the main one makes it; calls that come meanwhile wait for it. A client
 * without a session has to name a sandbox.
 *
 *	place_call() --> find or make --> resume if it rests --> run the tool
 *
 * If a session's sandbox has ended, the next call fails once with that, and it is not silently
 * replaced: the model's variables and files are lost.
 */
#include "mcp/mcp_private.h"

#include "api/frame/access.h"
#include "api/frame/body.h"

#include <stdio.h>
#include <string.h>

/* A tool runs on the node of its session. */
static int refuse_elsewhere(const struct mcp_call *c, const char *id, struct err *err)
{
	(void)err_set(
		err, ERR_CONFLICT, 0,
		"sandbox %s was made on another node of the cluster, and this session is on '%s'",
		id, node_own_name(c->mcp->api->node));
	return err_hint(err, "GET /v1/sandboxes shows its node: begin a session there, or let this "
	                     "session make a sandbox of its own");
}

int place_find(const struct mcp_call *c, const char *id, struct sandbox **ret, struct err *err)
{
	*ret = sandbox_find(c->mcp->api->fleet, c->project_id, id);
	if (*ret)
		return 0;
	if (node_is_in(c->mcp->api->node) && id_is_valid(id, "sb") && !id_has_own_tag(id))
		return refuse_elsewhere(c, id, err);
	(void)err_set(err, ERR_NOT_FOUND, 0, "no sandbox '%.64s'", id);
	return err_hint(err, "list_sandboxes lists them");
}

/* `create` is the body of POST /v1/sandboxes as JSON; the others are its fields, or their text. */
int place_wish(const struct http_req *req, json_t **ret, struct err *err)
{
	static const char *const allowed[] = {"create",  "template", "snapshot",
	                                      "network", "sandbox",  NULL};
	const char *create = http_query(req, "create");
	auto_json json_t *wish = NULL;
	int r = http_query_check(req, allowed, err);

	if (r == 0 && create)
		r = json_parse(create, strlen(create), &wish, err);
	if (r < 0)
		return err_prefix(err, "the query");
	if (!wish)
		wish = json_object();
	if (!json_is_object(wish))
		return err_field(err, "create", "must be an object");
	for (const char *const *name = allowed + 1; *name; name++) {
		const char *value = http_query(req, *name);

		if (value && json_object_set_new(wish, *name, json_string(value)) < 0)
			return err_field(err, *name, "must be UTF-8");
	}
	*ret = take_ptr(wish);
	return 0;
}

static void run_tool(struct mcp_call *c, struct sandbox *s)
{
	struct err err;

	if (s)
		sandbox_touch(s);
	if (c->session)
		session_touch(c->session);
	if (c->tool->run(c, s, &err) < 0)
		call_fail(c, &err);
}

static void on_awake(struct sandbox *s, const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct http_req *req = c->req;

	if (!c->is_over && err) {
		call_fail(c, err);
	} else if (!c->is_over) {
		access_enter_again(req);
		run_tool(c, s);
		access_leave(req);
	}
	call_unref(c);
}

static int run_in(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	int r;

	(void)snprintf(c->sandbox_id, sizeof(c->sandbox_id), "%s", sandbox_id(s));
	http_set_subject(c->req, sandbox_id(s));
	if (!sandbox_wakes_by_call(s)) {
		run_tool(c, s);
		return 0;
	}
	r = sandbox_resume(s, on_awake, call_ref(c), err);
	if (r < 0)
		call_unref(c);
	return r;
}

static int set_default(json_t *body, const char *name, uint64_t value)
{
	return json_object_get(body, name)
	               ? 0
	               : json_object_set_new(body, name, json_integer((json_int_t)value));
}

/* Sets both timeouts, so that the sandbox does not live for ever, whatever happens to its
 * session. */
static int prepare(const struct mcp_call *c, json_t *body, bool is_main, struct err *err)
{
	const struct fleet_config *config = fleet_config(c->mcp->api->fleet);
	json_t *tags = json_object_get(body, "tags");
	int r = 0;

	(void)json_object_del(body, "sandbox"); /* of the URL, and no field of a create */
	if (tags && !json_is_object(tags))
		return err_field(err, "tags", "must be an object");
	tags = tags ? json_copy(tags) : json_object();
	if (c->session)
		r |= json_object_set_new(tags, SESSION_TAG, json_string(c->session->tag));
	if (is_main)
		r |= json_object_set_new(tags, MAIN_TAG, json_string(c->session->tag));
	r |= json_object_set_new(body, "tags", tags);
	r |= set_default(body, "idle_timeout_ms", MCP_IDLE_MS);
	r |= set_default(body, "timeout_ms", MIN(MCP_LIFE_MS, config->max_timeout_ms));
	return r < 0 ? err_set(err, ERR_INTERNAL, ENOMEM, "cannot prepare the create") : 0;
}

int place_create(struct mcp_call *c, json_t *body, bool is_main, sandbox_done_fn done, void *arg,
                 struct err *err)
{
	struct port_numbers ports;
	struct sandbox_spec spec;
	bool is_get;
	int r = prepare(c, body, is_main, err);

	if (r == 0)
		r = body_read_create(body, &spec, &is_get, &ports, err);
	if (r == 0 && (spec.packages || is_get || ports.n > 0))
		r = err_field(err,
		              spec.packages ? "packages"
		              : is_get      ? "get_or_create"
		                            : "ports",
		              "is not possible here");
	if (r < 0)
		return r;
	spec.key_id = c->key_id;
	return sandbox_create(c->mcp->api->fleet, c->project_id, &spec, done, arg, err);
}

/* The session may be gone when its sandbox comes. */
struct making {
	struct mcp *mcp;
	char session_id[ID_SIZE];
};

static struct session *session_of(const struct making *making)
{
	list_for_each (&making->mcp->sessions, struct session, s, link)
		if (strcmp(s->id, making->session_id) == 0)
			return s;
	return NULL;
}

/* Calls that wait for the session's sandbox have no sandbox yet and have not named one. */
static struct mcp_call *next_waiting(struct session *s)
{
	list_for_each (&s->mcp->calls, struct mcp_call, c, link)
		if (c->session == s && c->waits)
			return c;
	return NULL;
}

static void on_made(struct sandbox *sandbox, const struct err *err, void *arg)
{
	auto_free struct making *making = arg;
	struct session *s = session_of(making);
	struct mcp_call *c;
	struct http_req *req;
	struct err failure;

	if (!s) {
		if (sandbox)
			sandbox_delete(sandbox, END_DELETED, NULL, NULL);
		return;
	}
	s->is_making = false;
	if (sandbox)
		(void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%s", sandbox_id(sandbox));
	while ((c = next_waiting(s))) {
		req = c->req;
		c->waits = false;
		access_enter_again(req);
		if (err)
			call_fail(c, err);
		else if (run_in(c, sandbox, &failure) < 0)
			call_fail(c, &failure);
		access_leave(req);
	}
}

static int make_main(struct mcp_call *c, struct err *err)
{
	auto_json json_t *body = json_copy(c->wish);
	struct making *making;
	int r = 0;

	c->waits = true;
	if (c->session->is_making)
		return 0;
	making = xnew0(struct making);
	making->mcp = c->mcp;
	(void)snprintf(making->session_id, sizeof(making->session_id), "%s", c->session->id);
	r = place_create(c, body, /* is_main= */ true, on_made, making, err);
	if (r < 0) {
		c->waits = false;
		free(making);
		return r;
	}
	c->session->is_making = true;
	return 0;
}

static int tell_ended(struct session *s, struct err *err)
{
	(void)err_set(err, ERR_GONE, 0,
	              "this session's sandbox %s has ended, and its files and variables with it",
	              s->sandbox_id);
	s->sandbox_id[0] = '\0';
	return err_hint(err, "the next call gets a fresh one");
}

static int run_in_main(struct mcp_call *c, struct err *err)
{
	const char *given = json_string_value(json_object_get(c->wish, "sandbox"));
	struct sandbox *s;
	int r;

	if (given) {
		r = place_find(c, given, &s, err);
		return r < 0 ? r : run_in(c, s, err);
	}
	if (!c->session) {
		(void)err_field(err, "sandbox_id", "is required");
		return err_hint(err,
		                "call create_sandbox first, and give the id that it returns to "
		                "each call");
	}
	if (!c->session->sandbox_id[0])
		return make_main(c, err);
	s = sandbox_find(c->mcp->api->fleet, c->project_id, c->session->sandbox_id);
	if (!s || sandbox_state(s) == SANDBOX_STOPPING ||
	    (!sandbox_wakes_by_call(s) &&
	     (sandbox_state(s) == SANDBOX_STOPPED || sandbox_state(s) == SANDBOX_FAILED)))
		return tell_ended(c->session, err);
	return run_in(c, s, err);
}

int place_call(struct mcp_call *c, struct err *err)
{
	auto_json json_t *named = json_incref(json_object_get(c->arguments, "sandbox_id"));
	struct sandbox *s;
	int r;

	if (!(c->tool->flags & TOOL_IN_SANDBOX)) {
		run_tool(c, NULL);
		return 0;
	}
	(void)json_object_del(c->arguments, "sandbox_id");
	if (!named || json_is_null(named))
		return run_in_main(c, err);
	if (!json_is_string(named) || json_string_length(named) > RPC_TEXT_MAX)
		return err_field(err, "sandbox_id", "must be a string");
	r = place_find(c, json_string_value(named), &s, err);
	return r < 0 ? r : run_in(c, s, err);
}
