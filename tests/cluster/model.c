// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#define AHEAD_SHARE 8 /* of what is left, a node is given at most so much more than it needs */

const char *const breakage_names[BREAK_COUNT] = {
	[BREAK_NOTHING] = "nothing",
	[BREAK_MARGIN] = "margin",
	[BREAK_SENT] = "sent",
	[BREAK_SERVER] = "server",
	[BREAK_DATABASE_CLOCK] = "database-clock",
	[BREAK_NEWEST] = "newest",
	[BREAK_EPOCH] = "epoch",
	[BREAK_LOST] = "lost",
	[BREAK_NUMBERS] = "numbers",
	[BREAK_GRANT] = "grant",
	[BREAK_LIMIT] = "limit",
	[BREAK_NAME] = "name",
};

void model_init(struct model *db, uint32_t n_nodes, uint32_t n_projects, uint32_t n_names)
{
	*db = (struct model){.server = 1,
	                     .is_up = true,
	                     .n_nodes = n_nodes,
	                     .n_projects = n_projects,
	                     .n_names = n_names,
	                     .nodes = xnew0n(struct model_node, n_nodes + 1),
	                     .leases =
	                             xnew0n(struct model_lease, (size_t)(n_nodes + 1) * n_projects),
	                     .projects = xnew0n(struct model_project, n_projects),
	                     .names = xnew0n(struct model_name, n_names + 1)};
}

void model_done(struct model *db)
{
	free(db->nodes);
	free(db->leases);
	free(db->projects);
	free(db->names);
}

struct model_lease *model_lease_of(struct model *db, uint32_t node, uint32_t project)
{
	return &db->leases[(size_t)node * db->n_projects + project];
}

static void store_beat(struct model_node *n, uint64_t now_us)
{
	n->stored[n->n_stored++ % MODEL_BEATS] =
		(struct model_beat){.at_us = now_us, .epoch = n->epoch, .number = n->number};
}

static bool is_epoch(const struct model *db, uint32_t node, uint64_t epoch)
{
	return db->nodes[node].has_joined && db->nodes[node].epoch == epoch;
}

static void free_leases(struct model *db, uint32_t node)
{
	for (uint32_t p = 0; p < db->n_projects; p++) {
		struct model_lease *l = model_lease_of(db, node, p);

		db->projects[p].leased -= l->amount;
		*l = (struct model_lease){0};
	}
}

static void free_names(struct model *db, uint32_t node)
{
	for (uint32_t i = 1; i <= db->n_names; i++) {
		if (db->names[i].node == node)
			db->names[i] = (struct model_name){0};
	}
}

uint64_t model_join(struct model *db, uint32_t node, uint64_t epoch, uint64_t number,
                    uint64_t now_us, bool is_fresh)
{
	struct model_node *n = &db->nodes[node];

	if (n->epoch != epoch)
		return 0;
	n->epoch++;
	n->number = number;
	n->name_number = 0;
	n->is_lost = n->is_claimed = false;
	n->has_joined = true;
	n->n_stored = 0; /* a join waits for the disk */
	store_beat(n, now_us);
	if (is_fresh) {
		free_leases(db, node);
		free_names(db, node);
	}
	for (uint32_t p = 0; p < db->n_projects; p++)
		model_lease_of(db, node, p)->number = 0;
	return n->epoch;
}

bool model_beat(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint64_t now_us)
{
	struct model_node *n = &db->nodes[node];

	if (!is_epoch(db, node, epoch))
		return false;
	if (number > n->number) {
		n->number = number;
		store_beat(n, now_us);
	}
	return true;
}

static uint64_t granted(const struct model *db, const struct model_project *p, uint64_t has,
                        const struct lease_call *call)
{
	uint64_t left = p->limit > p->leased ? p->limit - p->leased : 0;
	uint64_t need = call->least > has ? call->least - has : 0;
	uint64_t more = MIN(need, left);

	if (db->breakage == BREAK_LIMIT)
		return call->total;
	left -= more;
	if (call->total > has + more)
		more += MIN(call->total - has - more, left / AHEAD_SHARE);
	return has + more;
}

