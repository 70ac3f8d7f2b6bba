// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tells a stuck part of the daemon from one that is only slow. Each part sends a beat every few
 * seconds to show that its loop turns (child_beat()). The launcher looks at each part as often, and
 * counts the time since the last beat in which the part could have sent one.
 *
 * What does not count, so that a busy host hurts nobody:
 * - time in which the part was ready to run and got no CPU (it is starved, not stuck);
 * - time in which it waits for a disk (state D): a kill would not end that;
 * - time in which a debugger holds it (state t);
 * - more than LOOK_MOST_US for one look: then the launcher itself did not run.
 *
 * So a part that is stopped or waits for ever counts as stuck after that much real time, and one
 * that spins after that much CPU time.
 *
 * Before its first beat a part starts, and may do what takes long: the first start makes file
 * systems, each adopts what runs, and the host may be slow. Such a part is busy, which is no fault;
 * a start is stuck if nobody who takes part in it is busy (the launcher's look_at_start()).
 */
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What /proc shows about a process. */
struct watchdog_look {
	uint64_t at_us;     /* steady clock */
	uint64_t waited_us; /* for a CPU, since its start; grows */
	uint64_t used_us;   /* of a CPU; likewise */
	bool has_waited;    /* else the kernel does not count it */
	char state;         /* as in /proc/PID/stat */
};

struct watchdog {
	struct watchdog_look last;
	uint64_t silent_us; /* since the last beat, as far as it counts */
	bool has_beaten;    /* before its first beat a part may do what takes long */
};

#define WATCHDOG_LOOK_MOST_US (10 * SECOND_US)

/* False: there is no such process. */
bool watchdog_read(pid_t pid, uint64_t now_us, struct watchdog_look *ret);
void watchdog_on_beat(struct watchdog *w);
/* Returns the time that counts, up to now. */
uint64_t watchdog_on_look(struct watchdog *w, const struct watchdog_look *look);
/* Whether the process did something since the last look, would like to, or waits for a disk. */
bool watchdog_is_busy(const struct watchdog_look *last, const struct watchdog_look *look);
/* Whether a child of it does so now: a part waits for the programs that it runs. */
bool watchdog_has_busy_child(pid_t pid);
/* How often a part beats and the launcher looks, by the setting. */
uint64_t watchdog_period_us(uint64_t watchdog_ms);
