// SPDX-License-Identifier: Apache-2.0
#include "engine/guest/guest.h"

#include "base/log.h"
#include "engine/vm/ask.h"

#include <assert.h>

/* clang-format off */
static const struct {
	const char *name;
	unsigned next;   /* states */
	unsigned events; /* that may arrive */
} states[] = {
	[GUEST_WAITING] = {"waiting", BIT(GUEST_STARTING) | BIT(GUEST_DYING), 0},
	[GUEST_STARTING] = {"starting", BIT(GUEST_RUNNING) | BIT(GUEST_DYING),
	                    BIT(GUEST_EXIT) | BIT(GUEST_STATUS) | BIT(GUEST_TIMER) | BIT(GUEST_WORKER)},
	[GUEST_RUNNING] = {"running", BIT(GUEST_ENDED) | BIT(GUEST_DYING), BIT(GUEST_EXIT)},
	[GUEST_ENDED] = {"ended", BIT(GUEST_DYING), 0},
	[GUEST_DYING] = {"dying", BIT(GUEST_GROUPS), BIT(GUEST_EXIT) | BIT(GUEST_TIMER) | BIT(GUEST_WORKER)},
	[GUEST_GROUPS] = {"groups", BIT(GUEST_LAYER), BIT(GUEST_TIMER)},
	[GUEST_LAYER] = {"layer", BIT(GUEST_DIRECTORY), BIT(GUEST_TIMER) | BIT(GUEST_WORKER)},
	[GUEST_DIRECTORY] = {"directory", BIT(GUEST_GONE) | BIT(GUEST_STARTING) | BIT(GUEST_LAYER),
	                     BIT(GUEST_TIMER)},
	[GUEST_GONE] = {"gone", 0, 0},
	[GUEST_FOREIGN] = {"foreign", 0, 0},
};
/* clang-format on */
static_assert(ARRAY_SIZE(states) == GUEST_STATE_COUNT, "a state has no row");

bool guest_expects(const struct guest *g, enum guest_event event)
{
	static const char *const names[] = {[GUEST_EXIT] = "exit",
	                                    [GUEST_STATUS] = "status",
	                                    [GUEST_TIMER] = "timer",
	                                    [GUEST_WORKER] = "worker"};

	if (states[g->state].events & BIT(event))
		return true;
	log_error("jail.unexpected", "id=%s state=%s event=%s", g->spec.id, states[g->state].name,
	          names[event]);
	return false;
}

void guest_move(struct guest *g, enum guest_state next)
{
	assert(states[g->state].next & BIT(next));
	loop_timer_set(g->timer, UINT64_MAX);
	g->on_time = NULL;
	g->state = next;
}

bool guest_is_removing(const struct guest *g)
{
	return g->state >= GUEST_DYING && g->state <= GUEST_GONE;
}

static void on_timer(struct loop *loop, void *arg)
{
	struct guest *g = arg;
	void (*on_time)(struct guest * g) = take_ptr(g->on_time);

	(void)loop;
	if (guest_expects(g, GUEST_TIMER) && on_time)
		on_time(g);
}

void guest_arm(struct guest *g, uint64_t in_us, void (*on_time)(struct guest *g))
{
	g->on_time = on_time;
	loop_timer_set_in(g->timer, in_us);
}

bool guest_take_worker(struct guest *g)
{
	g->worker = NULL;
	if (!guest_expects(g, GUEST_WORKER))
		return false;
	if (g->state != GUEST_DYING)
		return true;
	guest_proceed_removal(g);
	return false;
}

struct guest *guest_new(const struct guest_spec *spec, enum guest_state state)
{
	struct guest *g = xnew0(struct guest);

	g->spec = *spec;
	g->state = state;
	g->status_fd = g->dir_fd = g->machine_view_fd = g->tap_fd = -1;
	g->retry_us = GUEST_RETRY_US;
	g->cpu_weight = state == GUEST_RUNNING ? 0 : WEIGH_USUAL; /* one is adopted, or new */
	g->timer = loop_timer_new(jail_host.loop, on_timer, g);
	list_append(&jail_host.guests, &g->link);
	return g;
}

void guest_free(struct loop *loop, void *arg)
{
	struct guest *g = arg;

	(void)loop;
	weigh_leave(&jail_host.weigh, g);
	loop_timer_free(g->timer);
	guest_drop_start(g);
	ask_end(g->off);
	close_fd(&g->status_fd);
	close_fd(&g->dir_fd);
	close_fd(&g->machine_view_fd);
	close_fd(&g->tap_fd);
	free(g);
}
