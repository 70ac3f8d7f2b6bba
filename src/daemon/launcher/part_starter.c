// SPDX-License-Identifier: Apache-2.0
#include "daemon/launcher/part_starter.h"

#include <string.h>
#include <unistd.h>

enum { JOB_PART, JOB_TRY, JOB_KEEP, JOB_UNDO, JOB_COUNT };

/* Of the gateway's fds, where there is one more than without. */
static int member_of(const struct starter_order *given)
{
	return given->n_fds == PART_STARTER_FDS_MAX ? given->fds[3] : -1;
}

/* Runs in a new process, which is that part from now on. */
static int run_part(const struct starter_order *given, void *arg)
{
	const struct part_starter *p = arg;
	const int *fds = given->fds;
	struct part_order order;

	if (given->len != sizeof(order) || given->n_fds < 2)
		_exit(CHILD_FAILED);
	memcpy(&order, given->data, sizeof(order));
	switch (order.part) {
	case CHILD_BROKER:
		_exit(broker_main(p->site, fds[0], fds[1]));
	case CHILD_DIALER:
		_exit(dialer_main(p->site, fds[0], fds[1]));
	case CHILD_WALL:
		_exit(wall_main(p->site, fds[0], fds[1]));
	case CHILD_MEMBER:
		_exit(member_main(p->site, fds[0], fds[1]));
	case CHILD_GATEWAY:
		if (given->n_fds < PART_STARTER_FDS_MAX - 1)
			break;
		_exit(gateway_main(p->site, &(struct gateway_fds){.broker = fds[0],
		                                                  .dialer = fds[1],
		                                                  .wall = fds[2],
		                                                  .member = member_of(given),
		                                                  .key = fds[given->n_fds - 2],
		                                                  .control = fds[given->n_fds - 1],
		                                                  .lost = order.lost}));
	}
	_exit(CHILD_FAILED);
}

static int run_try(const struct starter_order *given, void *arg)
{
	const struct part_starter *p = arg;
	struct err err;

	(void)given;
	return reload_try(p->reload, &err);
}

static int run_keep(const struct starter_order *given, void *arg)
{
	const struct part_starter *p = arg;

	(void)given;
	(void)reload_keep(p->reload);
	return 0;
}

static int run_undo(const struct starter_order *given, void *arg)
{
	const struct part_starter *p = arg;

	(void)given;
	(void)reload_undo(p->reload);
	return 0;
}

int part_starter_open(struct part_starter *p, struct loop *loop, loop_fn lost, void *arg)
{
	const struct starter_job jobs[JOB_COUNT] = {
		[JOB_PART] = {.run = run_part, .arg = p},
		[JOB_TRY] = {.run = run_try, .arg = p, .is_here = true},
		[JOB_KEEP] = {.run = run_keep, .arg = p, .is_here = true},
		[JOB_UNDO] = {.run = run_undo, .arg = p, .is_here = true},
	};
	/* Readers of these fds must see only the launcher's end. */
	const int shed[] = {p->site->config->ready_fd, p->site->config->life_fd};
	const struct starter_spec spec = {.name = "cloche-starter",
	                                  .jobs = jobs,
	                                  .n_jobs = ARRAY_SIZE(jobs),
	                                  .lost = lost,
	                                  .arg = arg,
	                                  .shed = shed,
	                                  .n_shed = ARRAY_SIZE(shed)};

	return starter_new(loop, &spec, &p->starter);
}

void part_starter_close(struct part_starter *p)
{
	starter_free(p->starter);
	p->starter = NULL;
}

int part_starter_start(struct part_starter *p, const struct part_order *order, pid_t *ret_pid,
                       int *ret_pidfd)
{
	return starter_ask(p->starter, JOB_PART,
	                   &(struct starter_order){.data = order,
	                                           .len = sizeof(*order),
	                                           .fds = order->fds,
	                                           .n_fds = order->n_fds},
	                   ret_pid, ret_pidfd);
}

static int ask(struct part_starter *p, size_t job)
{
	return starter_ask(p->starter, job, &(struct starter_order){0}, NULL, NULL);
}

int part_starter_try(struct part_starter *p, struct err *err)
{
	int r = reload_try(p->reload, err);

	if (r < 0)
		return r;
	r = ask(p, JOB_TRY);
	if (r == 0)
		return 0;
	(void)reload_undo(p->reload);
	return err_set(err, ERR_INTERNAL, -r, "the starter cannot read the settings");
}

/* A starter that cannot be asked is dead, and the daemon ends. */
bool part_starter_keep(struct part_starter *p)
{
	return reload_keep(p->reload) && ask(p, JOB_KEEP) <= 0;
}

bool part_starter_undo(struct part_starter *p)
{
	return reload_undo(p->reload) && ask(p, JOB_UNDO) <= 0;
}
