// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Creates that wait until there is room, instead of being refused: each for as long as its caller
 * said. Room is what a quota of the project or key leaves, and what the host leaves.
 *
 * What holds:
 * - Projects that wait are served in turns, by their weights (share.h). So a project that waits
 *   with a thousand does not delay another's first one.
 * - The creates of one project are served in their order. One that its key's own quota stops lets
 *   those of other keys go first, and nobody else.
 * - What waiting cannot help is refused at once (create_queue_helps()).
 * - The number of waiters is bounded, for each project and for all.
 *
 * The queue is in memory only: what waits has had no effect yet. When the gateway ends, so do the
 * connections of those who wait, and they may ask again. All of this is on the loop's thread.
 */
#include "base/err.h"
#include "loop/loop.h"

#include <stddef.h>

#define CREATE_WAITERS_MAX    2048 /* of a project */
#define CREATE_WAITERS_ALL    8192 /* beyond these, each project still gets */
#define CREATE_WAITERS_ALWAYS 64

struct create_queue;
struct create_waiter;
struct shares;

struct create_queue_config {
	struct loop *loop;
	struct shares *shares; /* NULL: all waiters are of one line */
	/* Whether the host takes one more; if not, nobody is tried. NULL: it does. */
	bool (*has_room)(void *arg);
	void *arg;
};

struct create_queue *create_queue_new(const struct create_queue_config *config);
void create_queue_close(struct create_queue *q); /* refuses those who wait: the daemon stops */
void create_queue_free(struct create_queue *q);  /* forgets those who wait; NULL is fine */

struct create_waiter_ops {
	/* Tries it. 0 or more: it is made, and waits no longer. < 0: err says why not. */
	int (*make)(void *arg, struct err *err);
	/* It waits no longer: its time is over, or something else than room was wrong. */
	void (*give_up)(const struct err *err, void *arg);
};

struct create_wait { /* borrowed for the call */
	const char *project_id, *key_id;
	const char *request_id; /* what its client calls it; cut off where it is too long */
	const char *batch_id;   /* that it belongs to, or NULL */
	uint64_t until_us;      /* steady */
	const struct err *why;  /* it was refused */
};
/* The waiter is the queue's, until one of its ops ends it or it leaves. */
must_check int create_queue_join(struct create_queue *q, const struct create_wait *wait,
                                 const struct create_waiter_ops *ops, void *arg,
                                 struct create_waiter **ret, struct err *err);
void create_queue_leave(struct create_waiter *w);             /* its caller is gone; NULL is fine */
size_t create_waiter_position(const struct create_waiter *w); /* among its project's, from 1 */

/* What is known of one that waits; borrowed for the call. */
struct create_waiting {
	const char *request_id, *batch_id; /* "": none */
	size_t position;                   /* among its project's, from 1 */
	uint64_t since_us, until_us;       /* steady */
	const struct err *why;             /* there is no room for it */
};
/* Those of the project, in their order. */
void create_queue_each(const struct create_queue *q, const char *project_id,
                       void (*fn)(const struct create_waiting *w, void *arg), void *arg);

/* Whether a refusal may pass while one waits. */
bool create_queue_helps(const struct err *err);
/* Whether a create of the project that would wait has to go behind others that do. Not while the
 * queue itself tries one. */
bool create_queue_has_before(const struct create_queue *q, const char *project_id);
/* Something has ended: soon, those who wait are tried. */
void create_queue_look(struct create_queue *q);
/* The same, now: before somebody who does not wait takes what has become free. */
void create_queue_settle(struct create_queue *q);

struct create_queue_figures {
	size_t waiting;
	uint64_t joined, made, expired; /* since the start */
};
struct create_queue_figures create_queue_figures(const struct create_queue *q);
size_t create_queue_waiting(const struct create_queue *q, const char *project_id);
