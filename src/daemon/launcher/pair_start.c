// SPDX-License-Identifier: Apache-2.0
/*
 * Starts the parts, all or one, with the sockets between them. Each has one to the gateway and one
 * to the launcher.
 */
#include "base/fd.h"
#include "daemon/launcher/launcher_private.h"

#include <assert.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define START_MAX_US (1800 * SECOND_US) /* of parts that are busy all the time */

struct pair_fds {
	int link[ROLE_GATEWAY][2]; /* each role's, the gateway's */
	int control[2];            /* ours, the child's */
	int key;
};
static_assert(ROLE_GATEWAY == ROLE_COUNT - 1, "all others have a link to it");

static const struct pair_fds no_fds = {
	.link = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}, .control = {-1, -1}, .key = -1};

bool launcher_has_role(const struct launcher *l, enum role role)
{
	return role != ROLE_MEMBER || l->site->member_fd >= 0;
}

static int make_link(struct pair_fds *fds, enum role role, struct err *err)
{
	/* The sockets of the other parts may block. */
	int flags = SOCK_CLOEXEC | (role == ROLE_BROKER ? SOCK_NONBLOCK : 0);

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | flags, 0, fds->link[role]) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	return 0;
}

static void close_all(const struct pair_fds *fds)
{
	for (size_t i = 0; i < ROLE_GATEWAY; i++)
		for (size_t k = 0; k < 2; k++)
			if (fds->link[i][k] >= 0)
				(void)close(fds->link[i][k]);
	if (fds->key >= 0)
		(void)close(fds->key);
}

static struct part_order order_of(const struct launcher *l, enum role role,
                                  const struct pair_fds *fds)
{
	struct part_order order = {
		.part = launcher_roles[role].letter, .lost = l->lost, .n_fds = 2};

	if (role == ROLE_GATEWAY) {
		order.n_fds = 0;
		for (size_t i = 0; i < ROLE_GATEWAY; i++)
			if (launcher_has_role(l, (enum role)i))
				order.fds[order.n_fds++] = fds->link[i][1];
		order.fds[order.n_fds] = fds->key;
		order.n_fds += 2;
	} else {
		order.fds[0] = fds->link[role][0];
	}
	order.fds[order.n_fds - 1] = fds->control[1];
	return order;
}

static int start_child(struct launcher *l, enum role role, struct pair_fds *fds, struct err *err)
{
	struct child *c = &l->children[role];
	struct part_order order;
	int pidfd, r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds->control) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a socket pair");
	order = order_of(l, role, fds);
	r = part_starter_start(&l->starter, &order, &c->pid, &pidfd);
	(void)close(fds->control[1]);
	c->control_fd = fds->control[0];
	c->started_us = loop_now_us(l->loop);
	c->watchdog = (struct watchdog){0};
	c->start_look = (struct watchdog_look){0};
	c->is_stuck = false;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot start the %s",
		               launcher_roles[role].name);
	r = loop_child_add(l->loop, pidfd, launcher_on_child_end, c, &c->watch);
	if (r == 0)
		r = loop_io_add(l->loop, c->control_fd, EPOLLIN, launcher_on_control, c,
		                &c->control_io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch the %s",
	                       launcher_roles[role].name)
	             : 0;
}

/* Starts a successor of a part that died alone. */
void launcher_on_rest_end(struct loop *loop, void *arg)
{
	struct child *c = arg;
	struct launcher *l = c->launcher;
	struct child_loss lost = launcher_loss_of(c);
	struct pair_fds fds = no_fds;
	struct err err;
	int r;

	(void)loop;
	if (l->phase != PHASE_UP || c->watch)
		return;
	r = make_link(&fds, c->role, &err);
	if (r == 0)
		r = start_child(l, c->role, &fds, &err);
	if (r == 0 && fd_send(l->children[ROLE_GATEWAY].control_fd, &lost, sizeof(lost),
	                      &fds.link[c->role][1], 1) < 0)
		log_warn("daemon.child_not_informed", "name=%s", launcher_roles[c->role].name);
	close_all(&fds);
	if (r < 0) {
		log_error("daemon.start_failed", "name=%s error='%s'", launcher_roles[c->role].name,
		          err.message);
		loop_timer_set_in(c->rest, SECOND_US);
	}
}

void launcher_start_pair(struct launcher *l)
{
	struct pair_fds fds = no_fds;
	struct err err;
	int r = 0;

	l->started_us = loop_now_us(l->loop);
	l->looked_us = l->started_us;
	l->idle_us = 0;
	l->was_killed = false;
	launcher_move(l, PHASE_STARTING, START_MAX_US);
	loop_timer_set_in(l->look, launcher_next_look_us(l));
	for (size_t i = 0; r == 0 && i < ROLE_GATEWAY; i++)
		if (launcher_has_role(l, (enum role)i))
			r = make_link(&fds, (enum role)i, &err);
	if (r == 0)
		r = site_open_key(l->site, &fds.key, &err);
	for (size_t i = 0; r == 0 && i < ROLE_COUNT; i++)
		if (launcher_has_role(l, (enum role)i))
			r = start_child(l, (enum role)i, &fds, &err);
	close_all(&fds);
	if (r < 0) { /* no fds or processes: a broker that did start sees its gateway gone */
		log_error("daemon.start_failed", "error='%s'", err.message);
		launcher_keep_err(l, &err);
		if (!launcher_is_running(l))
			launcher_on_pair_gone(l);
	}
}
