// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Asking something of a running vm's cloche-vmm (vmm/asks.h), also of one that was adopted. What is
 * asked for lasts until ask_end(), where it is of such a kind.
 */
#include "engine/guest/guest.h"
#include "vmm/asks.h"

struct ask; /* one that was asked */

/* Called once: err is NULL when it was done. The ask is still to be ended. */
typedef void (*ask_fn)(const struct err *err, void *arg);

/* fd goes along and stays the caller's, -1: none. What has no answer by then has failed. */
must_check int ask_begin(struct guest *g, const struct vmm_ask *ask, int fd, uint64_t within_us,
                         ask_fn fn, void *arg, struct ask **ret, struct err *err);
void ask_end(struct ask *a); /* NULL is fine; with or without an answer */

/* What a guest counts of itself, once USAGE was answered: within no bounds. */
const struct port_usage *ask_usage(const struct ask *a);

/* The socket that a new vm's cloche-vmm listens on. */
must_check int ask_listen(struct guest *g, int *ret_fd, struct err *err);
