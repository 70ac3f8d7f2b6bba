// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The event loop: one thread, epoll (level-triggered), timers, children by pidfd, deferred calls.
 *Used by gateway, broker, agent and CLI alike.
 *
 *	wait for fds or the next timer --> now = clock --> fds' callbacks --> due timers -->
 *deferred calls --> wait
 *
 * Inside callbacks loop_now_us() is the one "now" of this turn. A callback may remove any source,
 *its own too; what it frees, it frees through loop_defer(), because the same turn may still hold an
 *event for it (a removed source is not called again even in the same turn). No callback may block.
 */
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct loop;

typedef void (*loop_io_fn)(struct loop *loop, uint32_t events,
                           void *arg); /* EPOLLIN, EPOLLOUT, EPOLLHUP, … */
typedef void (*loop_fn)(struct loop *loop, void *arg);
typedef void (*loop_child_fn)(struct loop *loop, int wait_status,
                              void *arg); /* as of waitpid(); 0x7f00 if not our child */

struct loop_io;    /* a watched fd */
struct loop_timer; /* a one-shot timer */
struct loop_child; /* a watched process */

must_check int loop_new(struct loop **ret, struct err *err);
void loop_free(struct loop *loop);
/* Runs until loop_stop(). 0, or what epoll_wait failed with. */
must_check int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
uint64_t loop_now_us(const struct loop *loop); /* steady clock, of this turn */

struct loop_stats { /* since the start */
	uint64_t turns, busy_us;
	uint64_t longest_us, slow_turns; /* slow: others waited for more than 10 ms */
};
struct loop_stats loop_stats(const struct loop *loop);

/* Watches fd, which stays the caller's: remove the source before closing it. Aborts only on no
 * memory; epoll errors come back. */
must_check int loop_io_add(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg,
                           struct loop_io **ret);
void loop_io_set(struct loop_io *io, uint32_t events); /* 0 = pause; cheap when nothing changes */
void loop_io_remove(struct loop_io *io);               /* NULL is fine */
void loop_io_removep(struct loop_io **io);             /* the same, and sets NULL */

/* One-shot. The handle is the caller's until loop_timer_free(); it may be set again, also from
 * its own callback. */
struct loop_timer *loop_timer_new(struct loop *loop, loop_fn fn, void *arg);
void loop_timer_set(struct loop_timer *t, uint64_t at_us); /* steady time; UINT64_MAX = not set */
void loop_timer_set_in(struct loop_timer *t, uint64_t in_us);
bool loop_timer_is_set(const struct loop_timer *t);
void loop_timer_free(struct loop_timer *t); /* NULL is fine */

/* Calls fn at the end of this turn, in order. */
void loop_defer(struct loop *loop, loop_fn fn, void *arg);

/* Watches a process by its pidfd, which the loop then owns; fn is called once, after the child was
 * reaped. */
must_check int loop_child_add(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                              struct loop_child **ret);
/* The same for one that we have just made and that must not live unwatched: when it cannot be
 * watched, it is killed and reaped, and its pidfd closed. */
must_check int loop_child_take(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                               struct loop_child **ret);
void loop_child_remove(struct loop_child *c); /* stops watching, reaps nothing; NULL is fine */
int loop_child_pidfd(const struct loop_child *c);

/* Calls fn in the loop when the signal comes (it is blocked for the process and read by signalfd).
 */
must_check int loop_signal_add(struct loop *loop, int signo, loop_fn fn, void *arg);
