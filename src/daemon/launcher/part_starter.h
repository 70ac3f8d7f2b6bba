// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The launcher's starter (src/loop/starter.h): it forks the daemon's parts, so that the launcher
 * needs neither that right nor the parts' rights. It has the prepared site, and follows each step
 * of a reload, since parts start with the settings that it has.
 */
#include "daemon/child.h"
#include "daemon/reload.h"
#include "loop/starter.h"

#define PART_STARTER_FDS_MAX 6 /* the gateway's, in a cluster */

struct part_order {
	enum child_part part;
	struct child_loss lost;
	int fds[PART_STARTER_FDS_MAX]; /* as the part's main takes them, the control socket last */
	size_t n_fds;
};

struct part_starter { /* caller's memory, for as long as the starter is there */
	const struct site *site;
	struct reload *reload;
	struct starter *starter;
};

must_check int part_starter_open(struct part_starter *p, struct loop *loop, loop_fn lost,
                                 void *arg);
void part_starter_close(struct part_starter *p);
must_check int part_starter_start(struct part_starter *p, const struct part_order *order,
                                  pid_t *ret_pid, int *ret_pidfd);
/* The steps of reload.h, in the launcher and in the starter. */
must_check int part_starter_try(struct part_starter *p, struct err *err);
bool part_starter_keep(struct part_starter *p);
bool part_starter_undo(struct part_starter *p);
