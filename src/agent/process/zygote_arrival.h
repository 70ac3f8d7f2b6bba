// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A kernel that was not begun here: a fork of a zygote, put into this sandbox by the host. It comes
 * to the socket of sudo (sudo_socket.h) with the tag of a channel that waits for it, is looked at
 * from all sides, and gets its fds, environment and directory. From then on it is a kernel like any
 * other; it is our child, as its parent is gone.
 *
 * A zygote runs a template's code, which the host does not trust to give up what it must. So each
 * wall that a kernel begun here stands behind is checked from outside, and one that lacks any is
 * killed: identity, capabilities, no_new_privs, filters, namespaces, root, cgroups, open files.
 */
#include "agent/process/channel.h"

#define ZYGOTE_ARRIVAL_TIME_US 5000000     /* from the START to the knock */
#define WELCOME_MAX            (64 * 1024) /* fits into a socket's buffer at once */

/* Makes the ends of a kernel and holds its side until it comes. Owns imprint_fd, which only a
 * START_COPIED has. */
must_check int zygote_arrival_expect(struct channel *c, const struct start *s, int imprint_fd,
                                     struct err *err);
/* One knocks with that tag. True if a channel waited for it: it has been let in or killed. */
bool zygote_arrival_knock(struct agent *a, const char *tag, int fd, pid_t pid);
void zygote_arrival_give_up(struct channel *c); /* closes what is held for it; idempotent */
