// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Is this a request? The one place where bytes of the gateway are judged; no state, no I/O. */
#include "broker/msg.h"

/*
 * A message of len bytes that came with n_fds fds; *req holds what fits of it. Once this says yes,
 * the op is known, strings end, ids are ids and numbers lie inside the bounds.
 */
must_check int check_request(const struct msg_request *req, size_t len, size_t n_fds,
                             const struct guest_limits *max, struct err *err);
