// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Starting a machine from one that was saved. Its memory is read once, checked, into a file in
 * memory that is then sealed; every copy maps that one privately, so that all of them together have
 * each page once that none of them has written to. What was not used for the longest time is let go
 * where there are too many; machines that run keep theirs.
 */
#include "engine/guest/guest.h"
#include "engine/vm/saved.h"

/* Reads the memory that g's spec names, unless it is here; done is told once, from the loop or from
 * inside. */
must_check int copy_need(struct guest *g, void (*done)(struct guest *g, const struct err *err),
                         struct err *err);
void copy_unneed(struct guest *g); /* it does not wait any more */
/* What QEMU goes on from, behind a copy_need() that went well. The fds are the caller's. */
must_check int copy_open(struct guest_host *host, const struct guest_spec *spec, int *ret_ram_fd,
                         int *ret_state_fd, struct err *err);

/* One that was just saved; owns ram_fd. */
void copy_remember(const char *id, const struct saved *saved, int ram_fd);
void copy_forget(const char *id); /* the snapshot goes */
void copies_close(void);
