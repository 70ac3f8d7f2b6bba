// SPDX-License-Identifier: Apache-2.0
/*
 * Sources are heap objects; a removed one is marked dead, taken out of epoll at once, and freed at
 * the end of the turn, so that an event already fetched for it finds a live object that says no.
 * Timers are a binary heap that knows each timer's place, so set and cancel are O(log n).
 */
#include "loop/loop.h"

#include "base/clock.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define EVENTS_A_TURN 64
#define SLOW_TURN_US  10000

struct loop_io {
	struct loop *loop;
	loop_io_fn fn;
	void *arg;
	int fd;
	uint32_t events;
	bool is_in_epoll;
	bool is_dead;
};

struct loop_timer {
	struct loop *loop;
	loop_fn fn;
	void *arg;
	uint64_t at_us;
	size_t place; /* in the heap; SIZE_MAX = not set */
};

struct loop_child {
	struct loop *loop;
	loop_child_fn fn;
	void *arg;
	int pidfd;
	struct loop_io *io;
};

struct deferred {
	loop_fn fn;
	void *arg;
};

struct signal_watch {
	loop_fn fn;
	void *arg;
};

struct loop {
	int epoll_fd;
	bool is_stopping;
	uint64_t now_us;
	struct loop_stats stats;
	struct loop_timer **heap;
	size_t heap_len, heap_size;
	struct deferred *deferred;
	size_t deferred_len, deferred_size;
	int signal_fd;
	struct loop_io *signal_io;
	sigset_t signals;
	struct signal_watch watches[NSIG];
};

