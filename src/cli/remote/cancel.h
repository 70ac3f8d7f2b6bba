// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ctrl-C and its kin, for commands that run code in a context.
 *
 *	INT in a call        interrupts it; the third time restarts its interpreter; then lets go
 *	INT while it waits   lets go of it: what runs meanwhile is somebody else's
 *	INT at the prompt    drops the line
 *	TERM, HUP, QUIT      let go of the call, and the command is to end
 *
 * To let go of a call is to close its connection. Calls are made with kill_on_disconnect, so the
 * daemon then interrupts it, or takes it out of the queue.
 */
#include "cli/remote/remote.h"

struct cancel;

/* Takes the signals over, for the rest of the process's life. */
must_check int cancel_start(struct cancel **ret, struct err *err);
void cancel_stop(struct cancel *c); /* NULL is fine */
DEFINE_FREEP(struct cancel, cancel_stop)

/* A call is about to be made over remote, has begun to run, has ended. */
void cancel_call(struct cancel *c, const struct remote *remote, const char *sandbox,
                 const char *context);
void cancel_call_runs(struct cancel *c);
bool cancel_call_ended(struct cancel *c); /* whether it was let go of */

int cancel_fd(const struct cancel *c); /* for poll(): readable when a signal came at the prompt */
void cancel_clear(struct cancel *c);   /* makes it unreadable again */
int cancel_signal(struct cancel *c);   /* the one that ends the command; 0 = none came */
