// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The commands of `cloche`. Each has a file cmd_NAME.c and gets its words with its own name as
 * argv[0]; what it returns is the process's exit status.
 */
#include "cli/term/exit_status.h"

int cmd_run(int argc, char **argv);
int cmd_create(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_code(int argc, char **argv);
int cmd_repl(int argc, char **argv);
int cmd_context(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_cp(int argc, char **argv);
int cmd_signal(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_extend(int argc, char **argv);
int cmd_rm(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_url(int argc, char **argv);
int cmd_results(int argc, char **argv);
int cmd_port_forward(int argc, char **argv);
int cmd_history(int argc, char **argv);
int cmd_usage(int argc, char **argv);
int cmd_quota(int argc, char **argv);
int cmd_network(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_project(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_volume(int argc, char **argv);
int cmd_pool(int argc, char **argv);
int cmd_fork(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_rollback(int argc, char **argv);
int cmd_apply(int argc, char **argv);
int cmd_dashboard(int argc, char **argv);
int cmd_trust(int argc, char **argv);
int cmd_login(int argc, char **argv);
int cmd_logout(int argc, char **argv);
int cmd_whoami(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_tree(int argc, char **argv);
int cmd_secret(int argc, char **argv);
int cmd_identity(int argc, char **argv);
int cmd_webhook(int argc, char **argv);
int cmd_compose(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_events_verify(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_audit_verify(int argc, char **argv);
int cmd_backup(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_cluster(int argc, char **argv);
int cmd_node(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_settings(int argc, char **argv);
int cmd_version(int argc, char **argv);
