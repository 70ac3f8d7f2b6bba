// SPDX-License-Identifier: Apache-2.0
/*
 * E2B's routes as a table, like src/api/routes.c. Rows without a scope are envd's and the
 * interpreter's: those need a sandbox's own token, which is checked when the sandbox is looked up
 * (envd.h).
 */
#include "compat/e2b/envd/envd.h"

#include "api/frame/audit.h"

#define SANDBOX    "/sandboxes/{id}"
#define CONTENT    "/volumecontent/{id}"
#define PROCESS    "/process.Process"
#define FILESYSTEM "/filesystem.Filesystem"
#define RPC_MAX    (4 * 1024 * 1024)

/* clang-format off */
static const struct http_route routes[] = {
	{HTTP_POST,   "/sandboxes",              e2b_create_sandbox_v1, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   "/v2/sandboxes",           e2b_create_sandbox,    HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    "/sandboxes",              e2b_list_sandboxes_v1, HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/v2/sandboxes",           e2b_list_sandboxes,    HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/sandboxes/metrics",      e2b_get_batch_metrics, HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    SANDBOX,                   e2b_get_sandbox,       HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_DELETE, SANDBOX,                   e2b_kill_sandbox,      HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SANDBOX "/connect",        e2b_connect_sandbox,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   "/v2" SANDBOX "/connect",  e2b_connect_sandbox,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SANDBOX "/resume",         e2b_resume_sandbox,    HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SANDBOX "/pause",          e2b_pause_sandbox,     HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SANDBOX "/timeout",        e2b_set_timeout,       HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SANDBOX "/refreshes",      e2b_refresh_sandbox,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_PUT,    SANDBOX "/network",        e2b_set_network,       HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    SANDBOX "/logs",           e2b_get_logs_v1,       HTTP_BODY_NONE, SCOPE_READ, .audit = AUDIT_READ},
	{HTTP_GET,    "/v2" SANDBOX "/logs",     e2b_get_logs,          HTTP_BODY_NONE, SCOPE_READ, .audit = AUDIT_READ},
	{HTTP_GET,    SANDBOX "/metrics",        e2b_get_metrics,       HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_POST,   SANDBOX "/snapshots",      e2b_create_snapshot,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   SANDBOX "/fork",           e2b_fork_sandbox,      HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    "/snapshots",              e2b_list_snapshots,    HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/templates",              e2b_list_templates,    HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/v2/templates",           e2b_list_templates,    HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/default-templates",      e2b_list_default_templates, HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_PATCH,  "/templates/{id}",         e2b_update_template,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_PATCH,  "/v2/templates/{id}",      e2b_update_template,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    "/templates/aliases/{alias}", e2b_get_alias,      HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_DELETE, "/templates/tags",         e2b_remove_tags,       HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_DELETE, "/templates/{id}",         e2b_delete_template,   HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   "/v3/templates",           e2b_request_build,     HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_POST,   "/v2/templates",           e2b_request_build,     HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    "/templates/{id}/files/{hash}", e2b_get_upload_link, HTTP_BODY_NONE, SCOPE_WRITE}, /* it lets files in */
	{HTTP_PUT,    "/templatefiles/{token}",  e2b_upload_files,      HTTP_BODY_STREAM, 0},
	{HTTP_POST,   "/v2/templates/{id}/builds/{build_id}", e2b_start_build, HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    "/templates/{id}/builds/{build_id}/status", e2b_get_build_status, HTTP_BODY_NONE, SCOPE_READ, .audit = AUDIT_READ},
	{HTTP_GET,    "/templates/{id}/tags",    e2b_list_tags,         HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/templates/{id}/tags/count", e2b_count_tags,     HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/templates/{id}/tags/exists", e2b_has_tag,       HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/templates/{id}/tags/groups", e2b_group_tags,    HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/templates/{id}/tags/{tag}/assignments", e2b_list_assignments, HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_POST,   "/templates/tags",         e2b_assign_tags,       HTTP_BODY_JSON, SCOPE_WRITE},

	{HTTP_POST,   "/secrets",                e2b_create_secret,     HTTP_BODY_JSON, SCOPE_ADMIN},
	{HTTP_GET,    "/secrets",                e2b_list_secrets,      HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/secrets/{secret_id}",    e2b_get_secret,        HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_POST,   "/secrets/{secret_id}",    e2b_update_secret,     HTTP_BODY_JSON, SCOPE_ADMIN},
	{HTTP_DELETE, "/secrets/{secret_id}",    e2b_delete_secret,     HTTP_BODY_JSON, SCOPE_ADMIN},

	{HTTP_POST,   "/volumes",                e2b_create_volume,     HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    "/volumes",                e2b_list_volumes,      HTTP_BODY_NONE, SCOPE_READ},
	{HTTP_GET,    "/volumes/{id}",           e2b_get_volume,        HTTP_BODY_NONE, SCOPE_WRITE}, /* it tells the token */
	{HTTP_DELETE, "/volumes/{id}",           e2b_delete_volume,     HTTP_BODY_JSON, SCOPE_WRITE},
	{HTTP_GET,    CONTENT "/dir",            volume_list_dir,       HTTP_BODY_NONE, 0},
	{HTTP_POST,   CONTENT "/dir",            volume_make_dir,       HTTP_BODY_JSON, 0},
	{HTTP_GET,    CONTENT "/path",           volume_stat,           HTTP_BODY_NONE, 0},
	{HTTP_PATCH,  CONTENT "/path",           volume_change,         HTTP_BODY_JSON, 0},
	{HTTP_DELETE, CONTENT "/path",           volume_remove_path,    HTTP_BODY_JSON, 0},
	{HTTP_GET,    CONTENT "/file",           volume_read_file,      HTTP_BODY_NONE, 0, .audit = AUDIT_READ},
	{HTTP_PUT,    CONTENT "/file",           volume_write_file,     HTTP_BODY_STREAM, 0},

	{HTTP_POST,   PROCESS "/Start",          envd_start,            HTTP_BODY_STREAM, 0, RPC_MAX},
	{HTTP_POST,   PROCESS "/Connect",        envd_connect,          HTTP_BODY_STREAM, 0, RPC_MAX, .audit = AUDIT_READ},
	{HTTP_POST,   PROCESS "/List",           envd_list,             HTTP_BODY_JSON, 0, .audit = AUDIT_NONE},
	{HTTP_POST,   PROCESS "/SendInput",      envd_send_input,       HTTP_BODY_JSON, 0, RPC_MAX},
	{HTTP_POST,   PROCESS "/StreamInput",    envd_stream_input,     HTTP_BODY_STREAM, 0},
	{HTTP_POST,   PROCESS "/CloseStdin",     envd_close_stdin,      HTTP_BODY_JSON, 0},
	{HTTP_POST,   PROCESS "/SendSignal",     envd_send_signal,      HTTP_BODY_JSON, 0},
	{HTTP_POST,   PROCESS "/Update",         envd_update,           HTTP_BODY_JSON, 0},

	{HTTP_POST,   FILESYSTEM "/Stat",        envd_stat,             HTTP_BODY_JSON, 0, .audit = AUDIT_NONE},
	{HTTP_POST,   FILESYSTEM "/ListDir",     envd_list_dir,         HTTP_BODY_JSON, 0, .audit = AUDIT_NONE},
	{HTTP_POST,   FILESYSTEM "/MakeDir",     envd_make_dir,         HTTP_BODY_JSON, 0},
	{HTTP_POST,   FILESYSTEM "/Move",        envd_move,             HTTP_BODY_JSON, 0},
	{HTTP_POST,   FILESYSTEM "/Remove",      envd_remove,           HTTP_BODY_JSON, 0},
	{HTTP_POST,   FILESYSTEM "/WatchDir",    envd_watch_dir,        HTTP_BODY_STREAM, 0, RPC_MAX, .audit = AUDIT_NONE},
	{HTTP_POST,   FILESYSTEM "/CreateWatcher", envd_create_watcher, HTTP_BODY_JSON, 0, .audit = AUDIT_NONE},
	{HTTP_POST,   FILESYSTEM "/GetWatcherEvents", envd_get_watcher_events, HTTP_BODY_JSON, 0, .audit = AUDIT_NONE},
	{HTTP_POST,   FILESYSTEM "/RemoveWatcher", envd_remove_watcher, HTTP_BODY_JSON, 0, .audit = AUDIT_NONE},

	{HTTP_GET,    "/files",                  envd_read_file,        HTTP_BODY_NONE, 0, .audit = AUDIT_READ},
	{HTTP_POST,   "/files",                  envd_write_files,      HTTP_BODY_CODED, 0},
	{HTTP_GET,    "/health",                 envd_health,           HTTP_BODY_NONE, 0},

	{HTTP_POST,   "/execute",                code_execute,          HTTP_BODY_JSON, 0, RPC_MAX},
	{HTTP_POST,   "/contexts",               code_create_context,   HTTP_BODY_JSON, 0},
	{HTTP_GET,    "/contexts",               code_list_contexts,    HTTP_BODY_NONE, 0},
	{HTTP_POST,   "/contexts/{context_id}/restart", code_restart_context, HTTP_BODY_JSON, 0},
	{HTTP_DELETE, "/contexts/{context_id}",  code_remove_context,   HTTP_BODY_JSON, 0},
};
/* clang-format on */

static int authorize(struct http_req *req, struct err *err)
{
	return e2b_is_inside(req) ? 0 : api_authorize(req, err);
}

const struct face e2b_face = {
	.routes = routes,
	.n_routes = ARRAY_SIZE(routes),
	.owns = e2b_owns,
	.divert = envd_divert,
	.authorize = authorize,
	.fail = e2b_fail,
	.plan_build = e2b_plan_build,
};
