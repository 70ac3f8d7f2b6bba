// SPDX-License-Identifier: Apache-2.0
/*
 * Tools for sandboxes themselves: make, list, fork, snapshot, open a port, close. If the caller has
 * left meanwhile, a new sandbox is deleted again, since nobody knows of it.
 */
#include "api/frame/body.h"
#include "api/network/ports.h"
#include "mcp/mcp_private.h"
#include "sandbox/snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>

#define LIST_MAX 100

static void put_brief(struct sandbox *s, struct json_writer *w)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1024 * 1024);
	static const char *const names[] = {"name",       "state",      "template", "tags",
	                                    "created_us", "expires_us", "ended"};
	auto_json json_t *all = NULL;
	struct json_writer whole;

	json_writer_init(&whole, &text);
	sandbox_to_json(s, &whole, NULL);
	if (json_writer_end(&whole) < 0 || json_parse(text.data, text.len, &all, NULL) < 0)
		all = NULL;
	json_put_str(w, "sandbox_id", sandbox_id(s));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (json_object_get(all, names[i]))
			json_put_value(w, names[i], json_object_get(all, names[i]));
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct result r;

	if (c->is_over && s)
		sandbox_delete(s, END_DELETED, NULL, NULL);
	if (!c->is_over && err) {
		call_fail(c, err);
	} else if (!c->is_over) {
		result_init(&r);
		r.is_plain = true;
		put_brief(s, &r.s);
		call_end(c, &r);
	}
	call_unref(c);
}

static int run_create(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	auto_json json_t *body = json_copy(c->wish);
	int r;

	(void)s;
	(void)json_object_update(body, c->arguments);
	r = place_create(c, body, /* is_main= */ false, on_created, call_ref(c), err);
	if (r < 0)
		call_unref(c);
	return r;
}

struct listing {
	const struct api *api;
	struct json_writer *w;
};

/* Without the ports' tokens: open_port makes a new one. */
static void put_one(struct sandbox *s, void *arg)
{
	const struct listing *l = arg;
	const struct port *port;

	json_open_object(l->w, NULL);
	put_brief(s, l->w);
	json_open_array(l->w, "ports");
	for (size_t i = 0; (port = port_at(s, i)); i++)
		port_to_json(l->w, NULL, l->api, s, port, NULL);
	json_close_array(l->w);
	json_close_object(l->w);
}

static int run_list(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	struct sandbox_filter filter = {.project_id = c->project_id, .limit = LIST_MAX};
	struct result r;
	struct listing listing = {.api = c->mcp->api, .w = &r.s};
	bool more;
	int rc = json_read(c->arguments, "", NULL, 0, err);

	(void)s;
	if (rc < 0)
		return rc;
	result_init(&r);
	r.is_plain = true;
	json_open_array(&r.s, "sandboxes");
	(void)fleet_list(c->mcp->api->fleet, &filter, put_one, &listing, &more);
	json_close_array(&r.s);
	json_put_bool(&r.s, "truncated", more);
	call_end(c, &r);
	return 0;
}

struct forking {
	struct mcp_call *call;
	char ids[FORK_MAX][ID_SIZE];
	size_t n;
	struct err err; /* of the last that failed */
	size_t n_failed;
};

static void on_fork(uint32_t i, struct sandbox *s, const struct err *err, void *arg)
{
	struct forking *f = arg;

	(void)i;
	if (s) {
		(void)snprintf(f->ids[f->n++], ID_SIZE, "%s", sandbox_id(s));
	} else {
		f->err = *err;
		f->n_failed++;
	}
}

static void drop_forks(const struct forking *f)
{
	const struct mcp_call *c = f->call;

	for (size_t i = 0; i < f->n; i++) {
		struct sandbox *s = sandbox_find(c->mcp->api->fleet, c->project_id, f->ids[i]);

		if (s)
			sandbox_delete(s, END_DELETED, NULL, NULL);
	}
}

