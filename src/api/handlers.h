// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The handlers that routes.c puts into its table, by the file that has them. */
#include "http/server.h"

/* health.c */
int get_health(struct http_req *req, struct err *err);
int get_ready(struct http_req *req, struct err *err);

/* figures.c */
int get_figures(struct http_req *req, struct err *err);
int get_doctor(struct http_req *req, struct err *err);
int get_settings(struct http_req *req, struct err *err);

/* nodes.c */
int list_nodes(struct http_req *req, struct err *err);

/* history.c */
int get_history(struct http_req *req, struct err *err);
int list_history_running(struct http_req *req, struct err *err);

/* backups.c */
int create_backup(struct http_req *req, struct err *err);

/* login.c */
int get_login(struct http_req *req, struct err *err);
int create_login(struct http_req *req, struct err *err);
int delete_login(struct http_req *req, struct err *err);
int update_login(struct http_req *req, struct err *err);
int create_login_link(struct http_req *req, struct err *err);

/* login_provider.c, login_device.c */
int start_provider_login(struct http_req *req, struct err *err);
int finish_provider_login(struct http_req *req, struct err *err);
int end_provider_login(struct http_req *req, struct err *err);
int create_device_login(struct http_req *req, struct err *err);
int poll_device_login(struct http_req *req, struct err *err);

/* sandboxes.c */
int create_sandbox(struct http_req *req, struct err *err);
int list_sandboxes(struct http_req *req, struct err *err);
int get_sandbox(struct http_req *req, struct err *err);
int update_sandbox(struct http_req *req, struct err *err);
int delete_sandbox(struct http_req *req, struct err *err);
int pause_sandbox(struct http_req *req, struct err *err);
int resume_sandbox(struct http_req *req, struct err *err);
int stop_sandbox(struct http_req *req, struct err *err);
int extend_sandbox(struct http_req *req, struct err *err);

int get_result(struct http_req *req, struct err *err);   /* results.c */
int list_creates(struct http_req *req, struct err *err); /* creates.c */

/* batch.c, batch_removal.c */
int create_batch(struct http_req *req, struct err *err);
int delete_batch(struct http_req *req, struct err *err);

/* reservations.c */
int create_reservation(struct http_req *req, struct err *err);
int list_reservations(struct http_req *req, struct err *err);
int get_reservation(struct http_req *req, struct err *err);
int delete_reservation(struct http_req *req, struct err *err);

/* execs.c */
int create_exec(struct http_req *req, struct err *err);
int list_execs(struct http_req *req, struct err *err);
int get_exec(struct http_req *req, struct err *err);
int delete_exec(struct http_req *req, struct err *err);
int get_exec_output(struct http_req *req, struct err *err);
int signal_exec(struct http_req *req, struct err *err);
int resize_exec(struct http_req *req, struct err *err);

/* exec_wait.c, exec_stdin.c, exec_attach.c */
int wait_exec(struct http_req *req, struct err *err);
int write_exec_stdin(struct http_req *req, struct err *err);
int attach_exec(struct http_req *req, struct err *err);

/* code.c, contexts.c */
int run_code(struct http_req *req, struct err *err);
int create_context(struct http_req *req, struct err *err);
int list_contexts(struct http_req *req, struct err *err);
int get_context(struct http_req *req, struct err *err);
int delete_context(struct http_req *req, struct err *err);
int restart_context(struct http_req *req, struct err *err);
int interrupt_context(struct http_req *req, struct err *err);

/* ports.c, port_tcp.c */
int connect_port(struct http_req *req, struct err *err);
int create_port(struct http_req *req, struct err *err);
int list_ports(struct http_req *req, struct err *err);
int delete_port(struct http_req *req, struct err *err);

/* files.c: those that answer with one object */
int stat_file(struct http_req *req, struct err *err);
int file_exists(struct http_req *req, struct err *err);
int remove_file(struct http_req *req, struct err *err);
int make_directory(struct http_req *req, struct err *err);
int move_file(struct http_req *req, struct err *err);
int copy_file(struct http_req *req, struct err *err);
int chmod_file(struct http_req *req, struct err *err);
int chown_file(struct http_req *req, struct err *err);
int make_symlink(struct http_req *req, struct err *err);

/* files_data.c, files_tar.c, files_list.c, files_watch.c: those that stream */
int read_file(struct http_req *req, struct err *err);
int write_file(struct http_req *req, struct err *err);
int read_tar(struct http_req *req, struct err *err);
int write_tar(struct http_req *req, struct err *err);
int list_files(struct http_req *req, struct err *err);
int watch_files(struct http_req *req, struct err *err);

