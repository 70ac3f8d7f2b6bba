// SPDX-License-Identifier: Apache-2.0
/*
 * Sources are heap objects. A removed source is marked dead, taken out of epoll at once, and freed
 * at the end of the turn, because the turn may already have fetched an event for it. Timers are in
 * a binary heap and know their place in it, so set and cancel are O(log n).
 *
 * The length of a turn is measured in CPU time, so that a busy host does not make turns look long.
 * Reading that clock is a system call (about a microsecond); reading the steady clock is not. So
 * the CPU clock is read only when, by the steady clock, a callback or several short turns together
 * took a millisecond. The result may include those short turns, and so is too high by less than a
 * millisecond.
 *
 * Shares: ready sources are queued, and a fair queue serves them until the turn's time is over; the
 * rest keep their places. An event may be out of date when it is served: the callback then reads
 * without blocking and finds nothing.
 */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define EVENTS_A_TURN 512
#define SHARES_US     300 /* of a turn for sources of shares; then new events are fetched */
#define QUANTUM_US    250 /* for a share of the usual weight, before another's turn */
#define SLOW_TURN_US  10000
#define SLICE_US      2000 /* of a turn, for jobs */
#define READ_CPU_US   1000 /* of steady time, after which the CPU clock is read */

const uint64_t loop_bounds_us[LOOP_BOUNDS] = {
	1000, 5000, 10000, 20000, LOOP_LONG_TURN_US, 100000, 500000, 2000000,
};

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