int model_lease(struct model *db, uint32_t node, uint64_t epoch, uint32_t project,
                const struct lease_call *call, uint64_t *ret_total)
{
	struct model_lease *l = model_lease_of(db, node, project);
	struct model_project *p = &db->projects[project];
	uint64_t total = call->total;

	if (!is_epoch(db, node, epoch))
		return -ESTALE;
	if (call->number <= l->number && db->breakage != BREAK_NUMBERS)
		return -ESTALE;
	l->number = call->number;
	if (total > l->amount) {
		total = granted(db, p, l->amount, call);
		p->is_wanted = total < call->least;
	}
	p->leased += total - l->amount;
	l->amount = total;
	*ret_total = total;
	return 0;
}

int model_name(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint32_t name,
               uint32_t sandbox)
{
	if (!is_epoch(db, node, epoch) || number <= db->nodes[node].name_number)
		return -ESTALE;
	db->nodes[node].name_number = number;
	if (db->names[name].sandbox != 0)
		return db->names[name].sandbox == sandbox ? 0 : -EEXIST;
	db->names[name] = (struct model_name){.sandbox = sandbox, .node = node};
	return 0;
}

bool model_name_free(struct model *db, uint32_t node, uint64_t epoch, uint64_t number,
                     uint32_t name, uint32_t sandbox)
{
	if (!is_epoch(db, node, epoch))
		return false;
	db->nodes[node].name_number = MAX(db->nodes[node].name_number, number);
	if (db->names[name].sandbox == sandbox && db->names[name].node == node)
		db->names[name] = (struct model_name){0};
	return true;
}

static bool is_as_seen(const struct model *db, uint32_t node, uint64_t epoch, uint64_t number,
                       uint64_t server)
{
	const struct model_node *n = &db->nodes[node];

	if (!is_epoch(db, node, epoch) || n->is_lost)
		return false;
	return db->breakage == BREAK_NEWEST ||
	       (n->number == number && (db->server == server || db->breakage == BREAK_SERVER));
}

bool model_claim(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint64_t server)
{
	if (!is_as_seen(db, node, epoch, number, server))
		return false;
	/* Once: each new epoch begins the count of who watches anew. */
	if (db->breakage != BREAK_EPOCH && !db->nodes[node].is_claimed)
		db->nodes[node].epoch++;
	db->nodes[node].is_claimed = true;
	if (db->breakage == BREAK_NAME)
		free_names(db, node);
	return true;
}

bool model_lose(struct model *db, uint32_t node, uint64_t epoch, uint64_t number, uint64_t server)
{
	if (!is_as_seen(db, node, epoch, number, server))
		return false;
	db->nodes[node].epoch++;
	db->nodes[node].is_lost = true;
	free_leases(db, node);
	free_names(db, node);
	return true;
}

uint64_t model_own(struct model *db, uint32_t from, uint32_t to, uint64_t number, uint32_t project,
                   uint64_t n)
{
	struct model_lease *old = model_lease_of(db, from, project);
	struct model_lease *l = model_lease_of(db, to, project);

	if (n > old->amount) /* never, unless something is broken on purpose */
		n = old->amount;
	old->amount -= n;
	l->amount += n;
	l->number = number;
	return l->amount;
}

void model_promote(struct model *db, uint64_t now_us, uint64_t lag_us)
{
	db->server++;
	for (uint32_t i = 1; i <= db->n_nodes; i++) {
		struct model_node *n = &db->nodes[i];
		unsigned oldest = n->n_stored > MODEL_BEATS ? n->n_stored - MODEL_BEATS + 1 : 1;

		/* The first behind a join stays, and one that is left of the ring. */
		while (n->n_stored > oldest &&
		       n->stored[(n->n_stored - 1) % MODEL_BEATS].at_us + lag_us > now_us)
			n->n_stored--;
		if (n->n_stored && n->stored[(n->n_stored - 1) % MODEL_BEATS].epoch == n->epoch)
			n->number = n->stored[(n->n_stored - 1) % MODEL_BEATS].number;
	}
}
