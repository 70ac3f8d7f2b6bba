// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A sandbox for one command: made, used and removed, on a daemon that is hosted for it where none
 * is running. */
#include "cli/frame/command.h"
#include "cli/remote/remote.h"
#include "cli/session/private_daemon.h"
#include "cli/session/spec.h"

/* Hosts a daemon and opens it. */
must_check int fresh_private_daemon(struct interrupt *interrupt, struct private_daemon **ret_daemon,
                                    struct remote **ret_remote, struct err *err);
/* Opens the daemon that runs. If none does, or is_standalone, starts one that ends with the
 * command. needs_daemon names an option that needs a daemon which goes on; NULL: there is none.
 * Returns what run() returns, or the exit status of the signal that interrupted it. */
must_check int fresh_run(struct command *c, bool is_standalone, const char *needs_daemon,
                         int (*run)(struct command *c, struct interrupt *interrupt, void *arg,
                                    struct err *err),
                         void *arg, struct err *err);
/* What is told while it takes long. */
const char *fresh_note(const struct sandbox_opts *opts);
/* Makes a sandbox; *ret_id is for free(). */
must_check int fresh_create(struct remote *remote, const struct sandbox_opts *opts, char **ret_id,
                            struct err *err);
/* Removes it; a failure is told on stderr. */
void fresh_remove(const struct remote *remote, const char *id);
