// SPDX-License-Identifier: Apache-2.0
/*
 * A watched child is reaped in the turn of the loop that reports its end. So a child that is found
 * dead at two looks, with many turns between them, is watched by nobody.
 */
#include "engine/linux/unknown_children.h"

#include "base/log.h"

#include <sys/wait.h>

#define LOOK_EVERY_US 500000U
#define LOOK_FOR_US   60000000U

static void look(struct loop *loop, void *arg)
{
	struct unknown_children *u = arg;
	siginfo_t info = {0};
	int r = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL);

	if (r == 0 && info.si_pid != 0 && info.si_pid == u->seen) {
		(void)waitid(P_PID, (id_t)u->seen, &info, WEXITED | WNOHANG | __WALL);
		log_info("jail.unknown_child", "pid=%d", (int)u->seen);
		u->seen = 0;
	} else {
		u->seen = r == 0 ? info.si_pid : 0;
	}
	if (u->seen != 0 || loop_now_us(loop) < u->until_us)
		loop_timer_set_in(u->timer, LOOK_EVERY_US);
}

void unknown_children_expect(struct unknown_children *u, struct loop *loop)
{
	if (!u->timer)
		u->timer = loop_timer_new(loop, look, u);
	if (loop_now_us(loop) >= u->until_us)
		loop_timer_set_in(u->timer, LOOK_EVERY_US);
	u->until_us = loop_now_us(loop) + LOOK_FOR_US;
}

void unknown_children_done(struct unknown_children *u)
{
	loop_timer_free(u->timer);
	*u = (struct unknown_children){0};
}
