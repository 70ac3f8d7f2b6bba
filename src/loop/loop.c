// SPDX-License-Identifier: Apache-2.0
/*
 * Sources are heap objects. A removed source is marked dead, taken out of epoll at once, and freed
 * at the end of the turn, because the turn may already have fetched an event for it.
 *
 * Shares: ready sources are queued, and a fair queue serves them until the turn's time is over; the
 * rest keep their places. An event may be out of date when it is served: the callback then reads
 * without blocking and finds nothing.
 */
#include "base/clock.h"
#include "loop/loop_private.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_A_TURN 512
#define SHARES_US     300 /* of a turn for sources of shares; then new events are fetched */
#define QUANTUM_US    250 /* for a share of the usual weight, before another's turn */

struct loop_io {
	struct loop *loop;
	const char *name; /* of fn */
	loop_io_fn fn;
	void *arg;
	int fd;
	uint32_t events;
	bool is_in_epoll;
	bool is_dead;
	struct fair_share *share; /* NULL = the owner's own */
	struct list ready;        /* in the share, this turn */
	uint32_t ready_events;
	struct list again; /* in the loop's list of sources to call without an event */
};

int loop_new(struct loop **ret, struct err *err)
{
	struct loop *loop = xnew0(struct loop);

	loop->signal_fd = -1;
	list_init(&loop->jobs);
	fair_queue_init(&loop->shares, QUANTUM_US);
	fair_share_init(&loop->own, FAIR_WEIGHT);
	list_init(&loop->again);
	(void)sigemptyset(&loop->signals);
	loop->now_us = clock_steady_us();
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		int r = err_set(err, ERR_INTERNAL, errno, "cannot make an event loop");

		free(loop);
		return r;
	}
	*ret = loop;
	return 0;
}

static void run_deferred(struct loop *loop)
{
	/* A deferred call may defer more: those run in the same sweep. */
	for (size_t i = 0; i < loop->deferred_len; i++) {
		struct deferred d = loop->deferred[i];

		d.fn(loop, d.arg);
		turn_lap(loop, d.name);
	}
	loop->deferred_len = 0;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	run_deferred(loop);
	loop_io_remove(loop->signal_io);
	run_deferred(loop);
	if (loop->signal_fd >= 0)
		(void)close(loop->signal_fd);
	(void)close(loop->epoll_fd);
	free(loop->heap);
	free(loop->deferred);
	free(loop);
}

uint64_t loop_now_us(const struct loop *loop)
{
	return loop->now_us;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopping = true;
}

void loop_defer_named(struct loop *loop, loop_fn fn, void *arg, const char *name)
{
	if (loop->deferred_len == loop->deferred_size) {
		loop->deferred_size = loop->deferred_size ? loop->deferred_size * 2 : 16;
		loop->deferred =
			xrealloc(loop->deferred, loop->deferred_size * sizeof(*loop->deferred));
	}
	loop->deferred[loop->deferred_len++] = (struct deferred){fn, arg, name};
}

int loop_io_add_named(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg,
                      struct loop_io **ret, const char *name)
{
	struct loop_io *io = xnew0(struct loop_io);
	struct epoll_event event = {.events = events, .data.ptr = io};

	*io = (struct loop_io){.loop = loop,
	                       .name = name,
	                       .fn = fn,
	                       .arg = arg,
	                       .fd = fd,
	                       .events = events,
	                       .is_in_epoll = true};
	list_init(&io->ready);
	list_init(&io->again);
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		int r = -errno;

		free(io);
		return r;
	}
	*ret = io;
	return 0;
}

void loop_io_set(struct loop_io *io, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = io};

	if (io->is_dead || io->events == events)
		return;
	io->events = events;
	io->ready_events &= events | EPOLLHUP | EPOLLERR;
	if (io->ready_events == 0 && list_empty(&io->again))
		list_remove(&io->ready);
	/* Paused sources leave epoll: it reports EPOLLHUP and EPOLLERR even for an empty mask. */
	if (events == 0) {
		(void)epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
		io->is_in_epoll = false;
	} else if (!io->is_in_epoll) {
		(void)epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_ADD, io->fd, &event);
		io->is_in_epoll = true;
	} else {
		(void)epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event);
	}
}

