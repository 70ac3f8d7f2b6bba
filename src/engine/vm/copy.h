// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Starts a machine from a saved one. The saved memory is read once and checked, into a memfd that
 * is then sealed. Every copy maps it privately, so all copies share the pages that they have not
 * written to. If there are too many memfds, the least recently used ones are released; running
 * machines keep theirs.
 */
#include "engine/guest/guest.h"
#include "engine/vm/saved.h"

/* Reads the memory that g's spec names, unless it is already here; done is called once, from the
 * loop or from inside. */
must_check int copy_need(struct guest *g, void (*done)(struct guest *g, const struct err *err),
                         struct err *err);
void copy_unneed(struct guest *g); /* it does not wait any more */
/* What QEMU resumes from, after a successful copy_need(). The caller owns the fds. */
must_check int copy_open(struct guest_host *host, const struct guest_spec *spec, int *ret_ram_fd,
                         int *ret_state_fd, struct err *err);

/* Keeps the memory of a machine that was just saved; owns ram_fd. */
void copy_remember(const char *id, const struct saved *saved, int ram_fd);
void copy_forget(const char *id); /* the snapshot is removed */
void copies_close(void);
