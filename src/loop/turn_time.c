// SPDX-License-Identifier: Apache-2.0
/*
 * The length of a turn is measured in CPU time, so that a busy host does not make turns look long.
 * Reading that clock is a system call (about a microsecond); reading the steady clock is not. So
 * the CPU clock is read only when, by the steady clock, a callback or several short turns together
 * took a millisecond. The result may include those short turns, and so is too high by less than a
 * millisecond.
 */
#include "base/clock.h"
#include "base/log.h"
#include "loop/loop_private.h"

#include <inttypes.h>
#include <string.h>

#define SLOW_TURN_US 10000
#define READ_CPU_US  1000 /* of steady time, after which the CPU clock is read */

const uint64_t loop_bounds_us[LOOP_BOUNDS] = {
	1000, 5000, 10000, 20000, LOOP_LONG_TURN_US, 100000, 500000, 2000000,
};

/* A callback of that name has just ended. */
void turn_lap(struct loop *loop, const char *name)
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

void turn_count(struct loop *loop)
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