static void tell_forks(const struct forking *f)
{
	struct mcp_call *c = f->call;
	struct result r;

	result_init(&r);
	r.is_plain = true;
	json_put_str(&r.s, "sandbox_id", c->sandbox_id);
	json_open_array(&r.s, "sandbox_ids");
	for (size_t i = 0; i < f->n; i++)
		json_put_str(&r.s, NULL, f->ids[i]);
	json_close_array(&r.s);
	json_put_u64(&r.s, "failed", f->n_failed);
	if (f->n_failed > 0)
		json_put_str(&r.s, "why", f->err.message);
	call_end(c, &r);
}

static void on_forked(struct snapshot *sn, const struct fork_memory *memory, const struct err *err,
                      void *arg)
{
	auto_free struct forking *f = arg;

	(void)sn;
	(void)memory;
	if (f->call->is_over)
		drop_forks(f);
	else if (err || f->n == 0)
		call_fail(f->call, err ? err : &f->err);
	else
		tell_forks(f);
	call_unref(f->call);
}

static int run_fork(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	static const struct fork_ops ops = {on_fork, on_forked};
	struct fork_spec spec = {.has_memory = true,
	                         .closes_connections = true,
	                         .sandbox = {.engine = "auto", .key_id = c->key_id}};
	auto_json json_t *tags = json_object();
	uint64_t count = 1;
	struct forking *f;
	const struct json_field fields[] = {
		{"count", JSON_FIELD_U64, &count, .min = 1, .max = FORK_MAX},
		{"memory", JSON_FIELD_BOOL, &spec.has_memory},
		{"name", JSON_FIELD_STRING, &spec.sandbox.name, .min = 1, .max = SANDBOX_NAME_MAX},
	};
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	spec.count = (uint32_t)count;
	spec.sandbox.idle_timeout_ms = MCP_IDLE_MS;
	if (c->session)
		(void)json_object_set_new(tags, SESSION_TAG, json_string(c->session->tag));
	spec.sandbox.tags = tags;
	f = xnew0(struct forking);
	f->call = call_ref(c);
	r = sandbox_fork(s, &spec, &ops, f, err);
	if (r < 0) {
		call_unref(c);
		free(f);
	}
	return r;
}

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct result r;

	if (!c->is_over && err) {
		call_fail(c, err);
	} else if (!c->is_over) {
		result_init(&r);
		r.is_plain = true;
		json_put_str(&r.s, "snapshot_id", snapshot_id(sn));
		snapshot_to_json(sn, &r.s, "snapshot");
		call_end(c, &r);
	}
	call_unref(c);
}

static int run_snapshot(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	struct snapshot_wish wish = {.closes_connections = true};
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, &wish.name, .min = 1, .max = SNAPSHOT_NAME_MAX},
		{"memory", JSON_FIELD_BOOL, &wish.has_memory},
	};
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	r = snapshot_take(s, &wish, on_taken, call_ref(c), err);
	if (r < 0)
		call_unref(c);
	return r;
}

static int run_port(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	struct port_spec spec = {0};
	char token[ID_SIZE];
	struct port port;
	struct result result;
	const struct json_field fields[] = {
		{"port", JSON_FIELD_U64, &spec.number, .required = true, .min = 1,
	         .max = UINT16_MAX},
		{"public", JSON_FIELD_BOOL, &spec.is_public},
	};
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r == 0)
		r = port_open(s, &spec, token, &port, err);
	if (r < 0)
		return r;
	result_init(&result);
	result.is_plain = true;
	json_put_str(&result.s, "sandbox_id", c->sandbox_id);
	port_to_json(&result.s, "port", c->mcp->api, s, &port, token);
	call_end(c, &result);
	return 0;
}

static void on_closed(struct sandbox *s, const struct err *err, void *arg)
{
	struct mcp_call *c = arg;
	struct result r;

	(void)s;
	if (!c->is_over && err) {
		call_fail(c, err);
	} else if (!c->is_over) {
		result_init(&r);
		r.is_plain = true;
		json_put_str(&r.s, "closed", c->sandbox_id);
		call_end(c, &r);
	}
	call_unref(c);
}

