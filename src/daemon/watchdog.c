// SPDX-License-Identifier: Apache-2.0
#include "daemon/watchdog.h"

#include "base/fd.h"
#include "base/parse.h"
#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PERIOD_MOST_US  (5 * SECOND_US)
#define PERIOD_LEAST_US UINT64_C(100000)
#define IDLE_PART       100 /* a loop that only sends its beats uses less than this part of a CPU */
#define CHILDREN_SIZE   4096 /* more children than fit are not looked at */

uint64_t watchdog_period_us(uint64_t watchdog_ms)
{
	uint64_t quarter_us = watchdog_ms * 1000 / 4;

	return MAX(MIN(quarter_us, PERIOD_MOST_US), PERIOD_LEAST_US);
}

static char read_state(pid_t pid)
{
	char path[32], text[1024];
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return '\0';
	p = strrchr(text, ')'); /* the name before it may hold anything */
	return p && p[1] == ' ' ? p[2] : '\0';
}

/* The times of the first thread, which runs the loop. */
static void read_times(pid_t pid, struct watchdog_look *ret)
{
	char path[32], text[128];
	char *used = text, *waited = NULL, *rest = NULL;
	uint64_t used_ns, waited_ns;

	(void)snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	waited = strchr(used, ' ');
	rest = waited ? strchr(waited + 1, ' ') : NULL;
	if (!rest)
		return;
	*waited++ = *rest = '\0';
	if (parse_u64(used, UINT64_MAX, &used_ns) < 0 ||
	    parse_u64(waited, UINT64_MAX, &waited_ns) < 0)
		return;
	ret->has_waited = used_ns > 0; /* a kernel that does not count says 0 */
	ret->used_us = used_ns / 1000;
	ret->waited_us = waited_ns / 1000;
}

bool watchdog_read(pid_t pid, uint64_t now_us, struct watchdog_look *ret)
{
	*ret = (struct watchdog_look){.at_us = now_us, .state = read_state(pid)};
	if (ret->state == '\0')
		return false;
	read_times(pid, ret);
	return true;
}

void watchdog_on_beat(struct watchdog *w)
{
	w->has_beaten = true;
	w->silent_us = 0;
}

/* How much of the time since the last look counts. */
static uint64_t counted_us(const struct watchdog_look *last, const struct watchdog_look *look)
{
	uint64_t us = MIN(look->at_us - last->at_us, WATCHDOG_LOOK_MOST_US);
	uint64_t waited_us = look->waited_us - last->waited_us;

	if (last->at_us == 0 || look->state == 'D' || look->state == 't')
		return 0;
	if (!look->has_waited) /* whether it is starved or spins is not known: it is let be */
		return look->state == 'R' ? 0 : us;
	/* The kernel counts a wait only when it ends. A thread that is ready now may have waited
	 * all the time, so only the time that it ran counts. */
	if (look->state == 'R')
		return MIN(us, look->used_us - last->used_us);
	return us > waited_us ? us - waited_us : 0;
}

uint64_t watchdog_on_look(struct watchdog *w, const struct watchdog_look *look)
{
	if (w->has_beaten)
		w->silent_us += counted_us(&w->last, look);
	w->last = *look;
	return w->silent_us;
}

bool watchdog_is_busy(const struct watchdog_look *last, const struct watchdog_look *look)
{
	uint64_t us = look->at_us - last->at_us;
	uint64_t worked_us = look->used_us - last->used_us + look->waited_us - last->waited_us;

	if (look->state == 'R' || look->state == 'D' || look->state == 't')
		return true;
	return last->at_us > 0 && worked_us > us / IDLE_PART;
}

bool watchdog_has_busy_child(pid_t pid)
{
	char path[48], text[CHILDREN_SIZE];
	char *next = text, *word;
	uint64_t child;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	if (fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	while ((word = strsep(&next, " ")) != NULL) {
		char state = '\0';

		if (parse_u64(word, INT32_MAX, &child) == 0)
			state = read_state((pid_t)child);
		if (state == 'R' || state == 'D' || state == 't')
			return true;
	}
	return false;
}
