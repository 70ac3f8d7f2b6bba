// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox dials another of its group: the wall asks, and gets a connected socket or why not.
 *
 *	asked --> (the member wakes) --> its port is dialled --> the socket is the wall's
 *
 * The wall is not trusted to know who is in which group: that is looked up here, before the member
 * is woken and again before it is dialled. A wall that lies can connect members of groups, but no
 * other sandbox. The socket is handed over. From then on the wall ends it, or the member's end
 * does. A member is woken if a call would wake it; one that somebody paused stays paused.
 *
 * Port 53 of a sandbox leads to its own door, which judges names by the policy of that sandbox. So
 * nobody else can reach it.
 */
#include "base/fd.h"
#include "net/match/url.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_private.h"
#include "sandbox/network/port.h"
#include "wall/client.h"

#include <string.h>

#define DIALS_MAX 1024 /* under way, of all groups */
#define DNS_PORT  53

struct group_dial {
	struct fleet *fleet;
	uint64_t tag; /* the wall's */
	char from[ID_SIZE], to[ID_SIZE];
	uint16_t port;
	struct port_connection *line;
};

static void answer(struct group_dial *d, int fd, int errnum, const char *why)
{
	wall_client_dialled(d->fleet->config.wall, d->tag, fd, errnum, why);
	port_connection_close(d->line);
	d->fleet->n_group_dials--;
	free(d);
}

static void answer_err(struct group_dial *d, const struct err *err)
{
	answer(d, -1, err->errnum ? err->errnum : EIO,
	       err->errnum == ECONNREFUSED ? "nothing listens on that port of the member"
	       : err->code == ERR_LIMIT    ? "too many connections to the member begin"
	       : err->code == ERR_CONFLICT ? "the member is paused"
	       : err->code == ERR_GONE     ? "the member has ended"
	                                   : "the member cannot be reached");
}

static void on_open(int fd, void *arg)
{
	answer(arg, fd, 0, "");
	(void)close(fd); /* the wall has its own */
}

static void on_cut(const struct err *err, void *arg)
{
	answer_err(arg, err);
}

/* NULL: they are in no group together, any more. */
static struct sandbox *find_member(const struct group_dial *d)
{
	struct sandbox *from = fleet_find_id(d->fleet, d->from);
	struct sandbox *to = fleet_find_id(d->fleet, d->to);

	return from && to && group_has_both(from, to) ? to : NULL;
}

static void dial(struct group_dial *d)
{
	static const struct port_connection_ops ops = {.on_open = on_open, .on_cut = on_cut};
	struct sandbox *to = find_member(d);
	struct err err;

	if (!to)
		answer(d, -1, EACCES, "it is no member of the group");
	else if (port_connection_open(to, d->port, &ops, d, &d->line, &err) < 0)
		answer_err(d, &err);
}

static void on_awake(struct sandbox *s, const struct err *err, void *arg)
{
	if (s)
		dial(arg);
	else
		answer_err(arg, err);
}

const struct sandbox *network_member_at(const struct sandbox *s, const char *url)
{
	const char *why;
	struct url u;

	if (url_parse(url, strlen(url), &u, &why) < 0 || !u.host.is_name || u.port == DNS_PORT)
		return NULL;
	return group_find_other(s, u.host.name.text);
}

void group_on_dial(struct fleet *fleet, const struct wall_dial *message)
{
	struct group_dial *d = xnew0(struct group_dial);
	struct sandbox *to;
	struct err err;

	d->fleet = fleet;
	d->tag = message->head.tag;
	d->port = message->port;
	memcpy(d->from, message->head.id, sizeof(d->from));
	memcpy(d->to, message->member, sizeof(d->to));
	fleet->n_group_dials++;
	to = find_member(d);
	if (!to)
		answer(d, -1, EACCES, "it is no member of the group");
	else if (d->port == DNS_PORT || d->port == 0)
		answer(d, -1, EACCES, "that port of a member cannot be reached");
	else if (fleet->n_group_dials > DIALS_MAX)
		answer(d, -1, EBUSY, "too many connections between members begin");
	else if (to->state != SANDBOX_CREATING && !sandbox_wakes_by_call(to))
		dial(d);
	else if (sandbox_resume(to, on_awake, d, &err) < 0)
		answer_err(d, &err);
}
