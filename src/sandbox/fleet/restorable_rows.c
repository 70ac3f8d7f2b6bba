// SPDX-License-Identifier: Apache-2.0
/*
 * What the cluster's rows say of sandboxes that outlive their node (node/owned.h): which are here
 * and are another node's by now, and which are this node's and not here.
 */
#include "base/clock.h"
#include "base/log.h"
#include "node/owned.h"
#include "sandbox/fleet/fleet_private.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/usage/account.h"

#include <string.h>

#define STRAY_MS (UINT64_C(7) * 24 * 60 * 60 * 1000)

struct restorable_stray {
	struct fleet *fleet;
	char id[ID_SIZE];
};

static bool may_take(void *arg)
{
	const struct fleet *fleet = arg;
	const struct fleet_config *c = &fleet->config;

	return !fleet->is_draining && (!c->is_cordoned || !c->is_cordoned(c->is_cordoned_arg));
}

static bool has(const char *id, void *arg)
{
	const struct sandbox *s = fleet_find_id(arg, id);

	return s && s->place != PLACE_ENDED;
}

static void each(void (*fn)(const char *id, uint64_t term, void *fn_arg), void *fn_arg, void *arg)
{
	const struct fleet *fleet = arg;

	list_for_each (&fleet->all, struct sandbox, s, link_all)
		if (s->outlive.is_asked && s->place != PLACE_ENDED && s->state != SANDBOX_STOPPING)
			fn(s->id, s->outlive.term, fn_arg);
}

static void learn(const char *id, uint64_t term, const char *generation, void *arg)
{
	struct sandbox *s = fleet_find_id(arg, id);

	if (!s)
		return;
	s->outlive.term = term;
	(void)snprintf(s->outlive.generation, sizeof(s->outlive.generation), "%s", generation);
	sandbox_note(s);
}

static void on_left(struct sandbox *s, const struct err *err, void *arg)
{
	(void)err;
	(void)arg;
	if (s && !sandbox_is_alive(s) && !s->is_kept)
		sandbox_forget(s); /* its id leads to the other node from here on */
}

static void leave(struct sandbox *s)
{
	s->outlive.is_asked = false;
	sandbox_delete(s, END_NODE_LOST, on_left, NULL);
}

static void on_stray(struct snapshot *sn, const struct err *err, void *arg)
{
	const struct restorable_stray b = *(struct restorable_stray *)arg;
	struct sandbox *s = fleet_find_id(b.fleet, b.id);

	free(arg);
	if (sn)
		log_warn("sandbox.stray", "id=%s snapshot=%s", b.id, sn->id);
	else
		log_warn("sandbox.stray_lost", "id=%s error='%s'", b.id, err->message);
	if (s && s->outlive.is_leaving && s->state != SANDBOX_STOPPING)
		leave(s);
}

/* What has been written here since the generation that the other node goes on with stays for a
 * while, as a snapshot. */
static bool keep_stray(struct sandbox *s)
{
	const struct snapshot_wish wish = {.expires_in_ms = STRAY_MS};
	struct restorable_stray *b;
	struct err err;

	if (restorable_has_rested(s) || s->outlive.origin[0])
		return false;
	b = xnew0(struct restorable_stray);
	b->fleet = s->fleet;
	memcpy(b->id, s->id, sizeof(b->id));
	if (snapshot_take(s, &wish, on_stray, b, &err) == 0)
		return true;
	log_warn("sandbox.stray_lost", "id=%s error='%s'", s->id, err.message);
	free(b);
	return false;
}

static void end_one(const char *id, enum owned_fate fate, void *arg)
{
	struct sandbox *s = fleet_find_id(arg, id);

	if (!s || !s->outlive.is_asked || s->outlive.is_leaving || s->state == SANDBOX_STOPPING)
		return;
	if (fate == OWNED_UNKNOWN) {
		s->outlive.is_asked = false;
		s->outlive.term = 0;
		s->outlive.generation[0] = '\0';
		sandbox_note(s);
		restorable_look(s);
		return;
	}
	log_warn("sandbox.moved_away", "id=%s deleted=%d", s->id, fate == OWNED_GONE);
	s->outlive.is_leaving = true;
	restorable_drop_generations(s);
	if (fate == OWNED_GONE || !keep_stray(s))
		leave(s);
}

static const json_t *read_record(const json_t *record, struct sandbox_row *row)
{
	const json_t *inner = json_object_get(record, "row");
	const json_int_t created = json_integer_value(json_object_get(record, "created_us"));

	row->name = json_string_value(json_object_get(record, "name"));
	row->created_us = created > 0 ? (uint64_t)created : 0;
	return row->name && strlen(row->name) <= SANDBOX_NAME_MAX && json_is_object(inner) ? inner
	                                                                                   : NULL;
}

