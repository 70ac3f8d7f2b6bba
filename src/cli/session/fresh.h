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
/* Opens the daemon that runs, or where none does, or the caller wants none, hosts one; which cannot
 * keep a sandbox. */
must_check int fresh_open(struct command *c, bool is_standalone, bool is_kept,
                          struct interrupt *interrupt, struct private_daemon **ret_daemon,
                          struct err *err);
/* Makes a sandbox; *ret_id is for free(). */
/* What is told while it takes long. */
const char *fresh_note(const struct sandbox_opts *opts);
must_check int fresh_create(struct remote *remote, const struct sandbox_opts *opts, char **ret_id,
                            struct err *err);
/* Removes it; a failure is told on stderr. */
void fresh_remove(const struct remote *remote, const char *id);
