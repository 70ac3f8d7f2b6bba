// SPDX-License-Identifier: Apache-2.0
/*
 * Taking a snapshot: the broker makes it, its row is written and synced, then the caller is told.
 * If it cannot be recorded or would exceed a quota, the broker removes it again.
 */
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/model/find.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/storage/storage.h"

#define PROJECT_MAX 1000 /* snapshots of one project */

struct taking {
	struct list link; /* in the fleet's */
	struct snapshot *sn;
	uint64_t tag, keep_last;
	snapshot_done_fn done;
	void *arg;
};

static void taking_free(struct taking *t)
{
	list_remove(&t->link);
	free(t);
}

static void emit_taken(const struct snapshot *sn)
{
	struct event ev;
	struct json_writer *w = event_begin(&ev, sn->fleet->config.events, EVENT_SNAPSHOT_CREATED,
	                                    sn->project_id, sn->source_id);

	json_put_str(w, "snapshot_id", sn->id);
	json_put_str(w, "name", sn->name[0] ? sn->name : NULL);
	json_put_bool(w, "memory", sn->memory_bytes > 0);
	json_put_u64(w, "bytes", sn->bytes);
	event_end(&ev);
}

static int put_row(void *arg, struct err *err)
{
	return snapshot_save(arg, err);
}

static int record(struct snapshot *sn, struct err *err)
{
	struct fleet *fleet = sn->fleet;
	int r = sn->name[0] ? snapshot_check_free(fleet, sn->project_id, sn->name, err) : 0;

	if (r < 0) /* another got the name meanwhile */
		return r;
	list_append(&fleet->snapshots, &sn->link);
	r = snapshot_charge(fleet, sn->source_id, /* is_asked= */ true, err);
	if (r == 0) {
		if (!sn->is_fetched && !sn->is_generation) /* it was taken, and told, elsewhere */
			emit_taken(sn);
		r = event_log_save(fleet->config.events, put_row, sn, err);
	}
	return r;
}

/* Removes the oldest; those that have a name or are in use stay. */
static void keep_last(struct fleet *fleet, const char *source_id, uint64_t keep)
{
	uint64_t n = 0;

	for (struct list *l = fleet->snapshots.prev, *before; keep > 0 && l != &fleet->snapshots;
	     l = before) {
		struct snapshot *sn = list_entry(l, struct snapshot, link);
		struct err err;

		before = l->prev;
		if (strcmp(sn->source_id, source_id) != 0 || sn->name[0] || sn->is_automatic)
			continue;
		if (++n > keep && snapshot_remove(sn, &err) < 0)
			log_warn("snapshot.not_removed", "error='%s'", err.message);
	}
}

static void on_taken(const struct msg_reply *reply, void *arg)
{
	struct taking *t = arg;
	struct snapshot *sn = t->sn;
	struct fleet *fleet = sn->fleet;
	struct err err = reply->err;
	int r = reply->err.code == ERR_NONE ? 0 : -EIO;

	if (r == 0) {
		sn->line = reply->snapshot.line;
		sn->bytes = reply->snapshot.bytes;
		sn->written_bytes = reply->snapshot.written_bytes;
		sn->memory_bytes = reply->snapshot.memory_bytes;
		sn->is_unshared = reply->snapshot.is_unshared;
		sn->is_there = true;
		r = record(sn, &err);
		if (r < 0)
			snapshot_discard(fleet, sn->id);
	}
	if (r < 0) {
		snapshot_forget(sn);
		t->done(NULL, &err, t->arg);
	} else {
		log_info("snapshot.created", "id=%s source=%s", sn->id, sn->source_id);
		keep_last(fleet, sn->source_id, t->keep_last);
		snapshot_look_at_expiry(fleet);
		snapshot_tell(fleet);
		t->done(sn, NULL, t->arg);
	}
	taking_free(t);
}

