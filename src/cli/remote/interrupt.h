// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Ctrl-C and its kin while a command runs inside. A thread of its own takes signals, which are
 * blocked everywhere else, and hands them on over a connection of its own: the main thread may sit
 * in a read or write as long as it likes.
 *
 *	INT    first: INT to the command; again: KILL to its whole tree; a third time: we leave
 *	TERM, HUP    TERM to its tree, and KILL if it is still there after a grace
 *	QUIT   QUIT to the command
 */
#include "cli/remote/remote.h"

struct interrupt;

/* Takes the signals over, for the rest of the process's life, and starts the thread. */
must_check int interrupt_start(struct interrupt **ret, struct err *err);
/* From now on signals go to this exec. What came before is delivered at once. */
void interrupt_aim(struct interrupt *i, const struct remote *remote, const char *sandbox,
                   const char *exec_id);
int interrupt_signal(struct interrupt *i); /* the first that came, 0 = none */
void interrupt_stop(struct interrupt *i);  /* ends the thread; NULL is fine */
DEFINE_FREEP(struct interrupt, interrupt_stop)
