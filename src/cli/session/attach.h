// SPDX-License-Identifier: Apache-2.0
#pragma once
/* A terminal inside, joined to ours: raw mode, window size, keys and output over a WebSocket. */
#include "cli/session/session.h"

/* As session_run(). */
must_check int attach_run(struct session *s, struct err *err);
