// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Input for an exec that is there as a whole, from a request's body. Feeds of one exec are written
 * in the order in which they came, each when the one before it is through and there is room. What
 * streams its input (exec_write_stdin()) gets no room before they are.
 */
#include "sandbox/exec/exec.h"

struct exec_feed;

/* All of it is on its way to the program, or err says why not. The feed is gone then. */
typedef void (*exec_fed_fn)(const struct err *err, void *arg);

/* Takes input over. closes: stdin, behind it. done is called from the loop. It may be NULL: then
 * the feed lives without its caller, so that a detached exec gets all of it, and NULL is returned.
 */
struct exec_feed *exec_feed(struct exec *e, char *input, size_t len, bool closes, exec_fed_fn done,
                            void *arg);
bool exec_is_fed(const struct exec *e); /* some of a feed is not written yet */
/* Drops what is not written yet, and does not call done. */
void exec_feed_cancel(struct exec_feed *f);
