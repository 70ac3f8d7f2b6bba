// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Asks a running vm's cloche-vmm for something (vmm/asks.h), also one that was adopted. Temporary
 * effects, such as a stopped machine, last until ask_end().
 */
#include "engine/guest/guest.h"
#include "vmm/asks.h"

struct ask; /* one that was asked */

/* Called once: err is NULL on success. The caller must still end the ask. */
typedef void (*ask_fn)(const struct err *err, void *arg);

/* fd is sent along, -1 for none; the caller still owns it. The ask fails if there is no answer in
 * time. */
must_check int ask_begin(struct guest *g, const struct vmm_ask *ask, int fd, uint64_t within_us,
                         ask_fn fn, void *arg, struct ask **ret, struct err *err);
void ask_end(struct ask *a); /* NULL is fine; with or without an answer */

/* The guest's own figures, once USAGE was answered. They are not checked in any way. */
const struct port_usage *ask_usage(const struct ask *a);

/* The socket that a new vm's cloche-vmm listens on. */
must_check int ask_listen(struct guest *g, int *ret_fd, struct err *err);
