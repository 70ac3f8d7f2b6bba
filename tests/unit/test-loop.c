// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "loop/loop.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct trace {
	struct loop *loop;
	char text[64];
	struct loop_io *io;
	struct loop_timer *timer;
	int fd;
};

static void note(struct trace *t, char c)
{
	size_t len = strlen(t->text);

	t->text[len] = c;
	t->text[len + 1] = '\0';
}

static struct trace new_trace(void)
{
	struct trace t = {0};
	struct err err;

	CHECK_INT(loop_new(&t.loop, &err), 0);
	return t;
}

static void note_a(struct loop *loop, void *arg)
{
	(void)loop;
	note(arg, 'a');
}

static void note_b(struct loop *loop, void *arg)
{
	(void)loop;
	note(arg, 'b');
}

static void note_c_and_stop(struct loop *loop, void *arg)
{
	note(arg, 'c');
	loop_stop(loop);
}

TEST(timers_fire_in_order_of_time_and_a_cancelled_one_does_not)
{
	struct trace t = new_trace();
	struct loop_timer *c = loop_timer_new(t.loop, note_c_and_stop, &t);
	struct loop_timer *a = loop_timer_new(t.loop, note_a, &t);
	struct loop_timer *b = loop_timer_new(t.loop, note_b, &t);
	struct loop_timer *never = loop_timer_new(t.loop, note_a, &t);

	loop_timer_set_in(c, 3000);
	loop_timer_set_in(never, 1500);
	loop_timer_set_in(b, 2000);
	loop_timer_set_in(a, 1000);
	loop_timer_set(never, UINT64_MAX);
	CHECK(loop_timer_is_set(a) && !loop_timer_is_set(never));
	CHECK_INT(loop_run(t.loop), 0);
	CHECK_STR(t.text, "abc");
	loop_timer_free(a);
	loop_timer_free(b);
	loop_timer_free(c);
	loop_timer_free(never);
	loop_free(t.loop);
}

TEST(a_thousand_timers_set_in_any_order_fire_sorted)
{
	struct trace t = new_trace();
	struct loop_timer *timers[1000];
	struct loop_timer *end = loop_timer_new(t.loop, note_c_and_stop, &t);

	for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
		timers[i] = loop_timer_new(t.loop, note_b, &t);
		loop_timer_set_in(timers[i], 1000 + (i * 7919) % 1000);
	}
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		if (i % 50)
			loop_timer_set(timers[i], UINT64_MAX);
	loop_timer_set_in(end, 5000);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK_STR(t.text, "bbbbbbbbbbbbbbbbbbbbc");
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
		loop_timer_free(timers[i]);
	loop_timer_free(end);
	loop_free(t.loop);
}

static void remove_other(struct loop *loop, uint32_t events, void *arg)
{
	struct trace *t = arg;

	(void)events;
	note(t, 'x');
	loop_io_removep(&t->io);
	loop_stop(loop);
}

TEST(a_source_removed_in_a_turn_is_not_called_again_in_it)
{
	struct trace t = new_trace();
	struct loop_io *first, *second;
	int pipes[2][2];

	for (int i = 0; i < 2; i++) {
		CHECK_INT(pipe2(pipes[i], O_CLOEXEC), 0);
		CHECK_INT(write(pipes[i][1], "x", 1), 1);
	}
	CHECK_INT(loop_io_add(t.loop, pipes[0][0], EPOLLIN, remove_other, &t, &first), 0);
	CHECK_INT(loop_io_add(t.loop, pipes[1][0], EPOLLIN, remove_other, &t, &second), 0);
	t.io = second; /* whichever comes first removes the second one; if that is itself, the first
	                  still runs */
	CHECK_INT(loop_run(t.loop), 0);
	CHECK(strlen(t.text) <= 2 && t.io == NULL);
	loop_io_remove(first);
	loop_free(t.loop);
	for (int i = 0; i < 4; i++)
		(void)close(pipes[i / 2][i % 2]);
}

static void child_ended(struct loop *loop, int status, void *arg)
{
	struct trace *t = arg;

	t->fd = status;
	loop_stop(loop);
}

TEST(a_child_is_reaped_and_its_end_is_told)
{
	struct trace t = new_trace();
	struct loop_child *c;
	pid_t pid = fork();
	int pidfd;

	if (pid == 0)
		_exit(7);
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	CHECK(pidfd >= 0);
	CHECK_INT(loop_child_add(t.loop, pidfd, child_ended, &t, &c), 0);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK_INT(WEXITSTATUS(t.fd), 7);
	CHECK_INT(waitpid(pid, NULL, 0), -1);
	loop_free(t.loop);
}

