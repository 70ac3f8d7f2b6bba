// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Processes of a sandbox by E2B's selectors: a pid inside. */
#include "compat/e2b/frame/objects.h"
#include "sandbox/exec/exec.h"

/* By message.process.pid; is_running: only a running one, else also one that ended recently. */
must_check int process_find(struct sandbox *s, const json_t *message, bool is_running,
                            struct exec **ret, struct err *err);
must_check int process_read_pty(const json_t *message, bool *ret_has, uint16_t *ret_rows,
                                uint16_t *ret_cols, struct err *err);
/* message.input for e, of its kind: a pipe's or a terminal's bytes, which the caller owns. */
must_check int process_read_input(const json_t *message, const struct exec *e, char **ret,
                                  size_t *ret_len, struct err *err);