/* Not TOOL_IN_SANDBOX: a sandbox must not be made or resumed only to be closed. */
static int run_close(struct mcp_call *c, struct sandbox *s, struct err *err)
{
	const char *id = NULL;
	const struct json_field fields[] = {
		{"sandbox_id", JSON_FIELD_STRING, &id, .required = true, .min = 1,
	         .max = RPC_TEXT_MAX},
	};
	int r = json_read(c->arguments, "", fields, ARRAY_SIZE(fields), err);

	if (r == 0)
		r = place_find(c, id, &s, err);
	if (r < 0)
		return r;
	(void)snprintf(c->sandbox_id, sizeof(c->sandbox_id), "%s", sandbox_id(s));
	if (c->session && strcmp(c->session->sandbox_id, c->sandbox_id) == 0)
		c->session->sandbox_id[0] = '\0'; /* the next call may have a fresh one */
	sandbox_delete(s, END_DELETED, on_closed, call_ref(c));
	return 0;
}

const struct mcp_tool tool_create = {
	.name = "create_sandbox",
	.title = "Make a sandbox",
	.description = "Makes a sandbox and returns its id, to be given to other tools as "
		       "sandbox_id. It ends when it is idle for half an hour, with its session, "
		       "or by close_sandbox.",
	.properties =
		"\"name\":{\"type\":\"string\"},"
		"\"template\":{\"type\":\"string\",\"description\":\"What it starts from.\"},"
		"\"snapshot\":{\"type\":\"string\",\"description\":\"Or the id or name of a "
		"snapshot to start from.\"},"
		"\"network\":{\"description\":\"deny-all (without it), allow-all, or a policy.\"},"
		"\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
		"\"limits\":{\"type\":\"object\",\"description\":\"vcpus, memory_mib, disk_mib, "
		"pids.\"},"
		"\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1},"
		"\"idle_timeout_ms\":{\"type\":\"integer\",\"minimum\":1}",
	.required = "",
	.run = run_create,
};

const struct mcp_tool tool_list = {
	.name = "list_sandboxes",
	.title = "List sandboxes",
	.description =
		"Lists the sandboxes of this key's project with their open ports, newest first.",
	.properties = "",
	.required = "",
	.flags = TOOL_READS,
	.run = run_list,
};

const struct mcp_tool tool_fork = {
	.name = "fork_sandbox",
	.title = "Fork a sandbox",
	.description = "Makes copies of a sandbox as it is now, with running processes and "
		       "variables, to try several ways from the same state. Returns their ids.",
	.properties = "\"count\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100},"
		      "\"memory\":{\"type\":\"boolean\",\"description\":\"false: files only.\"},"
		      "\"name\":{\"type\":\"string\"}",
	.required = "",
	.flags = TOOL_IN_SANDBOX,
	.run = run_fork,
};

const struct mcp_tool tool_snapshot = {
	.name = "snapshot_sandbox",
	.title = "Take a snapshot",
	.description = "Keeps what a sandbox is now. create_sandbox with `snapshot` starts others "
		       "from it.",
	.properties = "\"name\":{\"type\":\"string\"},\"memory\":{\"type\":\"boolean\","
		      "\"description\":\"true: with its running processes.\"}",
	.required = "",
	.flags = TOOL_IN_SANDBOX,
	.run = run_snapshot,
};

const struct mcp_tool tool_port = {
	.name = "open_port",
	.title = "Open a port",
	.description = "Makes a port that something in a sandbox listens on reachable, and returns "
		       "its URL. Who has the URL can reach it.",
	.properties = "\"port\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535},"
		      "\"public\":{\"type\":\"boolean\",\"description\":\"true: without a token in "
		      "the URL.\"}",
	.required = "[\"port\"]",
	.flags = TOOL_IN_SANDBOX,
	.run = run_port,
};

const struct mcp_tool tool_close = {
	.name = "close_sandbox",
	.title = "Close a sandbox",
	.description = "Ends a sandbox and deletes its files.",
	.properties = "\"sandbox_id\":{\"type\":\"string\"}",
	.required = "[\"sandbox_id\"]",
	.flags = TOOL_DESTROYS,
	.run = run_close,
};
