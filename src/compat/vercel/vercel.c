// SPDX-License-Identifier: Apache-2.0
/*
 * Vercel's API as a table of routes. Paths are those of https://vercel.com below /vercel, so a
 * client needs only another address (sdk/typescript has a shim for that).
 */
#include "compat/compat.h"

#include "api/frame/audit.h"

#include "compat/vercel/handlers.h"
#include "compat/vercel/terminal.h"
#include "compat/vercel/wire.h"

#include <string.h>

#define COMMAND_BODY_MAX (4 * 1024 * 1024)
#define BASE             "/vercel/api/v2/sandboxes"
#define LODGE            BASE "/{name}"
#define SESSION          BASE "/sessions/{session_id}"
#define COMMAND          SESSION "/cmd/{command_id}"
#define STILL            BASE "/snapshots/{snapshot_id}"

/* clang-format off */
static const struct http_route routes[] = {
	{HTTP_POST,   "/vercel/api/v3/sandboxes", vercel_create_sandbox, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   BASE,                       vercel_create_sandbox, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    BASE,                       vercel_list_sandboxes, HTTP_BODY_NONE, SCOPE_READ},

	/* Fixed words of a path come before names. */
	{HTTP_GET,    BASE "/sessions",           vercel_list_sessions, HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    SESSION,                    vercel_get_session,   HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_POST,   SESSION "/cmd",             vercel_run_command,   HTTP_BODY_JSON, SCOPE_WRITE, COMMAND_BODY_MAX},
	{HTTP_GET,    SESSION "/cmd",             vercel_list_commands, HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    COMMAND,                    vercel_get_command,   HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    COMMAND "/logs",            vercel_get_logs,      HTTP_BODY_NONE, SCOPE_READ, .audit = AUDIT_READ},
	{HTTP_POST,   COMMAND "/kill",            vercel_kill_command,  HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   COMMAND "/stdin",           vercel_write_input,   HTTP_BODY_JSON, SCOPE_WRITE, COMMAND_BODY_MAX},
	{HTTP_POST,   SESSION "/fs/write",        vercel_write_files,   HTTP_BODY_STREAM, SCOPE_WRITE},
	{HTTP_POST,   SESSION "/fs/read",         vercel_read_file,     HTTP_BODY_JSON, SCOPE_READ, .audit = AUDIT_READ},
	{HTTP_POST,   SESSION "/fs/mkdir",        vercel_make_directory, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SESSION "/stop",            vercel_stop_session,  HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SESSION "/extend-timeout",  vercel_extend_session, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SESSION "/network-policy",  vercel_set_policy,    HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SESSION "/snapshot",        vercel_snapshot_session, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SESSION "/interactive",     vercel_open_terminal, HTTP_BODY_JSON, SCOPE_WRITE},

	{HTTP_GET,    BASE "/snapshots",          vercel_list_snapshots,    HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    BASE "/snapshots/tree",     vercel_get_tree,      HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    STILL,                       vercel_get_snapshot,      HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_DELETE, STILL,                       vercel_delete_snapshot,   HTTP_BODY_NONE, SCOPE_WRITE},

	{HTTP_GET,    BASE "/drives",             vercel_list_drives,   HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    BASE "/drives/{drive}",     vercel_get_drive,     HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_POST,   BASE "/drives/{drive}",     vercel_get_or_create_drive, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   BASE "/drives/{drive}/fork", vercel_fork_drive,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_DELETE, BASE "/drives/{drive}",     vercel_delete_drive,  HTTP_BODY_NONE, SCOPE_WRITE},

	{HTTP_GET,    LODGE,                        vercel_get_sandbox,       HTTP_BODY_NONE, SCOPE_WRITE, .audit = AUDIT_NONE}, /* it may resume it */
	{HTTP_PATCH,  LODGE,                        vercel_update_sandbox,    HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_DELETE, LODGE,                        vercel_delete_sandbox,    HTTP_BODY_NONE, SCOPE_WRITE},
	{HTTP_POST,   LODGE "/fork",                vercel_fork_sandbox,      HTTP_BODY_JSON, SCOPE_WRITE},
};
/* clang-format on */

static bool owns(const struct http_req *req)
{
	return strncmp(http_path(req), "/vercel/", strlen("/vercel/")) == 0;
}

static int open_face(struct api *api, struct err *err)
{
	struct vercel *v = xnew0(struct vercel);
	int r;

	v->api = api;
	list_init(&v->sandboxes);
	list_init(&v->snapshots);
	api->vercel = v;
	r = vercel_load(v, err);
	if (r < 0)
		return r;
	vercel_sandbox_resume_watch(v);
	vercel_share_names(v);
	return 0;
}

static void close_face(struct api *api)
{
	struct vercel *v = take_ptr(api->vercel);

	if (!v)
		return;
	list_for_each (&v->sandboxes, struct vercel_sandbox, box, link)
		vercel_sandbox_free(box);
	list_for_each (&v->snapshots, struct vercel_snapshot, snapshot, link)
		vercel_snapshot_free(snapshot);
	free(v);
}

const struct face vercel_face = {.routes = routes,
                                 .n_routes = ARRAY_SIZE(routes),
                                 .owns = owns,
                                 .open = open_face,
                                 .close = close_face,
                                 .divert = terminal_divert,
                                 .fail = vercel_fail};