static int check_state(const struct sandbox *s, bool has_memory, struct err *err)
{
	if (has_memory && volume_mounts_are_given(s)) {
		(void)err_set(err, ERR_UNSUPPORTED, 0,
		              "sandbox %s has volumes, so its memory cannot be saved", s->id);
		return err_hint(err, "leave memory out: its files are saved, its volumes stay "
		                     "what they are");
	}
	/* The files of a persistent one are there. */
	if (pause_is_on_disk(s) && (has_memory || !s->is_kept)) {
		(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s is paused on disk", s->id);
		return err_hint(err, "resume it first, or start from %s, which it is paused in",
		                s->paused_in);
	}
	return sandbox_check_files(s, err);
}

static int check_count(const struct sandbox *s, struct err *err)
{
	size_t n = 0;

	list_for_each (&s->fleet->snapshots, const struct snapshot, sn, link)
		n += !sn->is_generation && strcmp(sn->project_id, s->project_id) == 0;
	if (n < PROJECT_MAX)
		return 0;
	(void)err_set(err, ERR_LIMIT, 0, "there are %zu snapshots, which is the limit", n);
	return err_hint(err, "remove some, or let keep_last or expires_in_ms do it");
}

/* The previous snapshot of the same source, else the one that the source was started from. */
static void set_parent(struct snapshot *sn, const struct sandbox *s)
{
	memcpy(sn->origin_id, s->snapshot_id, sizeof(sn->origin_id));
	memcpy(sn->parent_id, s->snapshot_id, sizeof(sn->parent_id));
	sn->generation = 1;
	list_for_each (&s->fleet->snapshots, const struct snapshot, other, link)
		if (strcmp(other->source_id, s->id) == 0) {
			if (!other->is_generation)
				memcpy(sn->parent_id, other->id, sizeof(sn->parent_id));
			sn->generation = MAX(sn->generation, other->generation + 1);
		}
}

static struct snapshot *describe(const struct sandbox *s, const struct snapshot_wish *wish)
{
	struct snapshot *sn = snapshot_alloc(s->fleet);

	id_make_tagged(sn->id, "sn");
	memcpy(sn->project_id, s->project_id, sizeof(sn->project_id));
	memcpy(sn->key_id, s->key_id, sizeof(sn->key_id));
	memcpy(sn->source_id, s->id, sizeof(sn->source_id));
	set_parent(sn, s);
	sn->name = xstrdup(wish->name ? wish->name : "");
	sn->created_us = clock_wall_us();
	if (wish->expires_in_ms)
		sn->expires_us = sn->created_us + wish->expires_in_ms * 1000;
	sn->is_automatic = wish->is_automatic || wish->is_generation;
	sn->is_generation = wish->is_generation;
	sn->has_trust = network_has_trust(s);
	sn->template = xstrdup(s->template);
	sn->image = s->image;
	sn->engine = s->engine;
	sn->user = s->user ? xstrdup(s->user) : NULL;
	sn->cwd = s->cwd ? xstrdup(s->cwd) : NULL;
	sn->limits = s->limits;
	sn->env = json_deep_copy(s->env);
	sn->carried = wish->has_memory ? copied_processes_describe(s) : NULL;
	return sn;
}

int snapshot_take(struct sandbox *s, const struct snapshot_wish *wish, snapshot_done_fn done,
                  void *arg, struct err *err)
{
	struct fleet *fleet = s->fleet;
	struct msg_request req = {.op = MSG_SNAPSHOT};
	struct taking *t;
	int r = check_state(s, wish->has_memory, err);

	if (r == 0)
		r = check_count(s, err);
	if (r == 0 && wish->name)
		r = snapshot_check_free(fleet, s->project_id, wish->name, err);
	if (r == 0)
		r = fleet_check_disk(fleet, err);
	if (r < 0)
		return r;
	t = xnew0(struct taking);
	*t = (struct taking){.sn = wish->described ? wish->described : describe(s, wish),
	                     .keep_last = wish->keep_last,
	                     .done = done,
	                     .arg = arg};
	list_init(&t->link);
	memcpy(req.id, s->id, sizeof(req.id));
	req.snapshot.base = s->image;
	memcpy(req.snapshot.spec.id, t->sn->id, sizeof(req.snapshot.spec.id));
	req.snapshot.spec.keeper = store_number(fleet->config.store);
	req.snapshot.spec.has_memory = wish->has_memory;
	req.snapshot.spec.closes_connections = wish->has_memory && wish->closes_connections;
	req.snapshot.spec.is_brief = wish->is_automatic && !wish->is_last;
	req.snapshot.spec.is_last = wish->is_last;
	r = broker_client_ask(fleet->broker, &req, on_taken, t, &t->tag, err);
	if (r < 0) {
		if (!wish->described)
			snapshot_free(t->sn);
		free(t);
		return r;
	}
	list_append(&fleet->takings, &t->link);
	return 0;
}

bool snapshot_saves_memory(const struct sandbox *s)
{
	list_for_each (&s->fleet->takings, const struct taking, t, link)
		if (t->sn->carried && strcmp(t->sn->source_id, s->id) == 0)
			return true;
	return false;
}

void snapshot_takings_close(struct fleet *fleet)
{
	list_for_each (&fleet->takings, struct taking, t, link) {
		broker_client_cancel(fleet->broker, t->tag);
		snapshot_free(t->sn);
		taking_free(t);
	}
}