int loop_new(struct loop **ret, struct err *err)
{
	struct loop *loop = xnew0(struct loop);

	loop->signal_fd = -1;
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

void loop_defer(struct loop *loop, loop_fn fn, void *arg)
{
	if (loop->deferred_len == loop->deferred_size) {
		loop->deferred_size = loop->deferred_size ? loop->deferred_size * 2 : 16;
		loop->deferred =
			xrealloc(loop->deferred, loop->deferred_size * sizeof(*loop->deferred));
	}
	loop->deferred[loop->deferred_len++] = (struct deferred){fn, arg};
}

int loop_io_add(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg,
                struct loop_io **ret)
{
	struct loop_io *io = xnew0(struct loop_io);
	struct epoll_event event = {.events = events, .data.ptr = io};

	*io = (struct loop_io){.loop = loop,
	                       .fn = fn,
	                       .arg = arg,
	                       .fd = fd,
	                       .events = events,
	                       .is_in_epoll = true};
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
	loop_defer(io->loop, free_io, io);
}

void loop_io_removep(struct loop_io **io)
{
	loop_io_remove(*io);
	*io = NULL;
}

static void heap_place(struct loop *loop, size_t place, struct loop_timer *t)
{
	loop->heap[place] = t;
	t->place = place;
}

static void heap_up(struct loop *loop, size_t place, struct loop_timer *t)
{
	while (place > 0 && loop->heap[(place - 1) / 2]->at_us > t->at_us) {
		heap_place(loop, place, loop->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	heap_place(loop, place, t);
}

static void heap_down(struct loop *loop, size_t place, struct loop_timer *t)
{
	for (;;) {
		size_t child = place * 2 + 1;

		if (child >= loop->heap_len)
			break;
		if (child + 1 < loop->heap_len &&
		    loop->heap[child + 1]->at_us < loop->heap[child]->at_us)
			child++;
		if (loop->heap[child]->at_us >= t->at_us)
			break;
		heap_place(loop, place, loop->heap[child]);
		place = child;
	}
	heap_place(loop, place, t);
}

static void heap_remove(struct loop_timer *t)
{
	struct loop *loop = t->loop;
	size_t place = t->place;
	struct loop_timer *last;

	if (place == SIZE_MAX)
		return;
	t->place = SIZE_MAX;
	last = loop->heap[--loop->heap_len];
	if (last == t)
		return;
	heap_down(loop, place, last);
	heap_up(loop, last->place, last);
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_fn fn, void *arg)
{
	struct loop_timer *t = xnew0(struct loop_timer);

	*t = (struct loop_timer){
		.loop = loop, .fn = fn, .arg = arg, .at_us = UINT64_MAX, .place = SIZE_MAX};
	return t;
}

void loop_timer_set(struct loop_timer *t, uint64_t at_us)
{
	struct loop *loop = t->loop;

	heap_remove(t);
	t->at_us = at_us;
	if (at_us == UINT64_MAX)
		return;
	if (loop->heap_len == loop->heap_size) {
		loop->heap_size = loop->heap_size ? loop->heap_size * 2 : 16;
		loop->heap = xrealloc(loop->heap, loop->heap_size * sizeof(struct loop_timer *));
	}
	heap_up(loop, loop->heap_len++, t);
}

void loop_timer_set_in(struct loop_timer *t, uint64_t in_us)
{
	uint64_t at;

	if (__builtin_add_overflow(t->loop->now_us, in_us, &at))
		at = UINT64_MAX;
	loop_timer_set(t, at);
}

bool loop_timer_is_set(const struct loop_timer *t)
{
	return t->place != SIZE_MAX;
}

void loop_timer_free(struct loop_timer *t)
{
	if (!t)
		return;
	heap_remove(t);
	free(t);
}

static void run_timers(struct loop *loop)
{
	while (loop->heap_len > 0 && loop->heap[0]->at_us <= loop->now_us) {
		struct loop_timer *t = loop->heap[0];

		heap_remove(t);
		t->fn(loop, t->arg);
	}
}

static int wait_ms(const struct loop *loop)
{
	uint64_t now, left;

	if (loop->deferred_len > 0)
		return 0;
	if (loop->heap_len == 0)
		return -1;
	now = clock_steady_us();
	if (loop->heap[0]->at_us <= now)
		return 0;
	left = (loop->heap[0]->at_us - now + 999) / 1000;
	return (int)MIN(left, (uint64_t)60000);
}

static void count_turn(struct loop *loop)
{
	uint64_t us = clock_steady_us() - loop->now_us;

	loop->stats.turns++;
	loop->stats.busy_us += us;
	loop->stats.longest_us = MAX(loop->stats.longest_us, us);
	loop->stats.slow_turns += us > SLOW_TURN_US;
}

struct loop_stats loop_stats(const struct loop *loop)
{
	return loop->stats;
}

int loop_run(struct loop *loop)
{
	struct epoll_event events[EVENTS_A_TURN];

	loop->is_stopping = false;
	while (!loop->is_stopping) {
		int n = epoll_wait(loop->epoll_fd, events, EVENTS_A_TURN, wait_ms(loop));

		if (n < 0 && errno != EINTR)
			return -errno;
		loop->now_us = clock_steady_us();
		for (int i = 0; i < n; i++) {
			struct loop_io *io = events[i].data.ptr;

			if (!io->is_dead)
				io->fn(loop, events[i].events, io->arg);
		}
		run_timers(loop);
		run_deferred(loop);
		count_turn(loop);
	}
	return 0;
}

static void child_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct loop_child *c = arg;
	loop_child_fn fn = c->fn;
	void *fn_arg = c->arg;
	siginfo_t info = {0};
	int status = 0x7f00; /* not ours to wait for: the end is known, how it ended is not */

	(void)events;
	if (waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED) == 0) {
		if (info.si_code == CLD_EXITED)
			status = info.si_status << 8;
		else
			status = info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
	}
	loop_child_remove(c);
	fn(loop, status, fn_arg);
}

int loop_child_add(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                   struct loop_child **ret)
{
	struct loop_child *c = xnew0(struct loop_child);
	int r;

	*c = (struct loop_child){.loop = loop, .fn = fn, .arg = arg, .pidfd = pidfd};
	r = loop_io_add(loop, pidfd, EPOLLIN, child_on_io, c, &c->io);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

int loop_child_take(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                    struct loop_child **ret)
{
	int r = loop_child_add(loop, pidfd, fn, arg, ret);
	siginfo_t info;

	if (r == 0)
		return 0;
	(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
		continue;
	(void)close(pidfd);
	return r;
}

int loop_child_pidfd(const struct loop_child *c)
{
	return c->pidfd;
}

static void free_child(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void loop_child_remove(struct loop_child *c)
{
	if (!c)
		return;
	loop_io_removep(&c->io);
	(void)close(c->pidfd);
	c->pidfd = -1;
	loop_defer(c->loop, free_child, c);
}

static void signal_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct signalfd_siginfo info;

	(void)events;
	(void)arg;
	while (read(loop->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo < NSIG && loop->watches[info.ssi_signo].fn)
			loop->watches[info.ssi_signo].fn(loop, loop->watches[info.ssi_signo].arg);
}

int loop_signal_add(struct loop *loop, int signo, loop_fn fn, void *arg)
{
	int fd;

	assert(signo > 0 && signo < NSIG);
	(void)sigaddset(&loop->signals, signo);
	if (sigprocmask(SIG_BLOCK, &loop->signals, NULL) < 0)
		return -errno;
	fd = signalfd(loop->signal_fd, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	loop->watches[signo] = (struct signal_watch){fn, arg};
	if (loop->signal_fd >= 0)
		return 0;
	loop->signal_fd = fd;
	return loop_io_add(loop, fd, EPOLLIN, signal_on_io, NULL, &loop->signal_io);
}
