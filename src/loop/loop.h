// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The event loop: one thread, epoll (level-triggered), timers, children by pidfd, deferred calls,
 * and long jobs in slices. Used by gateway, broker, agent and CLI alike.
 *
 *	wait for fds or the next timer --> now = clock --> fds' callbacks --> due timers -->
 *	a slice of the jobs --> deferred calls --> wait
 *
 * Inside callbacks loop_now_us() is the one "now" of this turn. A callback may remove any source,
 * also its own; a removed source is not called again, even in the same turn. It must free objects
 * through loop_defer(), because the same turn may still hold an event for them. No callback may
 * block.
 *
 * All others wait for the longest callback, so none may work for long either: work over many items
 * is done as a job. The loop measures the CPU time of turns, and knows each callback by its name
 * and the file that registered it.
 */
#include "base/err.h"
#include "base/fair.h"

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
struct loop_job;   /* a long one, in slices */

/* Where a callback comes from. Each function below that takes a callback has a macro that adds
 * this. */
#define LOOP_NAME(fn) __FILE__ ":" #fn

must_check int loop_new(struct loop **ret, struct err *err);
void loop_free(struct loop *loop);
/* Runs until loop_stop(). 0, or what epoll_wait failed with. */
must_check int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
uint64_t loop_now_us(const struct loop *loop); /* steady clock, of this turn */

#define LOOP_BOUNDS       8
#define LOOP_LONG_TURN_US 50000 /* of CPU time */

struct loop_stats { /* since the start */
	uint64_t turns, busy_us;
	uint64_t longest_us, slow_turns;  /* slow: others waited for more than 10 ms */
	uint64_t longest_cpu_us, cpu_us;  /* cpu_us: of turns of at least a millisecond */
	uint64_t by_cpu[LOOP_BOUNDS + 1]; /* turns, by the least bound that holds their CPU time */
};
extern const uint64_t loop_bounds_us[LOOP_BOUNDS];
struct loop_stats loop_stats(const struct loop *loop);
/* Logs each turn over LOOP_LONG_TURN_US, with the callback that took most of it. */
void loop_tell_long_turns(struct loop *loop);
/* Notes what the running callback works on, such as a route, for that log line. The text must live
 * forever. */
void loop_note(struct loop *loop, const char *about);

/* Watches fd. The caller still owns it, and removes the source before closing it. Returns epoll's
 * errors; aborts only when memory runs out. */
must_check int loop_io_add_named(struct loop *loop, int fd, uint32_t events, loop_io_fn fn,
                                 void *arg, struct loop_io **ret, const char *name);
#define loop_io_add(loop, fd, events, fn, arg, ret)                                                \
	loop_io_add_named(loop, fd, events, fn, arg, ret, LOOP_NAME(fn))
void loop_io_set(struct loop_io *io, uint32_t events); /* 0 = pause; cheap when nothing changes */
void loop_io_remove(struct loop_io *io);               /* NULL is fine */
void loop_io_removep(struct loop_io **io);             /* the same, and sets NULL */

/*
 * Sets which share pays for a source's callbacks. NULL, the default, is the loop's owner: its
 * sources are called first in each turn. The other shares divide the first part of a turn by the
 * time that their callbacks take (base/fair.h); ready sources that get no time wait for the next
 * turn. So a share with many busy sources delays another share's single source only a little, and
 * gets all the time while it is alone. The share is borrowed and must outlive the source. If a
 * callback changes it, the callback's time is charged to the new share.
 */
void loop_io_set_share(struct loop_io *io, struct fair_share *share);
/* Calls it in the next turn, with no events if there are none. */
void loop_io_again(struct loop_io *io);

/* One-shot. The handle is the caller's until loop_timer_free(); it may be set again, also from
 * its own callback. */
struct loop_timer *loop_timer_new_named(struct loop *loop, loop_fn fn, void *arg, const char *name);
#define loop_timer_new(loop, fn, arg) loop_timer_new_named(loop, fn, arg, LOOP_NAME(fn))
/* Steady time; UINT64_MAX = not set. What a timer's callback sets is due in the next turn at the
 * earliest. */
void loop_timer_set(struct loop_timer *t, uint64_t at_us);
void loop_timer_set_in(struct loop_timer *t, uint64_t in_us);
bool loop_timer_is_set(const struct loop_timer *t);
void loop_timer_free(struct loop_timer *t); /* NULL is fine */

/* Calls fn at the end of this turn, in order. */
void loop_defer_named(struct loop *loop, loop_fn fn, void *arg, const char *name);
#define loop_defer(loop, fn, arg) loop_defer_named(loop, fn, arg, LOOP_NAME(fn))

/*
 * A job is called once a turn until it says that it is done, and does a piece of its work each
 * time: at least one, and more for as long as loop_has_time(). All jobs share the time that a turn
 * has for them, in turn, so that they hold up nobody else. The handle is the caller's until
 * loop_job_free(), which its own callback may call, too.
 */
typedef bool (*loop_job_fn)(struct loop *loop, void *arg); /* true: it is done */
struct loop_job *loop_job_new_named(struct loop *loop, loop_job_fn fn, void *arg, const char *name);
#define loop_job_new(loop, fn, arg) loop_job_new_named(loop, fn, arg, LOOP_NAME(fn))
void loop_job_start(struct loop_job *job); /* an active one goes on */
bool loop_job_is_running(const struct loop_job *job);
void loop_job_free(struct loop_job *job); /* NULL is fine */
/* Whether this turn has time for one more piece of work. Callbacks that are not jobs may ask too,
 * and leave work that is not urgent to a job. */
bool loop_has_time(const struct loop *loop);

/* Watches a process by its pidfd, which the loop then owns; fn is called once, after the child was
 * reaped. */
must_check int loop_child_add_named(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                                    struct loop_child **ret, const char *name);
#define loop_child_add(loop, pidfd, fn, arg, ret)                                                  \
	loop_child_add_named(loop, pidfd, fn, arg, ret, LOOP_NAME(fn))
/* The same for a child that was just made and must not run unwatched: if it cannot be watched, it
 * is killed and reaped, and its pidfd is closed. */
must_check int loop_child_take_named(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                                     struct loop_child **ret, const char *name);
#define loop_child_take(loop, pidfd, fn, arg, ret)                                                 \
	loop_child_take_named(loop, pidfd, fn, arg, ret, LOOP_NAME(fn))
void loop_child_remove(struct loop_child *c); /* stops watching, reaps nothing; NULL is fine */
int loop_child_pidfd(const struct loop_child *c);

/* Calls fn in the loop when the signal comes (it is blocked for the process and read by
 * signalfd). */
must_check int loop_signal_add(struct loop *loop, int signo, loop_fn fn, void *arg);
