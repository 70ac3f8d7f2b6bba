// SPDX-License-Identifier: Apache-2.0
/* What the wall tells of its own accord. Its word is not taken as it is. */
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_private.h"
#include "sandbox/network/network_decision.h"
#include "sandbox/network/network_private.h"
#include "wall/client.h"

#include <string.h>

#define LEARNT_MAX 4096                /* that a wall which lies can have written of one policy */
#define BYTES_MAX  (UINT64_C(1) << 50) /* that a wall which lies can charge at once */

bool network_may_learn(struct sandbox *s)
{
	return s->network && s->network->n_learnt++ < LEARNT_MAX;
}

static void note_denied(struct network *n, const char *text)
{
	struct host host;
	const char *why;

	n->denied[0] = '\0';
	if (host_parse(text, strlen(text), &host, &why) == 0)
		host_format(&host, n->denied);
}

const char *network_denied(const struct sandbox *s)
{
	return s->network && s->network->denied[0] ? s->network->denied : NULL;
}

static void on_decision(const struct wall_decision *d, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox *s = fleet_find_id(fleet, d->head.id);

	if (!s)
		return;
	network_note_decision(s, d);
	if (s->network && d->verdict == WALL_DENIED)
		note_denied(s->network, d->name[0] ? d->name : d->address);
}

static void on_bytes(const char *id, uint64_t in_bytes, uint64_t out_bytes, void *arg)
{
	struct sandbox *s = fleet_find_id(arg, id);

	if (s)
		sandbox_count_network(s, MIN(in_bytes, BYTES_MAX), MIN(out_bytes, BYTES_MAX));
}

/* The listeners of all doors vanished with the old wall. */
static void on_attached(void *arg)
{
	struct fleet *fleet = arg;

	groups_tell_all(fleet);
	list_for_each (&fleet->all, struct sandbox, s, link_all) {
		if (!s->network || !s->network->is_open)
			continue;
		s->network->is_open = false;
		s->network->applied = 0;
		door_step(s->network);
	}
}

static void on_dial(const struct wall_dial *d, void *arg)
{
	group_on_dial(arg, d);
}

const struct wall_ops network_wall_ops = {
	.on_decision = on_decision,
	.on_bytes = on_bytes,
	.on_attached = on_attached,
	.on_dial = on_dial,
};