static void free_io(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void loop_io_remove(struct loop_io *io)
{
	if (!io || io->is_dead)
		return;
	if (io->is_in_epoll)
		(void)epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	io->is_dead = true;
	list_remove(&io->ready);
	list_remove(&io->again);
	loop_defer(io->loop, free_io, io);
}

void loop_io_removep(struct loop_io **io)
{
	loop_io_remove(*io);
	*io = NULL;
}

void loop_io_set_share(struct loop_io *io, struct fair_share *share)
{
	io->share = share;
}

void loop_io_again(struct loop_io *io)
{
	if (!io->is_dead && list_empty(&io->again))
		list_append(&io->loop->again, &io->again);
}

static int wait_ms(const struct loop *loop)
{
	uint64_t now, left;

	if (loop->deferred_len > 0 || !list_empty(&loop->jobs) || !list_empty(&loop->again) ||
	    fair_has_items(&loop->shares))
		return 0;
	if (loop->heap_len == 0)
		return -1;
	now = clock_steady_us();
	if (loop->heap[0]->at_us <= now)
		return 0;
	left = (loop->heap[0]->at_us - now + 999) / 1000;
	return (int)MIN(left, (uint64_t)60000);
}

static void call_io(struct loop *loop, struct loop_io *io, uint32_t events)
{
	list_remove(&io->again);
	io->fn(loop, events, io->arg);
	turn_lap(loop, io->name);
}

/* Appends it to its share's queue. A source that still waits there from an earlier turn keeps its
 * place. */
static void push_ready(struct loop *loop, struct loop_io *io, uint32_t events)
{
	io->ready_events = events;
	if (list_empty(&io->ready))
		fair_push(&loop->shares, io->share ? io->share : &loop->own, &io->ready);
}

/* Queues events of shares, and calls the owner's own sources at once. */
static void sort_events(struct loop *loop, const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		struct loop_io *io = events[i].data.ptr;

		if (!io->is_dead && io->share)
			push_ready(loop, io, events[i].events);
		else if (!io->is_dead)
			call_io(loop, io, events[i].events);
	}
	list_for_each (&loop->again, struct loop_io, io, again)
		if (list_empty(&io->ready))
			push_ready(loop, io, 0);
}

static void run_shares(struct loop *loop)
{
	uint64_t from, to, until;
	struct fair_share *share;
	struct list *item;

	if (list_empty(&loop->shares.ring))
		return;
	to = loop->lap_us;
	until = to + SHARES_US;
	while (to < until && (item = fair_next(&loop->shares, &share))) {
		struct loop_io *io = list_entry(item, struct loop_io, ready);

		from = to;
		call_io(loop, io, io->ready_events);
		to = loop->lap_us;
		fair_charge(&loop->shares, io->share ? io->share : share, (int64_t)(to - from) + 1);
	}
}

int loop_run(struct loop *loop)
{
	struct epoll_event events[EVENTS_A_TURN];

	loop->is_stopping = false;
	loop->turn_cpu_us = loop->lap_cpu_us = clock_cpu_us(); /* earlier time is no turn's */
	while (!loop->is_stopping) {
		int n = epoll_wait(loop->epoll_fd, events, EVENTS_A_TURN, wait_ms(loop));

		if (n < 0 && errno != EINTR)
			return -errno;
		loop->now_us = loop->lap_us = clock_steady_us();
		loop->slice_end_us = loop->now_us + SLICE_US;
		sort_events(loop, events, n);
		run_shares(loop);
		timers_run(loop);
		jobs_run(loop);
		run_deferred(loop);
		turn_count(loop);
	}
	return 0;
}