/* builds.c, build_events.c */
int list_builds(struct http_req *req, struct err *err);
int create_build(struct http_req *req, struct err *err);
int upload_build_files(struct http_req *req, struct err *err);
int get_build(struct http_req *req, struct err *err);
int cancel_build(struct http_req *req, struct err *err);
int get_build_events(struct http_req *req, struct err *err);

/* run.c */
int run_once(struct http_req *req, struct err *err);

/* templates.c */
int list_templates(struct http_req *req, struct err *err);
int create_template(struct http_req *req, struct err *err);
int get_template(struct http_req *req, struct err *err);
int delete_template(struct http_req *req, struct err *err);
/* template_export.c */
int export_template(struct http_req *req, struct err *err);
/* template_import.c */
int import_template(struct http_req *req, struct err *err);
int pull_template(struct http_req *req, struct err *err);

/* snapshots.c, forks.c */
int create_snapshot(struct http_req *req, struct err *err);
int list_snapshots(struct http_req *req, struct err *err);
int get_snapshot(struct http_req *req, struct err *err);
int update_snapshot(struct http_req *req, struct err *err);
int delete_snapshot(struct http_req *req, struct err *err);
int get_snapshot_tree(struct http_req *req, struct err *err);
int get_sandbox_tree(struct http_req *req, struct err *err);
int roll_back_sandbox(struct http_req *req, struct err *err);
int fork_sandbox(struct http_req *req, struct err *err);

/* volumes.c */
int create_volume(struct http_req *req, struct err *err);
int list_volumes(struct http_req *req, struct err *err);
int get_volume(struct http_req *req, struct err *err);
int delete_volume(struct http_req *req, struct err *err);

/* usage.c */
int get_usage(struct http_req *req, struct err *err);
int get_sandbox_usage(struct http_req *req, struct err *err);
int list_usage_samples(struct http_req *req, struct err *err);

/* network.c, network_log.c */
int get_network(struct http_req *req, struct err *err);
int set_network(struct http_req *req, struct err *err);
int allow_network(struct http_req *req, struct err *err);
int explain_network(struct http_req *req, struct err *err);
int list_network_decisions(struct http_req *req, struct err *err);
int suggest_network(struct http_req *req, struct err *err);

/* apply.c */
int apply_changes(struct http_req *req, struct err *err);

/* snapshot_export.c, snapshot_import.c */
int export_snapshot(struct http_req *req, struct err *err);
int import_snapshot(struct http_req *req, struct err *err);

/* diff.c */
int get_diff(struct http_req *req, struct err *err);

/* metrics.c */
int get_metrics(struct http_req *req, struct err *err);

/* events.c */
int list_events(struct http_req *req, struct err *err);
int get_events_head(struct http_req *req, struct err *err);
int get_event_seals(struct http_req *req, struct err *err);

/* quota.c */
int get_quota(struct http_req *req, struct err *err);
int get_project_quota(struct http_req *req, struct err *err);
int set_project_quota(struct http_req *req, struct err *err);
int get_key_quota(struct http_req *req, struct err *err);
int set_key_quota(struct http_req *req, struct err *err);

/* identity.c */
int get_authority(struct http_req *req, struct err *err);
int get_discovery(struct http_req *req, struct err *err);
int get_identity_keys(struct http_req *req, struct err *err);
int get_identity(struct http_req *req, struct err *err);
int rotate_identity(struct http_req *req, struct err *err);
int create_identity_token(struct http_req *req, struct err *err);

/* secrets.c */
int list_secrets(struct http_req *req, struct err *err);
int get_secret(struct http_req *req, struct err *err);
int put_secret(struct http_req *req, struct err *err);
int delete_secret(struct http_req *req, struct err *err);

/* webhooks.c */
int list_webhooks(struct http_req *req, struct err *err);
int create_webhook(struct http_req *req, struct err *err);
int get_webhook(struct http_req *req, struct err *err);
int update_webhook(struct http_req *req, struct err *err);
int delete_webhook(struct http_req *req, struct err *err);

/* keys.c */
int list_keys(struct http_req *req, struct err *err);
int create_key(struct http_req *req, struct err *err);
int revoke_key(struct http_req *req, struct err *err);
int list_projects(struct http_req *req, struct err *err);
int create_project(struct http_req *req, struct err *err);
int delete_project(struct http_req *req, struct err *err);

/* A project of this node that made way for the cluster's: removed, if nothing is in it. */
void projects_remove_unused(const char *id, void *arg);
