// SPDX-License-Identifier: Apache-2.0
/*
 * There is no descriptor to watch, and SIGCHLD would report all children, so the group is polled as
 * long as it has members. A child that is watched elsewhere and dies before it has left the group
 * may be reaped here; its watcher still learns of the end (loop.h).
 */
#include "engine/guest/spawner_orphan.h"

#include <sys/wait.h>

#define FIRST_US 2000U
#define MOST_US  1000000U

struct spawner_orphan {
	struct list link;
	struct loop_timer *timer;
	pid_t group;
	uint64_t again_us;
};

static void spawner_orphan_free(struct spawner_orphan *s)
{
	list_remove(&s->link);
	loop_timer_free(s->timer);
	free(s);
}

static void reap(struct loop *loop, void *arg)
{
	struct spawner_orphan *s = arg;
	siginfo_t info = {.si_pid = -1};
	int r = 0;

	(void)loop;
	while (r == 0 && info.si_pid != 0) {
		info.si_pid = 0;
		r = waitid(P_PGID, (id_t)s->group, &info, WEXITED | WNOHANG);
	}
	if (r < 0) {
		spawner_orphan_free(s);
		return;
	}
	s->again_us = MIN(s->again_us * 2, (uint64_t)MOST_US);
	loop_timer_set_in(s->timer, s->again_us);
}

void spawner_orphan_watch(struct list *orphans, struct loop *loop, pid_t group)
{
	struct spawner_orphan *s = xnew0(struct spawner_orphan);

	s->group = group;
	s->again_us = FIRST_US;
	s->timer = loop_timer_new(loop, reap, s);
	loop_timer_set_in(s->timer, FIRST_US);
	list_append(orphans, &s->link);
}

void spawner_orphan_done(struct list *orphans)
{
	struct spawner_orphan *s;

	while ((s = list_first(orphans, struct spawner_orphan, link)))
		spawner_orphan_free(s);
}
