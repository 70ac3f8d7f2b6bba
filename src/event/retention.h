// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Removes old entries: those that are older than the limit, or than their
 * project's own, and the oldest of the largest chain
 * while there is too much of all. No chain is cut below its share, the limit divided by the number
 * of chains that have entries. So a project that causes many loses its own, and not another's.
 * Entries of the former chain go before all others, since they are older.
 */
#include "event/chains.h"
#include "event/event.h"

/* Whether there is more than the limits allow. */
bool retention_is_due(const struct chains *chains, const struct event_limits *limits);
/* Removes a bounded number. Returns 1 if there may be more to remove, 0 if not. */
must_check int retention_step(struct chains *chains, const struct event_limits *limits,
                              uint64_t now_us, struct err *err);
