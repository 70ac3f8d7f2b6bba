// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The handlers that vercel.c puts into its table, by the file that has them. */
#include "http/server.h"

/* sandboxes.c */
int vercel_create_sandbox(struct http_req *req, struct err *err);
int vercel_get_sandbox(struct http_req *req, struct err *err);
int vercel_list_sandboxes(struct http_req *req, struct err *err);
int vercel_fork_sandbox(struct http_req *req, struct err *err);
/* sandboxes_change.c */
int vercel_update_sandbox(struct http_req *req, struct err *err);
int vercel_delete_sandbox(struct http_req *req, struct err *err);

/* sessions.c */
int vercel_list_sessions(struct http_req *req, struct err *err);
int vercel_get_session(struct http_req *req, struct err *err);
int vercel_stop_session(struct http_req *req, struct err *err);
int vercel_snapshot_session(struct http_req *req, struct err *err);
int vercel_extend_session(struct http_req *req, struct err *err);
int vercel_set_policy(struct http_req *req, struct err *err);

/* commands.c, command_stream.c */
int vercel_run_command(struct http_req *req, struct err *err);
int vercel_list_commands(struct http_req *req, struct err *err);
int vercel_get_command(struct http_req *req, struct err *err);
int vercel_kill_command(struct http_req *req, struct err *err);
int vercel_get_logs(struct http_req *req, struct err *err);
/* command_input.c */
int vercel_write_input(struct http_req *req, struct err *err);

/* files.c */
int vercel_write_files(struct http_req *req, struct err *err);
int vercel_read_file(struct http_req *req, struct err *err);
int vercel_make_directory(struct http_req *req, struct err *err);

/* snapshots.c */
int vercel_list_snapshots(struct http_req *req, struct err *err);
int vercel_get_snapshot(struct http_req *req, struct err *err);
int vercel_delete_snapshot(struct http_req *req, struct err *err);
int vercel_get_tree(struct http_req *req, struct err *err);

/* drives.c */
int vercel_list_drives(struct http_req *req, struct err *err);
int vercel_get_or_create_drive(struct http_req *req, struct err *err);
int vercel_get_drive(struct http_req *req, struct err *err);
int vercel_fork_drive(struct http_req *req, struct err *err);
int vercel_delete_drive(struct http_req *req, struct err *err);

/* terminal.c */
int vercel_open_terminal(struct http_req *req, struct err *err);
