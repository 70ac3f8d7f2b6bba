// SPDX-License-Identifier: Apache-2.0
/*
 * A connection to another member of the sandbox's group. The wall cannot reach into a sandbox, and
 * has no right to: it asks the gateway, which checks by its own table that both are in one group,
 * wakes the member if a call would, and has the broker or the agent dial. What comes back is a
 * connected socket, or why not.
 *
 *	dialled 198.18.2.N --> WALL_DIAL --> (gateway) --> WALL_DIALLED --> pumped
 *
 * The policy says what is outside; a member is reached whatever it says. What limits connections
 * and their speed holds for these as for all, at both ends. A member may have as many connections
 * from one other as are left free, so that one which takes all it can get leaves room for others.
 */
#include "base/units.h"
#include "wall/conn_private.h"
#include "wall/group/group.h"

#include <stdio.h>
#include <string.h>

#define ANSWER_US      (60 * SECOND_US) /* a member may have to wake */
#define DIALS_A_SECOND 200
#define DIALS_AT_ONCE  400

static struct conn *find_dial(const struct doors *all, uint64_t tag)
{
	struct conn *c = NULL;

	HASH_FIND(hh_dial, all->dials, &tag, sizeof(tag), c);
	return c;
}

static void forget_dial(struct conn *c)
{
	struct doors *all = c->door->all;

	if (c->dial_tag == 0)
		return;
	HASH_DELETE(hh_dial, all->dials, c);
	c->dial_tag = 0;
}

void conn_leave_member(struct conn *c)
{
	struct group_member *m = c->member[0] ? group_find_id(c->door->all, c->member) : NULL;

	forget_dial(c);
	if (m)
		m->n_conns--;
}

static size_t count_to(const struct door *door, const char *member)
{
	size_t n = 0;

	list_for_each (&door->conns, const struct conn, c, link)
		n += strcmp(c->member, member) == 0;
	return n;
}

static bool has_share(const struct conn *c, const struct group_member *m)
{
	const size_t most = c->door->all->connections_max;

	return m->n_conns < most && count_to(c->door, m->id) < most - m->n_conns;
}

static void ask(struct conn *c)
{
	struct doors *all = c->door->all;
	struct wall_dial message = {
		.head = {.magic = WALL_MAGIC, .op = WALL_DIAL},
		.port = c->port,
	};

	memcpy(message.head.id, c->door->id, sizeof(message.head.id));
	memcpy(message.member, c->member, sizeof(message.member));
	message.head.tag = c->dial_tag = ++all->last_dial;
	HASH_ADD(hh_dial, all->dials, dial_tag, sizeof(c->dial_tag), c);
	loop_timer_set_in(c->timer, ANSWER_US);
	if (all->send(&message, sizeof(message), all->send_arg) < 0)
		conn_reset(c, WALL_FAILED, "the gateway is busy");
}

bool conn_begin_member(struct conn *c)
{
	struct group_member *m = group_find_address(c->door, &c->dialled);

	if (!m)
		return false;
	c->is_made_up = true;
	c->name = m->alias;
	c->name_state = NAME_KNOWN;
	c->protocol = PROTOCOL_OTHER;
	if (!bucket_take(&c->door->dial_rate, loop_now_us(c->door->all->loop), DIALS_A_SECOND,
	                 DIALS_AT_ONCE)) {
		conn_reset(c, WALL_DENIED, "it connects too often");
	} else if (!has_share(c, m)) {
		conn_reset(c, WALL_DENIED, "the member has too many connections");
	} else {
		memcpy(c->member, m->id, sizeof(c->member));
		m->n_conns++;
		ask(c);
	}
	return true;
}

void conn_on_dialled(struct doors *all, uint64_t tag, int error, const char *why, int *fd)
{
	struct conn *c = find_dial(all, tag);

	if (!c)
		return; /* it has ended meanwhile */
	forget_dial(c);
	if (error == 0 && *fd >= 0)
		conn_pump(c, take_fd(fd));
	else
		conn_reset(c, error == EACCES ? WALL_DENIED : WALL_FAILED, why);
}

bool conn_member_is_allowed(const struct conn *c)
{
	const struct group_member *m = group_find_id(c->door->all, c->member);
	const struct group_member *own = group_find_id(c->door->all, c->door->id);

	return m && own && m->group == own->group;
}

void conn_count_member(const struct conn *c, uint64_t in_bytes, uint64_t out_bytes)
{
	struct door *to = c->member[0] ? doors_find(c->door->all, c->member) : NULL;

	if (to)
		door_count(to, out_bytes, in_bytes);
}