/* What was of the other node alone. */
static void clear(struct sandbox *s)
{
	memset(&s->outlive, 0, sizeof(s->outlive));
	memset(s->volumes, 0, sizeof(s->volumes));
	s->snapshot_id[0] = s->paused_in[0] = s->rolls_to[0] = '\0';
	s->base_bytes = s->deadline_us = s->rests_until_us = 0;
	s->pause_cause = END_NONE;
	s->is_persistent = s->is_kept = true;
	s->is_deleted = s->ends_with_caller = false;
	s->on_node_loss = ON_NODE_LOSS_RESTORE;
	free(s->group);
	free(s->alias);
	s->group = s->alias = NULL;
	s->phase = PHASE_STOPPED;
}

static int save(void *arg, struct err *err)
{
	return sandbox_save(arg, err);
}

static void tell(const struct sandbox *s, const char *from)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_RESTORED);

	json_put_str(w, "generation", s->outlive.restored_from);
	json_put_u64(w, "lost_ms", s->outlive.lost_ms);
	json_put_str(w, "from", from[0] ? from : NULL);
	event_end(&ev);
}

static void on_name(const struct err *err, void *arg)
{
	(void)arg;
	if (err)
		log_warn("cluster.name_taken", "error='%s'", err->message);
}

static int take(const struct node_owned *what, struct err *err, void *arg)
{
	struct fleet *fleet = arg;
	struct sandbox_row row = {.id = what->id,
	                          .project_id = what->project_id,
	                          .state = SANDBOX_STOPPED,
	                          .ended_us = clock_wall_us(),
	                          .is_durable = true};
	auto_json json_t *record = NULL;
	auto_free char *text = NULL;
	struct sandbox *s = fleet_find_id(fleet, what->id);
	const json_t *inner;
	int r = json_parse(what->record, strlen(what->record), &record, err);

	if (s)
		return err_set(err, ERR_CONFLICT, 0, "an older one is still being ended here");
	inner = r == 0 ? read_record(record, &row) : NULL;
	row.json = text = inner ? json_dumps(inner, JSON_COMPACT) : NULL;
	if (!text || sandbox_load(fleet, &row, &s) < 0)
		return err_set(err, ERR_CONFLICT, 0, "its record is of another shape");
	clear(s);
	s->outlive.is_asked = true;
	s->outlive.term = what->term;
	s->outlive.rest = s->resumes + 1;
	s->outlive.lost_ms = what->lost_ms;
	s->outlive.restored_us = s->outlive.generation_us = row.ended_us;
	(void)snprintf(s->outlive.generation, ID_SIZE, "%s", what->generation);
	(void)snprintf(s->outlive.origin, ID_SIZE, "%s", what->generation);
	(void)snprintf(s->outlive.restored_from, ID_SIZE, "%s", what->generation);
	s->end.cause = END_NODE_LOST;
	(void)snprintf(s->end.message, sizeof(s->end.message),
	               "its node '%s' was silent: it begins again with the files of its last "
	               "durable generation",
	               what->from);
	tell(s, what->from);
	r = event_log_save(fleet->config.events, save, s, err);
	if (r < 0) {
		sandbox_free(s);
		return r;
	}
	fleet_attach(fleet, s);
	account_adopt(s);
	log_warn("sandbox.restored", "id=%s generation=%s lost_ms=%llu", s->id, what->generation,
	         (unsigned long long)what->lost_ms);
	if (s->name[0]) /* it came with the row, unless its node was removed */
		node_take(fleet->config.node,
		          &(struct node_taking){.project_id = s->project_id,
		                                .sandbox_id = s->id,
		                                .name = s->name},
		          on_name, fleet);
	return 0;
}

static void on_change(void *arg)
{
	const struct fleet *fleet = arg;

	list_for_each (&fleet->all, struct sandbox, s, link_all)
		if (s->outlive.is_asked || s->outlive.is_closed)
			restorable_look(s);
}

void restorables_open(struct fleet *fleet)
{
	static const struct node_owners owners = {may_take, has,  each,     learn,
	                                          end_one,  take, on_change};

	if (!fleet->config.node)
		return;
	list_for_each (&fleet->all, struct sandbox, s, link_all)
		s->outlive.is_closed |= s->outlive.is_asked && !node_owns(fleet->config.node);
	node_has_owned(fleet->config.node, &owners, fleet);
}
