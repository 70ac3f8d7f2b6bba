// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the MCP server: sessions, running calls, and the description of a tool. */
#include "base/id.h"
#include "base/list.h"
#include "mcp/excerpt.h"
#include "mcp/mcp.h"
#include "mcp/rpc.h"

#define MCP_BODY_MAX        (4 * 1024 * 1024) /* of a message */
#define MCP_SESSIONS_MAX    1024              /* of all projects, beside their shares */
#define MCP_SESSIONS_SHARE  16                /* that a project may always have */
#define MCP_KEY_SESSIONS    64                /* of one key */
#define MCP_KEY_CALLS       64                /* of one key, at once */
#define MCP_IDLE_MS         (UINT64_C(30) * 60 * 1000)
#define MCP_LIFE_MS         (UINT64_C(24) * 3600 * 1000) /* of a sandbox, by default */
#define MCP_CALL_TIMEOUT_MS 120000                       /* of code and commands, by default */

struct mcp {
	struct api *api;
	struct list sessions; /* the least recently used first */
	size_t n_sessions;
	struct list calls; /* of all sessions and of none */
	struct loop_timer *idle;
	bool is_closing;
};

/* A session has at most one main sandbox. Other sandboxes that its tools made end with the
 * session. */
struct session {
	struct list link;
	struct mcp *mcp;
	char id[ID_SIZE];
	char tag[65]; /* of its sandboxes: a hash of id and key */
	char key_id[ID_SIZE], project_id[ID_SIZE];
	char sandbox_id[ID_SIZE]; /* the main one; "" = none */
	bool is_making;           /* it is being made; calls wait for it */
	uint64_t used_us;         /* steady clock */
	struct http_req *hold;    /* a stream whose end is the session's; or NULL */
};

#define SESSION_TAG "mcp.session" /* of all its sandboxes */
#define MAIN_TAG    "mcp.main"    /* of the main one */

/* NULL with err: too many. */
struct session *session_new(struct mcp *m, const struct key *key, struct err *err);
/* The key's session, also one of an earlier daemon if it still has a sandbox; or NULL. */
struct session *session_find(struct mcp *m, const struct key *key, const char *id);
void session_touch(struct session *s); /* it is used: it is not idle */
void session_hold(struct session *s, struct http_req *req);
void session_end(struct session *s); /* with its calls and sandboxes */
void sessions_init(struct mcp *m);
void sessions_done(struct mcp *m); /* forgets them; their sandboxes stay */

struct mcp_call;

enum {                 /* of a tool */
       TOOL_READS = 1, /* it changes nothing */
       TOOL_DESTROYS = 2,
       TOOL_IN_SANDBOX = 4, /* it works in one, which must be running */
};

struct mcp_tool {
	const char *name, *title, *description;
	const char *properties; /* of its arguments, JSON text without the outer braces */
	const char *required;   /* a JSON array, or "" */
	unsigned flags;
	/* The arguments come without sandbox_id; s is NULL unless TOOL_IN_SANDBOX. Returns 0 if it
	 * has ended the call or will. */
	int (*run)(struct mcp_call *c, struct sandbox *s, struct err *err);
	/* The caller is gone: stops what run() began, and frees the state. May be NULL. */
	void (*cancel)(struct mcp_call *c);
};

const struct mcp_tool *tool_find(const char *name);
void tools_to_json(struct json_writer *w, const char *name);

/*
 * A call of a tool. It lives until it is answered or its client is gone. Code that waits for
 * something that cannot be cancelled holds a reference, and checks is_over afterwards.
 */
struct mcp_call {
	struct list link;
	unsigned refs;
	bool is_over;
	bool waits; /* for its session's sandbox */
	struct mcp *mcp;
	struct session *session; /* or NULL; it outlives its calls */
	struct http_req *req;    /* valid until is_over */
	char key_id[ID_SIZE], project_id[ID_SIZE];
	char sandbox_id[ID_SIZE]; /* that it works in, once known */
	json_t *id, *progress_token;
	bool is_modern, streams; /* the reply has begun as an event stream */
	uint64_t n_progress;
	const struct mcp_tool *tool;
	json_t *arguments; /* an object */
	json_t *wish;      /* what the client's URL asks of new sandboxes; an object */
	void *state;       /* the tool's own */
};

must_check int call_start(struct mcp *m, struct http_req *req, struct session *s,
                          const struct rpc_message *msg, struct err *err);
struct mcp_call *call_ref(struct mcp_call *c);
void call_unref(struct mcp_call *c);
void call_cancel(struct mcp_call *c);
/* Reports progress to the client, if it asked for that. */
void call_progress(struct mcp_call *c, const char *text, size_t len);

/* An answer: content blocks for the model, and the same as structured data. Errors stick and are
 * reported once. */
#define RESULT_BYTES_MAX (8 * 1024 * 1024)
struct result {
	struct buf blocks, structured;
	struct json_writer block, s; /* s has the object open */
	bool is_error;
	bool is_plain; /* the model gets the structured part, written out */
};
void result_init(struct result *r);
void result_text(struct result *r, const char *text, size_t len);
/* Adds a stream as a field, and appends its lines to all, which has room for EXCERPT_MAX + 1. */
void result_stream(struct result *r, const char *name, const struct excerpt *e, struct buf *all);
void result_image(struct result *r, const char *type, const char *base64);
/* Answers with it and frees it. */
void call_end(struct mcp_call *c, struct result *r);
void call_fail(struct mcp_call *c, const struct err *err);

/* place.c: finds the sandbox that a call works in, and runs the tool when that runs. */
must_check int place_call(struct mcp_call *c, struct err *err);
/* Makes a sandbox for the caller from a body of POST /v1/sandboxes; is_main: it is the session's
 * main one. */
must_check int place_create(struct mcp_call *c, json_t *body, bool is_main, sandbox_done_fn done,
                            void *arg, struct err *err);
/* What the URL of a request asks of new sandboxes. The caller owns *ret. */
must_check int place_wish(const struct http_req *req, json_t **ret, struct err *err);
must_check int place_find(const struct mcp_call *c, const char *id, struct sandbox **ret,
                          struct err *err);

extern const struct mcp_tool tool_run_code, tool_exec, tool_read_file, tool_write_file,
	tool_list_files, tool_create, tool_list, tool_fork, tool_snapshot, tool_port, tool_close;
