// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Checks a request. This is the only place where bytes of the gateway are checked; no state, no
 * I/O. */
#include "broker/msg.h"

/*
 * Checks a message of len bytes that came with n_fds fds; *req holds as much of it as fits. If it
 * returns 0, the op is known, strings are terminated, ids are valid and numbers are within bounds.
 */
must_check int check_request(const struct msg_request *req, size_t len, size_t n_fds,
                             const struct guest_limits *max, struct err *err);
