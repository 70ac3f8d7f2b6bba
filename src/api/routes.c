// SPDX-License-Identifier: Apache-2.0
/*
 * The native API as a table: method, path, handler, body, the scope that a key must have (0 =
 * none), the most that a body may have (0 = the server's), and what the query may have.
 * tests/contract holds it against api/openapi.yaml.
 */
#include "api/account/login.h"
#include "api/api.h"
#include "api/frame/audit.h"
#include "api/frame/body.h"
#include "api/handlers.h"

#include <assert.h>

#define SANDBOX  "/v1/sandboxes/{id}"
#define EXEC     SANDBOX "/execs/{exec_id}"
#define CONTEXT  SANDBOX "/contexts/{context_id}"
#define SNAPSHOT "/v1/snapshots/{snapshot}"
#define FILES    SANDBOX "/files"

/* clang-format off */
#define QUERY(...) .query = (const char *const[]){__VA_ARGS__, NULL}
#define NO_QUERY   .query = (const char *const[]){NULL}

static const struct http_route routes[] = {
	{HTTP_GET,    "/v1/health",       get_health,       HTTP_BODY_NONE,   0, NO_QUERY},
	{HTTP_GET,    "/v1/ready",        get_ready,        HTTP_BODY_NONE,   0, NO_QUERY},

	{HTTP_GET,    "/v1/figures",      get_figures,      HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_GET,    "/v1/doctor",       get_doctor,       HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_GET,    "/v1/settings",     get_settings,     HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_GET,    "/v1/nodes",        list_nodes,       HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},

	{HTTP_GET,    "/v1/login",        get_login,        HTTP_BODY_NONE,   0, QUERY("problem")},
	{HTTP_POST,   "/v1/login",        create_login,     HTTP_BODY_JSON,   0, NO_QUERY},
	{HTTP_DELETE, "/v1/login",        delete_login,     HTTP_BODY_NONE,   0, NO_QUERY},
	{HTTP_PATCH,  "/v1/login",        update_login,     HTTP_BODY_JSON,   SCOPE_READ, NO_QUERY},
	{HTTP_POST,   "/v1/login/links",  create_login_link, HTTP_BODY_NONE,  SCOPE_READ, NO_QUERY},
	{HTTP_GET,    "/v1/login/oidc/start", start_provider_login, HTTP_BODY_NONE, 0, NO_QUERY},
	{HTTP_GET,    "/v1/login/oidc/callback", finish_provider_login, HTTP_BODY_NONE, 0}, /* providers add what they like */
	{HTTP_POST,   "/v1/login/oidc/logout", end_provider_login, HTTP_BODY_STREAM, 0, .body_max = LOGOUT_BODY_MAX, NO_QUERY},
	{HTTP_POST,   "/v1/login/device", create_device_login, HTTP_BODY_NONE, 0, NO_QUERY},
	{HTTP_POST,   "/v1/login/device/poll", poll_device_login, HTTP_BODY_JSON, 0, NO_QUERY},

	{HTTP_POST,   "/v1/sandboxes",    create_sandbox,   HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   "/v1/sandboxes:batch", create_batch,  HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_DELETE, "/v1/batches/{batch}", delete_batch,  HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/creates",      list_creates,     HTTP_BODY_NONE,   SCOPE_READ, QUERY("request", "limit")},
	{HTTP_POST,   "/v1/pool",         create_reservation, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/pool",         list_reservations, HTTP_BODY_NONE,  SCOPE_READ, NO_QUERY},
	{HTTP_GET,    "/v1/pool/{reservation}", get_reservation, HTTP_BODY_NONE, SCOPE_READ, NO_QUERY},
	{HTTP_DELETE, "/v1/pool/{reservation}", delete_reservation, HTTP_BODY_NONE, SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/sandboxes",    list_sandboxes,   HTTP_BODY_NONE,   SCOPE_READ, QUERY("limit", "cursor", "tag", "state", "group")},
	{HTTP_GET,    SANDBOX,            get_sandbox,      HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_PATCH,  SANDBOX,            update_sandbox,   HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_DELETE, SANDBOX,            delete_sandbox,   HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/pause",   pause_sandbox,    HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/resume",  resume_sandbox,   HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/stop",    stop_sandbox,     HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/extend",  extend_sandbox,   HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    SANDBOX "/results", get_result,       HTTP_BODY_NONE,   SCOPE_READ, QUERY("path"), .audit = AUDIT_READ},

	{HTTP_POST,   SANDBOX "/snapshots", create_snapshot, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/fork",    fork_sandbox,     HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/rollback", roll_back_sandbox, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    SANDBOX "/tree",    get_sandbox_tree, HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_GET,    "/v1/snapshots",    list_snapshots,   HTTP_BODY_NONE,   SCOPE_READ, QUERY("limit", "cursor", "sandbox")},
	{HTTP_GET,    SNAPSHOT,           get_snapshot,     HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_PATCH,  SNAPSHOT,           update_snapshot,  HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_DELETE, SNAPSHOT,           delete_snapshot,  HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    SNAPSHOT "/archive", export_snapshot, HTTP_BODY_NONE,   SCOPE_READ, QUERY("memory"), .audit = AUDIT_READ},
	{HTTP_PUT,    SNAPSHOT "/archive", import_snapshot, HTTP_BODY_STREAM, SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    SNAPSHOT "/tree",   get_snapshot_tree, HTTP_BODY_NONE,  SCOPE_READ, NO_QUERY},

	{HTTP_GET,    "/v1/volumes",      list_volumes,     HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_POST,   "/v1/volumes",      create_volume,    HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/volumes/{volume}", get_volume,   HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_DELETE, "/v1/volumes/{volume}", delete_volume, HTTP_BODY_NONE,  SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    "/v1/diff",         get_diff,         HTTP_BODY_NONE,   SCOPE_READ, QUERY("from", "to", "patch", "limit"), .audit = AUDIT_READ},
	{HTTP_POST,   SANDBOX "/apply",   apply_changes,    HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    SANDBOX "/usage",   get_sandbox_usage, HTTP_BODY_NONE,  SCOPE_READ, NO_QUERY},
	{HTTP_GET,    SANDBOX "/usage/samples", list_usage_samples, HTTP_BODY_NONE, SCOPE_READ, NO_QUERY},

	{HTTP_GET,    SANDBOX "/network", get_network,      HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_PUT,    SANDBOX "/network", set_network,      HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/network/allow", allow_network, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   SANDBOX "/network/explain", explain_network, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY, .audit = AUDIT_NONE},
	{HTTP_GET,    SANDBOX "/network/decisions", list_network_decisions, HTTP_BODY_NONE, SCOPE_READ, QUERY("limit", "cursor")},
	{HTTP_GET,    SANDBOX "/network/suggestion", suggest_network, HTTP_BODY_NONE, SCOPE_READ, QUERY("after")},

	{HTTP_POST,   SANDBOX "/execs",   create_exec,      HTTP_BODY_JSON,   SCOPE_WRITE, EXEC_BODY_MAX, NO_QUERY},
	{HTTP_GET,    SANDBOX "/execs",   list_execs,       HTTP_BODY_NONE,   SCOPE_READ, QUERY("limit")},
	{HTTP_GET,    EXEC,               get_exec,         HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_DELETE, EXEC,               delete_exec,      HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    EXEC "/output",     get_exec_output,  HTTP_BODY_NONE,   SCOPE_READ, QUERY("after", "follow"), .audit = AUDIT_READ},
	{HTTP_GET,    EXEC "/wait",       wait_exec,        HTTP_BODY_NONE,   SCOPE_READ, QUERY("timeout_ms")},
	{HTTP_POST,   EXEC "/stdin",      write_exec_stdin, HTTP_BODY_STREAM, SCOPE_WRITE, QUERY("eof")},
	{HTTP_POST,   EXEC "/signal",     signal_exec,      HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   EXEC "/resize",     resize_exec,      HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    EXEC "/attach",     attach_exec,      HTTP_BODY_NONE,   SCOPE_WRITE, QUERY("after")}, /* it writes stdin */

	{HTTP_POST,   SANDBOX "/code",    run_code,         HTTP_BODY_JSON,   SCOPE_WRITE, EXEC_BODY_MAX, NO_QUERY},
	{HTTP_POST,   SANDBOX "/contexts", create_context,  HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    SANDBOX "/contexts", list_contexts,   HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_GET,    CONTEXT,            get_context,      HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_DELETE, CONTEXT,            delete_context,   HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   CONTEXT "/restart", restart_context,  HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   CONTEXT "/interrupt", interrupt_context, HTTP_BODY_NONE, SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    SANDBOX "/ports",   list_ports,       HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_POST,   SANDBOX "/ports",   create_port,      HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    SANDBOX "/ports/{port}/tcp", connect_port, HTTP_BODY_NONE, SCOPE_WRITE, NO_QUERY}, /* it can do anything there */
	{HTTP_DELETE, SANDBOX "/ports/{port}", delete_port, HTTP_BODY_NONE,   SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    FILES,              read_file,        HTTP_BODY_NONE,   SCOPE_READ, QUERY("path", "user", "offset", "length"), .audit = AUDIT_READ},
	{HTTP_PUT,    FILES,              write_file,       HTTP_BODY_STREAM, SCOPE_WRITE,
	 QUERY("path", "user", "mode", "append", "parents", "exclusive", "if_mtime_us")},
	{HTTP_DELETE, FILES,              remove_file,      HTTP_BODY_NONE,   SCOPE_WRITE, QUERY("path", "user", "recursive", "missing_ok")},
	{HTTP_GET,    FILES "/stat",      stat_file,        HTTP_BODY_NONE,   SCOPE_READ, QUERY("path", "user", "follow")},
	{HTTP_GET,    FILES "/exists",    file_exists,      HTTP_BODY_NONE,   SCOPE_READ, QUERY("path", "user", "follow")},
	{HTTP_GET,    FILES "/list",      list_files,       HTTP_BODY_NONE,   SCOPE_READ, QUERY("path", "user", "recursive", "depth", "limit")},
	{HTTP_POST,   FILES "/mkdir",     make_directory,   HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   FILES "/move",      move_file,        HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   FILES "/copy",      copy_file,        HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   FILES "/chmod",     chmod_file,       HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   FILES "/chown",     chown_file,       HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_POST,   FILES "/symlink",   make_symlink,     HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    FILES "/tar",       read_tar,         HTTP_BODY_NONE,   SCOPE_READ, QUERY("path", "user", "compress"), .audit = AUDIT_READ},
	{HTTP_PUT,    FILES "/tar",       write_tar,        HTTP_BODY_STREAM, SCOPE_WRITE, QUERY("path", "user", "compress", "parents")},
	{HTTP_GET,    FILES "/watch",     watch_files,      HTTP_BODY_NONE,   SCOPE_READ, QUERY("path", "user", "recursive")},

	{HTTP_POST,   "/v1/run",          run_once,         HTTP_BODY_JSON,   SCOPE_WRITE, EXEC_BODY_MAX, NO_QUERY},

	{HTTP_GET,    "/v1/templates",    list_templates,   HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_POST,   "/v1/templates",    create_template,  HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/templates/{template}", get_template, HTTP_BODY_NONE, SCOPE_READ, NO_QUERY},
	{HTTP_DELETE, "/v1/templates/{template}", delete_template, HTTP_BODY_NONE, SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/templates/{template}/archive", export_template, HTTP_BODY_NONE, SCOPE_READ, NO_QUERY, .audit = AUDIT_READ},
	{HTTP_PUT,    "/v1/templates/{template}/archive", import_template, HTTP_BODY_STREAM, SCOPE_WRITE, QUERY("shared", "replace", "small", "ref")},
	{HTTP_POST,   "/v1/templates/{template}/pull", pull_template, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    "/v1/builds",       list_builds,      HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_POST,   "/v1/builds",       create_build,     HTTP_BODY_JSON,   SCOPE_WRITE, NO_QUERY},
	{HTTP_PUT,    "/v1/builds/files", upload_build_files, HTTP_BODY_STREAM, SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/builds/{build_id}", get_build,   HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_DELETE, "/v1/builds/{build_id}", cancel_build, HTTP_BODY_NONE,  SCOPE_WRITE, NO_QUERY},
	{HTTP_GET,    "/v1/builds/{build_id}/events", get_build_events, HTTP_BODY_NONE, SCOPE_READ, QUERY("after", "follow"), .audit = AUDIT_READ},

	{HTTP_POST,   "/v1/backups",      create_backup,    HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},

	{HTTP_GET,    "/v1/usage",        get_usage,        HTTP_BODY_NONE,   SCOPE_READ, QUERY("from", "to", "group_by", "project", "limit", "cursor")},
	{HTTP_GET,    "/v1/history",      get_history,      HTTP_BODY_NONE,   SCOPE_READ, QUERY("scope", "id", "range", "node")},
	{HTTP_GET,    "/v1/history/running", list_history_running, HTTP_BODY_NONE, SCOPE_READ, QUERY("at_us", "project", "limit", "cursor", "node")},
	{HTTP_GET,    "/metrics",         get_metrics,      HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_GET,    "/v1/events",       list_events,      HTTP_BODY_NONE,   SCOPE_READ, QUERY("after", "limit", "type", "sandbox_id", "follow", "all", "audit", "figures", "who", "address", "text", "since", "until", "newest", "before", "node")},
	{HTTP_GET,    "/v1/events/head",  get_events_head,  HTTP_BODY_NONE,   SCOPE_READ, QUERY("all", "audit", "node")},
	{HTTP_GET,    "/v1/events/seals", get_event_seals,  HTTP_BODY_NONE,   SCOPE_READ, QUERY("all", "node")},

	{HTTP_GET,    "/v1/quota",        get_quota,        HTTP_BODY_NONE,   SCOPE_READ, NO_QUERY},
	{HTTP_GET,    "/v1/projects/{project_id}/quota", get_project_quota, HTTP_BODY_NONE, SCOPE_ADMIN, NO_QUERY},
	{HTTP_PUT,    "/v1/projects/{project_id}/quota", set_project_quota, HTTP_BODY_JSON, SCOPE_ADMIN, NO_QUERY},
	{HTTP_GET,    "/v1/keys/{key_id}/quota", get_key_quota, HTTP_BODY_NONE, SCOPE_ADMIN, QUERY("project")},
	{HTTP_PUT,    "/v1/keys/{key_id}/quota", set_key_quota, HTTP_BODY_JSON, SCOPE_ADMIN, QUERY("project")},

	{HTTP_GET,    "/v1/secrets",      list_secrets,     HTTP_BODY_NONE,   SCOPE_READ,  NO_QUERY},
	{HTTP_GET,    "/v1/secrets/{secret}", get_secret,     HTTP_BODY_NONE,   SCOPE_READ,  NO_QUERY},
	{HTTP_PUT,    "/v1/secrets/{secret}", put_secret,     HTTP_BODY_JSON,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_DELETE, "/v1/secrets/{secret}", delete_secret,  HTTP_BODY_NONE,   SCOPE_ADMIN, QUERY("force")},

	{HTTP_GET,    "/.well-known/openid-configuration", get_discovery, HTTP_BODY_NONE, 0, NO_QUERY},
	{HTTP_GET,    "/.well-known/jwks.json", get_identity_keys, HTTP_BODY_NONE, 0, NO_QUERY},
	{HTTP_GET,    "/v1/authority",    get_authority,    HTTP_BODY_NONE,   0, NO_QUERY},
	{HTTP_GET,    "/v1/identity",     get_identity,     HTTP_BODY_NONE,   SCOPE_READ,  NO_QUERY},
	{HTTP_POST,   "/v1/identity/rotate", rotate_identity, HTTP_BODY_JSON, SCOPE_ADMIN, NO_QUERY},
	{HTTP_POST,   SANDBOX "/identity-token", create_identity_token, HTTP_BODY_JSON, SCOPE_WRITE, NO_QUERY},

	{HTTP_GET,    "/v1/webhooks",     list_webhooks,    HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_POST,   "/v1/webhooks",     create_webhook,   HTTP_BODY_JSON,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_GET,    "/v1/webhooks/{webhook_id}", get_webhook, HTTP_BODY_NONE, SCOPE_ADMIN, NO_QUERY},
	{HTTP_PATCH,  "/v1/webhooks/{webhook_id}", update_webhook, HTTP_BODY_JSON, SCOPE_ADMIN, NO_QUERY},
	{HTTP_DELETE, "/v1/webhooks/{webhook_id}", delete_webhook, HTTP_BODY_NONE, SCOPE_ADMIN, NO_QUERY},

	{HTTP_GET,    "/v1/keys",         list_keys,        HTTP_BODY_NONE,   SCOPE_ADMIN, QUERY("project")},
	{HTTP_POST,   "/v1/keys",         create_key,       HTTP_BODY_JSON,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_DELETE, "/v1/keys/{key_id}", revoke_key,      HTTP_BODY_NONE,   SCOPE_ADMIN, QUERY("project")},
	{HTTP_GET,    "/v1/projects",     list_projects,    HTTP_BODY_NONE,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_POST,   "/v1/projects",     create_project,   HTTP_BODY_JSON,   SCOPE_ADMIN, NO_QUERY},
	{HTTP_DELETE, "/v1/projects/{project_id}", delete_project, HTTP_BODY_NONE, SCOPE_ADMIN, NO_QUERY},
};
/* clang-format on */
static_assert(ARRAY_SIZE(routes) <= API_ROUTES_MAX, "a route has no row of counts");

int api_divert(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);

	return preview_divert(&api->preview, req, err);
}

const struct http_route *api_routes(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(routes);
	return routes;
}