struct loop_timer {
	struct loop *loop;
	const char *name; /* of fn */
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

struct loop_job {
	struct loop *loop;
	const char *name; /* of fn */
	loop_job_fn fn;
	void *arg;
	struct list link; /* while it is under way */
};

struct deferred {
	loop_fn fn;
	void *arg;
	const char *name;
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
	bool tells_long_turns;
	bool runs_timers;
	uint64_t lap_us;      /* steady: the end of the last callback */
	uint64_t lap_cpu_us;  /* as last read within a turn */
	uint64_t turn_cpu_us; /* as last read at the end of one */
	uint64_t unread_us;   /* steady time of turns since then */
	const char *about;    /* of the running callback, or NULL */
	uint64_t worst_us;    /* of this turn's callbacks */
	const char *worst, *worst_about;
	struct list jobs;
	struct loop_job *running; /* NULL: none, or it was freed by its own callback */
	uint64_t slice_end_us;
	struct loop_timer **heap;
	size_t heap_len, heap_size;
	struct deferred *deferred;
	size_t deferred_len, deferred_size;
	struct fair_queue shares; /* in microseconds */
	struct fair_share own;    /* of sources without a share that are called again */
	struct list again;
	int signal_fd;
	struct loop_io *signal_io;
	sigset_t signals;
	struct signal_watch watches[NSIG];
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

/* A callback of that name has just ended. */
static void lap(struct loop *loop, const char *name)
{
	uint64_t now = clock_steady_us(), us = now - loop->lap_us, cpu;

	loop->lap_us = now;
	if (us >= READ_CPU_US) {
		cpu = clock_cpu_us();
		us = MIN(us, cpu - loop->lap_cpu_us);
		loop->lap_cpu_us = cpu;
	}
	if (us >= loop->worst_us) {
		loop->worst_us = us;
		loop->worst = name;
		loop->worst_about = loop->about;
	}
	loop->about = NULL;
}

static void run_deferred(struct loop *loop)
{
	/* A deferred call may defer more: those run in the same sweep. */
	for (size_t i = 0; i < loop->deferred_len; i++) {
		struct deferred d = loop->deferred[i];

		d.fn(loop, d.arg);
		lap(loop, d.name);
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

struct loop_timer *loop_timer_new_named(struct loop *loop, loop_fn fn, void *arg, const char *name)
{
	struct loop_timer *t = xnew0(struct loop_timer);

	*t = (struct loop_timer){.loop = loop,
	                         .name = name,
	                         .fn = fn,
	                         .arg = arg,
	                         .at_us = UINT64_MAX,
	                         .place = SIZE_MAX};
	return t;
}

void loop_timer_set(struct loop_timer *t, uint64_t at_us)
{
	struct loop *loop = t->loop;

	heap_remove(t);
	/* One that sets itself to "now" must not keep the turn going. */
	if (loop->runs_timers && at_us <= loop->now_us)
		at_us = loop->now_us + 1;
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
	loop->runs_timers = true;
	while (loop->heap_len > 0 && loop->heap[0]->at_us <= loop->now_us) {
		struct loop_timer *t = loop->heap[0];
		const char *name = t->name;

		heap_remove(t);
		t->fn(loop, t->arg);
		lap(loop, name);
	}
	loop->runs_timers = false;
}

struct loop_job *loop_job_new_named(struct loop *loop, loop_job_fn fn, void *arg, const char *name)
{
	struct loop_job *job = xnew0(struct loop_job);

	*job = (struct loop_job){.loop = loop, .name = name, .fn = fn, .arg = arg};
	list_init(&job->link);
	return job;
}

void loop_job_start(struct loop_job *job)
{
	if (!loop_job_is_running(job))
		list_append(&job->loop->jobs, &job->link);
}

bool loop_job_is_running(const struct loop_job *job)
{
	return !list_empty(&job->link);
}

void loop_job_free(struct loop_job *job)
{
	if (!job)
		return;
	if (job->loop->running == job)
		job->loop->running = NULL;
	list_remove(&job->link);
	free(job);
}

bool loop_has_time(const struct loop *loop)
{
	return clock_steady_us() < loop->slice_end_us;
}

/* Runs each active job once, or as many as there is time for; the next turn goes on behind them. */
static void run_jobs(struct loop *loop)
{
	struct loop_job *last =
		list_empty(&loop->jobs) ? NULL : list_entry(loop->jobs.prev, struct loop_job, link);
	struct loop_job *job;
	bool is_last = false;

	loop->slice_end_us = clock_steady_us() + SLICE_US;
	while (!is_last && (job = list_first(&loop->jobs, struct loop_job, link))) {
		const char *name = job->name;

		is_last = job == last || !loop_has_time(loop);
		list_remove(&job->link);
		loop->running = job;
		if (!job->fn(loop, job->arg) && loop->running)
			loop_job_start(job);
		loop->running = NULL;
		lap(loop, name);
	}
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

void loop_tell_long_turns(struct loop *loop)
{
	loop->tells_long_turns = true;
}

void loop_note(struct loop *loop, const char *about)
{
	loop->about = about;
}

/* The part from src/ on; the compiler sees longer paths. */
static const char *short_name(const char *name)
{
	const char *at = name ? strstr(name, "src/") : NULL;

	return at ? at + strlen("src/") : name ? name : "none";
}

static void tell_long_turn(const struct loop *loop, uint64_t us, uint64_t cpu_us)
{
	log_warn("loop.long_turn",
	         "cpu_us=%" PRIu64 " wall_us=%" PRIu64 " callback=%s callback_us=%" PRIu64
	         " about='%s'",
	         cpu_us, us, short_name(loop->worst), loop->worst_us,
	         loop->worst_about ? loop->worst_about : "");
}

/* The CPU time of a turn that took `us` by the steady clock; 0 if less than a millisecond. */
static uint64_t read_cpu(struct loop *loop, uint64_t us)
{
	uint64_t before = loop->turn_cpu_us;

	loop->unread_us += us;
	if (loop->unread_us < READ_CPU_US)
		return 0;
	loop->unread_us = 0;
	loop->turn_cpu_us = loop->lap_cpu_us = clock_cpu_us();
	return MIN(us, loop->turn_cpu_us - before);
}

static void count_turn(struct loop *loop)
{
	uint64_t us = clock_steady_us() - loop->now_us, cpu_us = read_cpu(loop, us);
	struct loop_stats *stats = &loop->stats;
	size_t i = 0;

	stats->turns++;
	stats->busy_us += us;
	stats->longest_us = MAX(stats->longest_us, us);
	stats->slow_turns += us > SLOW_TURN_US;
	stats->longest_cpu_us = MAX(stats->longest_cpu_us, cpu_us);
	stats->cpu_us += cpu_us;
	while (i < LOOP_BOUNDS && cpu_us > loop_bounds_us[i])
		i++;
	stats->by_cpu[i]++;
	if (cpu_us > LOOP_LONG_TURN_US && loop->tells_long_turns)
		tell_long_turn(loop, us, cpu_us);
	loop->worst_us = 0;
	loop->worst = NULL;
}

struct loop_stats loop_stats(const struct loop *loop)
{
	return loop->stats;
}

static void call_io(struct loop *loop, struct loop_io *io, uint32_t events)
{
	list_remove(&io->again);
	io->fn(loop, events, io->arg);
	lap(loop, io->name);
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
		run_timers(loop);
		run_jobs(loop);
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
	int status = 0x7f00; /* not our child: it has ended, but we cannot know how */

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

int loop_child_add_named(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                         struct loop_child **ret, const char *name)
{
	struct loop_child *c = xnew0(struct loop_child);
	int r;

	*c = (struct loop_child){.loop = loop, .fn = fn, .arg = arg, .pidfd = pidfd};
	r = loop_io_add_named(loop, pidfd, EPOLLIN, child_on_io, c, &c->io, name);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

int loop_child_take_named(struct loop *loop, int pidfd, loop_child_fn fn, void *arg,
                          struct loop_child **ret, const char *name)
{
	int r = loop_child_add_named(loop, pidfd, fn, arg, ret, name);
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
	assert(c->pidfd >= 0); /* else it was removed, or its end was already reported */
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