TEST_FORKED(a_signal_reaches_its_callback, 5)
{
	struct trace t = new_trace();

	CHECK_INT(loop_signal_add(t.loop, SIGUSR1, note_a, &t), 0);
	CHECK_INT(loop_signal_add(t.loop, SIGUSR2, note_c_and_stop, &t), 0);
	(void)raise(SIGUSR1);
	(void)raise(SIGUSR2);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK_STR(t.text, "ac");
	loop_free(t.loop);
}

/* Works for that long: neither sleep nor a busy host shortens it. */
static void burn(uint64_t us)
{
	uint64_t until = clock_cpu_us() + us;

	while (clock_cpu_us() < until)
		continue;
}

struct work {
	struct trace *t;
	char letter;
	unsigned left, calls;
};

static bool do_pieces(struct loop *loop, void *arg)
{
	struct work *w = arg;

	w->calls++;
	do {
		burn(500);
		w->left--;
	} while (w->left > 0 && loop_has_time(loop));
	if (w->left == 0)
		note(w->t, w->letter);
	return w->left == 0;
}

static void stop(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void run_one_turn(struct loop *loop)
{
	loop_defer(loop, stop, NULL);
	CHECK_INT(loop_run(loop), 0);
}

TEST(a_job_is_done_in_slices_and_lets_others_come_between)
{
	struct trace t = new_trace();
	struct work w = {&t, 'j', 100, 0};
	struct loop_job *job = loop_job_new(t.loop, do_pieces, &w);
	struct loop_timer *a = loop_timer_new(t.loop, note_a, &t);

	loop_timer_set_in(a, 1000);
	loop_job_start(job);
	CHECK(loop_job_is_running(job));
	while (w.left > 0)
		run_one_turn(t.loop);
	CHECK(w.calls > 5);
	CHECK(!loop_job_is_running(job));
	CHECK_STR(t.text, "aj");
	loop_job_free(job);
	loop_timer_free(a);
	loop_free(t.loop);
}

TEST(a_short_job_does_not_wait_for_a_long_one)
{
	struct trace t = new_trace();
	struct work longer = {&t, 'l', 100, 0}, shorter = {&t, 's', 5, 0};
	struct loop_job *jobs[] = {loop_job_new(t.loop, do_pieces, &longer),
	                           loop_job_new(t.loop, do_pieces, &shorter)};

	loop_job_start(jobs[0]);
	loop_job_start(jobs[1]);
	while (longer.left > 0)
		run_one_turn(t.loop);
	CHECK_STR(t.text, "sl");
	loop_job_free(jobs[0]);
	loop_job_free(jobs[1]);
	loop_free(t.loop);
}

static struct loop_job *job_to_free;

static bool free_itself(struct loop *loop, void *arg)
{
	note(arg, 'f');
	loop_job_free(job_to_free);
	loop_stop(loop);
	return true;
}

TEST(a_job_may_free_itself)
{
	struct trace t = new_trace();

	job_to_free = loop_job_new(t.loop, free_itself, &t);
	loop_job_start(job_to_free);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK_STR(t.text, "f");
	loop_free(t.loop);
}

static void set_again(struct loop *loop, void *arg)
{
	struct trace *t = arg;

	(void)loop;
	note(t, 'a');
	if (strlen(t->text) < 20)
		loop_timer_set_in(t->timer, 0);
}

TEST(a_timer_that_sets_itself_to_now_lets_the_turn_end)
{
	struct trace t = new_trace();

	t.timer = loop_timer_new(t.loop, set_again, &t);
	loop_timer_set_in(t.timer, 0);
	run_one_turn(t.loop);
	CHECK_STR(t.text, "a");
	loop_timer_free(t.timer);
	loop_free(t.loop);
}

static void burn_long(struct loop *loop, void *arg)
{
	(void)arg;
	loop_note(loop, "GET /v1/long");
	burn(LOOP_LONG_TURN_US + 10000);
}

static void sleep_long(struct loop *loop, void *arg)
{
	(void)loop;
	(void)arg;
	(void)usleep(LOOP_LONG_TURN_US * 2);
}

TEST_FORKED(a_long_turn_is_told_with_the_callback_that_took_it, 60)
{
	struct trace t = new_trace();
	char text[1024] = "";
	int pipe_fds[2];

	CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	CHECK(dup2(pipe_fds[1], STDERR_FILENO) >= 0);
	loop_tell_long_turns(t.loop);
	loop_defer(t.loop, note_a, &t);
	loop_defer(t.loop, burn_long, NULL);
	loop_defer(t.loop, note_b, &t);
	run_one_turn(t.loop);
	CHECK(read(pipe_fds[0], text, sizeof(text) - 1) > 0);
	CHECK(strstr(text, "loop.long_turn"));
	CHECK(strstr(text, "test-loop.c:burn_long"));
	CHECK(strstr(text, "GET /v1/long"));
	CHECK(loop_stats(t.loop).longest_cpu_us > LOOP_LONG_TURN_US);
	CHECK_INT(loop_stats(t.loop).by_cpu[5] + loop_stats(t.loop).by_cpu[6], 1);
	loop_free(t.loop);
}

TEST(a_turn_that_only_waits_takes_no_cpu_time)
{
	struct trace t = new_trace();

	loop_defer(t.loop, sleep_long, NULL);
	run_one_turn(t.loop);
	CHECK(loop_stats(t.loop).longest_us > LOOP_LONG_TURN_US);
	CHECK(loop_stats(t.loop).longest_cpu_us < LOOP_LONG_TURN_US);
	loop_free(t.loop);
}

#define BUSY    40
#define WORK_US 100

struct busy {
	struct loop *loop;
	int fd; /* a pipe's end that always has a byte */
	struct loop_io *io;
	size_t calls;
	size_t *all;
};

/* What a callback does takes a little, and the same for all. */
static void work(struct loop *loop, uint32_t events, void *arg)
{
	struct busy *b = arg;
	uint64_t until = clock_steady_us() + WORK_US;

	(void)events;
	while (clock_steady_us() < until)
		continue;
	b->calls++;
	if (++*b->all >= 2000)
		loop_stop(loop);
}

static void make_busy(struct busy *b, struct loop *loop, struct fair_share *share, size_t *all)
{
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(write(fds[1], "x", 1), 1);
	CHECK_INT(close(fds[1]), 0);
	*b = (struct busy){.loop = loop, .fd = fds[0], .all = all};
	CHECK_INT(loop_io_add(loop, fds[0], EPOLLIN, work, b, &b->io), 0);
	loop_io_set_share(b->io, share);
}

TEST(a_share_with_many_busy_sources_leaves_another_its_part)
{
	struct fair_share many, one;
	struct busy busy[BUSY + 1];
	size_t all = 0, least = SIZE_MAX;
	struct trace t = new_trace();

	fair_share_init(&many, FAIR_WEIGHT);
	fair_share_init(&one, FAIR_WEIGHT);
	for (size_t i = 0; i < BUSY; i++)
		make_busy(&busy[i], t.loop, &many, &all);
	make_busy(&busy[BUSY], t.loop, &one, &all);
	CHECK_INT(loop_run(t.loop), 0);
	CHECK(busy[BUSY].calls >= 150); /* were they served as they come, it had 49 */
	for (size_t i = 0; i < BUSY; i++)
		least = MIN(least, busy[i].calls);
	CHECK(least >= 20); /* and of those that share a part, each its turn */
	for (size_t i = 0; i <= BUSY; i++) {
		loop_io_remove(busy[i].io);
		CHECK_INT(close(busy[i].fd), 0);
	}
	fair_share_done(&many);
	fair_share_done(&one);
	loop_free(t.loop);
}

static void again_thrice(struct loop *loop, uint32_t events, void *arg)
{
	struct trace *t = arg;

	note(t, events == 0 ? '0' : 'e');
	loop_io_set(t->io, 0);
	if (strlen(t->text) < 4)
		loop_io_again(t->io);
	else
		loop_stop(loop);
}

TEST(a_source_that_asks_to_be_called_again_is_called_without_an_event)
{
	struct trace t = new_trace();
	struct fair_share share;
	int fds[2];

	fair_share_init(&share, FAIR_WEIGHT);
	for (int i = 0; i < 2; i++) { /* with a share, and as the owner's own */
		t.text[0] = '\0';
		CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
		CHECK_INT(write(fds[1], "x", 1), 1);
		CHECK_INT(loop_io_add(t.loop, fds[0], EPOLLIN, again_thrice, &t, &t.io), 0);
		loop_io_set_share(t.io, i == 0 ? &share : NULL);
		CHECK_INT(loop_run(t.loop), 0);
		CHECK_STR(t.text, "e000");
		loop_io_remove(t.io);
		CHECK_INT(close(fds[0]), 0);
		CHECK_INT(close(fds[1]), 0);
	}
	fair_share_done(&share);
	loop_free(t.loop);
}
