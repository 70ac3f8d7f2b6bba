// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * E2B's API: what its SDKs send to a control plane, to `envd` in a sandbox (port 49983) and to the
 * code interpreter in one (49999). Here the daemon is all three. docs/compat.md says what is
 * covered and what differs.
 *
 *	/sandboxes, /v2/…, /templates, /secrets, …   control plane: a key, JSON, {code, message}
 *	/process.Process/…, /filesystem.Filesystem/…  envd: a sandbox's token, Connect-RPC in JSON
 *	/files, /health                              envd: plain HTTP
 *	/execute, /contexts                          interpreter: JSON lines, errors as text
 *	/volumes, /volumecontent/ID/…                volumes, by a key; what is in one, by its token
 *	/templatefiles/TOKEN                         files for a build, by a token for that once
 *
 * A sandbox's id is ours without its kind, because it must be a label of a host name.
 */
#include "compat/compat.h"

#define E2B_ENVD_PORT 49983
#define E2B_CODE_PORT 49999

/* error.c: the three forms of errors, chosen by the path. */
bool e2b_has_path(const char *path); /* it is one of the above; a query may follow */
/* Whether its Host is api.DOMAIN: there a client looks for the control plane that is given nothing
 * but the domain. No sandbox can have that name: theirs begin with a port. */
bool e2b_is_api_host(const struct http_req *req);
bool e2b_owns(const struct http_req *req);
void e2b_fail(struct http_req *req, const struct err *err);
bool e2b_is_unknown_user(const struct err *err);
/* A Connect code for ours: "not_found". */
const char *e2b_rpc_code(enum err_code code);

/* Whether the path is envd's or the interpreter's: those need a sandbox's token, not a key. */
bool e2b_is_inside(const struct http_req *req);

/* create.c, list.c, sandboxes.c */
int e2b_create_sandbox_v1(struct http_req *req, struct err *err);
int e2b_create_sandbox(struct http_req *req, struct err *err);
int e2b_list_sandboxes_v1(struct http_req *req, struct err *err);
int e2b_list_sandboxes(struct http_req *req, struct err *err);
int e2b_get_sandbox(struct http_req *req, struct err *err);
int e2b_kill_sandbox(struct http_req *req, struct err *err);
int e2b_connect_sandbox(struct http_req *req, struct err *err);
int e2b_resume_sandbox(struct http_req *req, struct err *err);
int e2b_pause_sandbox(struct http_req *req, struct err *err);
int e2b_set_timeout(struct http_req *req, struct err *err);
int e2b_refresh_sandbox(struct http_req *req, struct err *err);
int e2b_set_network(struct http_req *req, struct err *err);

/* metrics.c, snapshots.c, templates.c */
int e2b_get_metrics(struct http_req *req, struct err *err);
int e2b_get_batch_metrics(struct http_req *req, struct err *err);
int e2b_get_logs_v1(struct http_req *req, struct err *err); /* logs.c */
int e2b_get_logs(struct http_req *req, struct err *err);
int e2b_create_snapshot(struct http_req *req, struct err *err);
int e2b_list_snapshots(struct http_req *req, struct err *err);
int e2b_fork_sandbox(struct http_req *req, struct err *err);
int e2b_get_alias(struct http_req *req, struct err *err);
int e2b_list_templates(struct http_req *req, struct err *err);
int e2b_list_default_templates(struct http_req *req, struct err *err);
int e2b_update_template(struct http_req *req, struct err *err);
int e2b_delete_template(struct http_req *req, struct err *err);

/* secrets.c */
int e2b_create_secret(struct http_req *req, struct err *err);
int e2b_list_secrets(struct http_req *req, struct err *err);
int e2b_get_secret(struct http_req *req, struct err *err);
int e2b_update_secret(struct http_req *req, struct err *err);
int e2b_delete_secret(struct http_req *req, struct err *err);

/* builds.c, tags.c */
int e2b_request_build(struct http_req *req, struct err *err);
int e2b_get_upload_link(struct http_req *req, struct err *err);
int e2b_upload_files(struct http_req *req, struct err *err);
/* plan_build() of struct face. */
int e2b_plan_build(const json_t *started, const struct template *from, json_t **ret,
                   struct err *err);
int e2b_start_build(struct http_req *req, struct err *err);
int e2b_get_build_status(struct http_req *req, struct err *err);
int e2b_list_tags(struct http_req *req, struct err *err);
int e2b_count_tags(struct http_req *req, struct err *err);
int e2b_has_tag(struct http_req *req, struct err *err);
int e2b_group_tags(struct http_req *req, struct err *err);
int e2b_list_assignments(struct http_req *req, struct err *err);
int e2b_assign_tags(struct http_req *req, struct err *err);
int e2b_remove_tags(struct http_req *req, struct err *err);

/* volumes.c, volume_content.c */
int e2b_create_volume(struct http_req *req, struct err *err);
int e2b_list_volumes(struct http_req *req, struct err *err);
int e2b_get_volume(struct http_req *req, struct err *err);
int e2b_delete_volume(struct http_req *req, struct err *err);
int volume_list_dir(struct http_req *req, struct err *err);
int volume_make_dir(struct http_req *req, struct err *err);
int volume_stat(struct http_req *req, struct err *err);
int volume_change(struct http_req *req, struct err *err);
int volume_remove_path(struct http_req *req, struct err *err);
int volume_read_file(struct http_req *req, struct err *err);
int volume_write_file(struct http_req *req, struct err *err);

/* process.c, process_calls.c */
int envd_start(struct http_req *req, struct err *err);
int envd_connect(struct http_req *req, struct err *err);
int envd_list(struct http_req *req, struct err *err);
int envd_send_input(struct http_req *req, struct err *err);
int envd_close_stdin(struct http_req *req, struct err *err);
int envd_send_signal(struct http_req *req, struct err *err);
int envd_update(struct http_req *req, struct err *err);
int envd_stream_input(struct http_req *req, struct err *err); /* stream_input.c */

/* filesystem.c, watch.c */
int envd_stat(struct http_req *req, struct err *err);
int envd_list_dir(struct http_req *req, struct err *err);
int envd_make_dir(struct http_req *req, struct err *err);
int envd_move(struct http_req *req, struct err *err);
int envd_remove(struct http_req *req, struct err *err);
int envd_watch_dir(struct http_req *req, struct err *err);
int envd_create_watcher(struct http_req *req, struct err *err);
int envd_get_watcher_events(struct http_req *req, struct err *err);
int envd_remove_watcher(struct http_req *req, struct err *err);

/* files.c, upload.c, envd.c */
int envd_read_file(struct http_req *req, struct err *err);
int envd_write_files(struct http_req *req, struct err *err);
int envd_health(struct http_req *req, struct err *err);

/* execute.c, contexts.c */
int code_execute(struct http_req *req, struct err *err);
int code_create_context(struct http_req *req, struct err *err);
int code_list_contexts(struct http_req *req, struct err *err);
int code_restart_context(struct http_req *req, struct err *err);
int code_remove_context(struct http_req *req, struct err *err);
