// SPDX-License-Identifier: Apache-2.0
/* Who is stuck, and who only waits for a CPU or a disk. */
#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "daemon/watchdog.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A part that has beaten, and was looked at when it was one second old. */
static struct watchdog beaten(void)
{
	struct watchdog w = {0};
	const struct watchdog_look first = {
		.at_us = SECOND_US, .used_us = 100, .has_waited = true, .state = 'S'};

	watchdog_on_beat(&w);
	(void)watchdog_on_look(&w, &first);
	return w;
}

TEST(one_that_sleeps_without_a_beat_is_silent_for_as_long_as_the_clock_says)
{
	struct watchdog w = beaten();
	const struct watchdog_look look = {
		.at_us = 4 * SECOND_US, .used_us = 100, .has_waited = true, .state = 'S'};

	CHECK_INT(watchdog_on_look(&w, &look), 3 * SECOND_US);
	watchdog_on_beat(&w);
	CHECK_INT(w.silent_us, 0);
}

TEST(before_its_first_beat_a_part_may_take_as_long_as_it_likes)
{
	struct watchdog w = {0};

	for (uint64_t s = 1; s < 1000; s++) {
		const struct watchdog_look look = {.at_us = s * SECOND_US, .state = 'S'};

		CHECK_INT(watchdog_on_look(&w, &look), 0);
	}
}

TEST(time_without_a_cpu_does_not_count)
{
	struct watchdog w = beaten();
	/* It ran for 10 ms of nine seconds, and still waits. */
	const struct watchdog_look ready = {
		.at_us = 10 * SECOND_US, .used_us = 10100, .has_waited = true, .state = 'R'};
	/* Then it slept again, having waited for almost all of the next second. */
	const struct watchdog_look asleep = {.at_us = 11 * SECOND_US,
	                                     .used_us = 20100,
	                                     .waited_us = 990000,
	                                     .has_waited = true,
	                                     .state = 'S'};

	CHECK_INT(watchdog_on_look(&w, &ready), 10000);
	CHECK_INT(watchdog_on_look(&w, &asleep), 20000);
}

TEST(time_at_a_disk_or_under_a_debugger_does_not_count)
{
	struct watchdog w = beaten();
	struct watchdog_look look = {.at_us = 9 * SECOND_US, .has_waited = true, .state = 'D'};

	CHECK_INT(watchdog_on_look(&w, &look), 0);
	look.at_us += SECOND_US;
	look.state = 't';
	CHECK_INT(watchdog_on_look(&w, &look), 0);
}

TEST(a_launcher_that_did_not_run_itself_blames_nobody_for_that_time)
{
	struct watchdog w = beaten();
	const struct watchdog_look look = {
		.at_us = 3600 * SECOND_US, .has_waited = true, .used_us = 100, .state = 'S'};

	CHECK_INT(watchdog_on_look(&w, &look), WATCHDOG_LOOK_MOST_US);
}

TEST(parts_beat_often_enough_and_not_too_often)
{
	CHECK_INT(watchdog_period_us(1000), 250000);
	CHECK_INT(watchdog_period_us(30000), 5 * SECOND_US);
	CHECK_INT(watchdog_period_us(1), 100000);
}

TEST(one_that_works_would_like_to_or_waits_for_a_disk_is_busy)
{
	const struct watchdog_look last = {
		.at_us = SECOND_US, .used_us = 100, .waited_us = 100, .has_waited = true};
	const struct {
		uint64_t used_us, waited_us;
		char state;
		bool is_busy;
	} cases[] = {
		{100, 100, 'R', true},   {100, 100, 'D', true},
		{100, 100, 't', true},   {100, 100, 'S', false},
		{100, 100, 'T', false},  {9000, 900, 'S', false}, /* a beat */
		{90000, 100, 'S', true}, {100, 90000, 'S', true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct watchdog_look look = {.at_us = 2 * SECOND_US,
		                                   .used_us = cases[i].used_us,
		                                   .waited_us = cases[i].waited_us,
		                                   .has_waited = true,
		                                   .state = cases[i].state};

		CHECK_INT(watchdog_is_busy(&last, &look), cases[i].is_busy);
	}
}

TEST(at_the_first_look_only_the_state_tells)
{
	const struct watchdog_look never = {0};
	struct watchdog_look look = {
		.at_us = SECOND_US, .used_us = SECOND_US, .has_waited = true, .state = 'S'};

	CHECK(!watchdog_is_busy(&never, &look));
	look.state = 'R';
	CHECK(watchdog_is_busy(&never, &look));
}

static pid_t start(int signo)
{
	pid_t pid = fork();

	if (pid == 0) {
		volatile uint64_t n = 0;

		(void)!(signo && raise(signo));
		while (true)
			n++;
	}
	CHECK(pid > 0);
	return pid;
}

/* Looks until a fifth of a second counts; the test's own time limit says "never". */
static char look_until_stuck(pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	struct watchdog w = {0};
	struct watchdog_look look = {0};

	watchdog_on_beat(&w);
	do {
		(void)nanosleep(&pause, NULL);
		CHECK(watchdog_read(pid, clock_steady_us(), &look));
	} while (watchdog_on_look(&w, &look) < SECOND_US / 5);
	(void)kill(pid, SIGKILL);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	return look.state;
}

TEST_FORKED(a_process_that_spins_is_found, 60)
{
	CHECK_INT(look_until_stuck(start(0)), 'R');
}

TEST_FORKED(a_process_that_is_stopped_is_found, 60)
{
	CHECK_INT(look_until_stuck(start(SIGSTOP)), 'T');
}

TEST_FORKED(a_child_that_works_is_seen, 60)
{
	pid_t stopped, spins;
	int status;

	CHECK(!watchdog_has_busy_child(getpid()));
	stopped = start(SIGSTOP);
	CHECK_INT(waitpid(stopped, &status, WUNTRACED), stopped);
	CHECK(WIFSTOPPED(status) && !watchdog_has_busy_child(getpid()));
	spins = start(0);
	CHECK(watchdog_has_busy_child(getpid()));
	(void)kill(spins, SIGKILL);
	CHECK_INT(waitpid(spins, NULL, 0), spins);
	CHECK(!watchdog_has_busy_child(getpid()));
	(void)kill(stopped, SIGKILL);
	CHECK_INT(waitpid(stopped, NULL, 0), stopped);
}

TEST(of_a_process_that_has_gone_nothing_is_said)
{
	struct watchdog_look look;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK(!watchdog_read(pid, clock_steady_us(), &look));
}
