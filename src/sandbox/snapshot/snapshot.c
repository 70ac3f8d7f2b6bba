// SPDX-License-Identifier: Apache-2.0
/*
 * The list of snapshots: their names, charges and expiry. A plain list is enough: there are
 * hundreds, and searching it costs less than the rest of a create.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/snapshot/snapshot_shared.h"
#include "sandbox/storage/storage.h"
#include "store/tables/snapshots.h"
#include "tenant/meter.h"

#define EXPIRY_LOOK_US (60 * SECOND_US) /* the date may be set meanwhile */

struct snapshot *snapshot_alloc(struct fleet *fleet)
{
	struct snapshot *sn = xnew0(struct snapshot);

	sn->fleet = fleet;
	list_init(&sn->link);
	return sn;
}

void snapshot_free(struct snapshot *sn)
{
	list_remove(&sn->link);
	json_decref(sn->env);
	json_decref(sn->carried);
	json_decref(sn->companion);
	free(sn->name);
	free(sn->template);
	free(sn->user);
	free(sn->cwd);
	free(sn);
}

uint64_t snapshot_bytes(const struct snapshot *sn)
{
	return sn->bytes;
}

bool snapshot_is_usable(const struct snapshot *sn)
{
	return sn->is_there;
}

const char *snapshot_name(const struct snapshot *sn)
{
	return sn->name;
}

const char *snapshot_id(const struct snapshot *sn)
{
	return sn->id;
}

struct snapshot *snapshot_find(const struct fleet *fleet, const char *project_id,
                               const char *id_or_name)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (strcmp(sn->project_id, project_id) == 0 &&
		    (strcmp(sn->id, id_or_name) == 0 ||
		     (sn->name[0] && strcmp(sn->name, id_or_name) == 0)))
			return sn;
	return NULL;
}

int snapshot_check_free(const struct fleet *fleet, const char *project_id, const char *name,
                        struct err *err)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strlen(name);

	/* A name must not look like an id. */
	if (len < 1 || len > SNAPSHOT_NAME_MAX || strspn(name, inner) != len ||
	    !strchr(ends, name[0]) || !strchr(ends, name[len - 1]) || id_is_valid(name, "sn"))
		return err_field(err, "name",
		                 "must have up to %d of a-z, 0-9, and -, _ and . inside, such as "
		                 "'before-test'",
		                 SNAPSHOT_NAME_MAX);
	if (snapshot_find(fleet, project_id, name)) {
		(void)err_set(err, ERR_CONFLICT, 0, "name: a snapshot named '%s' exists already",
		              name);
		return err_hint(err, "choose another name, or remove that one first");
	}
	return 0;
}

/* Quota and metering. */

static struct quota_held held_by(uint64_t bytes)
{
	return (struct quota_held){.of = {[QUOTA_DISK_BYTES] = bytes}};
}

static void give(const struct snapshot *sn, uint64_t bytes)
{
	const struct quota_owner owner = {sn->project_id, sn->key_id};
	const struct quota_held held = held_by(bytes);

	if (sn->fleet->config.quota && bytes > 0)
		quota_give(sn->fleet->config.quota, &owner, &held);
}

static int take(const struct snapshot *sn, uint64_t bytes, bool is_asked, struct err *err)
{
	const struct quota_owner owner = {sn->project_id, sn->key_id};
	const struct quota_held held = held_by(bytes);
	struct quota *quota = sn->fleet->config.quota;

	if (!quota || bytes == 0)
		return 0;
	if (is_asked)
		return quota_admit(quota, &owner, &held, /* is_create= */ false, err);
	quota_take(quota, &owner, &held);
	return 0;
}

static void meter(struct snapshot *sn)
{
	struct meters *meters = sn->fleet->config.meters;
	const struct meter_spec spec = {
		.sandbox_id = sn->id, .project_id = sn->project_id, .key_id = sn->key_id};

	if (!meters)
		return;
	if (!sn->meter)
		sn->meter = meter_find(meters, sn->id);
	if (sn->meter)
		meter_set_disk(sn->meter, sn->own_bytes);
	else
		sn->meter = meter_store(meters, &spec, sn->own_bytes);
}

static int charge(struct snapshot *sn, uint64_t own, bool is_asked, struct err *err)
{
	int r = snapshot_is_warm_copy(sn) || sn->is_generation ? 1
	        : own > sn->own_bytes ? take(sn, own - sn->own_bytes, is_asked, err)
	                              : 0;

	if (r != 0)
		return MIN(r, 0);
	if (own < sn->own_bytes)
		give(sn, sn->own_bytes - own);
	sn->own_bytes = own;
	meter(sn);
	return 0;
}

static uint64_t count_before(const struct snapshot *sn)
{
	uint64_t most = 0;

	for (struct list *l = sn->link.prev; l != &sn->fleet->snapshots; l = l->prev) {
		const struct snapshot *other = list_entry(l, struct snapshot, link);

		if (!other->is_generation && other->line == sn->line &&
		    strcmp(other->source_id, sn->source_id) == 0)
			most = MAX(most, other->written_bytes);
	}
	return most;
}

int snapshot_charge(struct fleet *fleet, const char *source_id, bool is_asked, struct err *err)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link) {
		uint64_t before, own;
		int r;

		if (strcmp(sn->source_id, source_id) != 0)
			continue;
		before = sn->is_unshared || sn->is_fetched ? 0 : count_before(sn);
		own = sn->written_bytes - MIN(sn->written_bytes, before) + sn->memory_bytes;
		r = charge(sn, own, is_asked, err);
		if (r < 0)
			return r;
	}
	return 0;
}

void snapshots_tick(struct fleet *fleet)
{
	list_for_each (&fleet->snapshots, const struct snapshot, sn, link)
		if (sn->meter)
			meter_tick(sn->meter);
}

/* Going. */

static void on_discarded(const struct msg_reply *reply, void *arg)
{
	(void)arg;
	if (reply->err.code != ERR_NONE) /* the next start finds it without a row */
		log_warn("snapshot.not_removed", "error='%s'", reply->err.message);
}

void snapshot_discard(struct fleet *fleet, const char *id)
{
	struct msg_request req = {.op = MSG_SNAPSHOT_REMOVE};

	if (snapshot_hold_outlives(fleet, id))
		return; /* the last who holds it comes back here */
	(void)snprintf(req.snapshot_id, sizeof(req.snapshot_id), "%s", id);
	(void)!broker_client_ask(fleet->broker, &req, on_discarded, fleet, NULL, NULL);
}

static void emit_removed(const struct snapshot *sn)
{
	struct event ev;
	struct json_writer *w = event_begin(&ev, sn->fleet->config.events, EVENT_SNAPSHOT_REMOVED,
	                                    sn->project_id, sn->source_id);

	json_put_str(w, "snapshot_id", sn->id);
	json_put_str(w, "name", sn->name[0] ? sn->name : NULL);
	event_end(&ev);
}

/* What the cluster may know of stays as a note, until it has been told. */
static int delete_row(void *arg, struct err *err)
{
	struct snapshot *sn = arg;

	sn->is_removed = sn->is_durable || sn->is_sending;
	if (sn->is_removed)
		return snapshot_save(sn, err);
	return store_delete_snapshot(sn->fleet->config.store, sn->id, err);
}

void snapshot_forget(struct snapshot *sn)
{
	struct fleet *fleet = sn->fleet;
	char source_id[ID_SIZE];

	memcpy(source_id, sn->source_id, sizeof(source_id));
	give(sn, sn->own_bytes);
	if (sn->meter)
		meter_close(sn->meter, NULL, clock_steady_us());
	snapshot_free(sn);
	(void)!snapshot_charge(fleet, source_id, /* is_asked= */ false, NULL);
}

int snapshot_remove(struct snapshot *sn, struct err *err)
{
	struct fleet *fleet = sn->fleet;
	int r;

	if (!sn->is_generation)
		emit_removed(sn);
	r = event_log_save(fleet->config.events, delete_row, sn, err);
	if (r < 0) {
		sn->is_removed = false;
		return r;
	}
	log_info("snapshot.removed", "id=%s", sn->id);
	snapshot_discard(fleet, sn->id);
	if (sn->is_removed)
		snapshot_keep_removal(fleet, sn->id, sn->project_id);
	snapshot_forget(sn);
	snapshot_tell(fleet);
	return 0;
}

bool snapshot_is_in_use(const struct fleet *fleet, const struct snapshot *sn)
{
	list_for_each (&fleet->all, const struct sandbox, s, link_all)
		if ((strcmp(s->snapshot_id, sn->id) == 0 || strcmp(s->paused_in, sn->id) == 0) &&
		    (s->place == PLACE_ALIVE || s->place == PLACE_KEPT))
			return true;
	return false;
}

void snapshot_drop_unused(struct fleet *fleet, const char *id)
{
	struct err err;

	list_for_each (&fleet->snapshots, struct snapshot, sn, link) {
		if (!sn->is_automatic || (id && strcmp(sn->id, id) != 0) ||
		    snapshot_is_in_use(fleet, sn) || (sn->is_wanted && !sn->is_fetched))
			continue;
		if (sn->is_fetched)
			snapshot_drop(sn);
		else if (snapshot_remove(sn, &err) < 0)
			log_warn("snapshot.not_removed", "error='%s'", err.message);
		if (id)
			return;
	}
}

static void on_expiry(struct loop *loop, void *arg)
{
	struct fleet *fleet = arg;
	uint64_t now = clock_wall_us();
	struct err err;

	(void)loop;
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (sn->expires_us && sn->expires_us <= now && snapshot_remove(sn, &err) < 0)
			log_warn("snapshot.not_removed", "error='%s'", err.message);
	snapshot_look_at_expiry(fleet);
}

void snapshot_look_at_expiry(struct fleet *fleet)
{
	uint64_t now = clock_wall_us(), next = UINT64_MAX;

	list_for_each (&fleet->snapshots, const struct snapshot, sn, link)
		if (sn->expires_us)
			next = MIN(next, sn->expires_us > now ? sn->expires_us - now : 0);
	if (next == UINT64_MAX)
		loop_timer_set(fleet->snapshot_expiry, UINT64_MAX);
	else
		loop_timer_set_in(fleet->snapshot_expiry, MIN(next, EXPIRY_LOOK_US));
}

int snapshot_update(struct snapshot *sn, const struct snapshot_patch *patch, struct err *err)
{
	auto_free char *name = NULL;
	uint64_t expires_us = sn->expires_us;
	int r = 0;

	if (patch->name && patch->name[0] && strcmp(patch->name, sn->name) != 0)
		r = snapshot_check_free(sn->fleet, sn->project_id, patch->name, err);
	if (r < 0)
		return r;
	name = sn->name;
	sn->name = xstrdup(patch->name ? patch->name : sn->name);
	if (patch->has_expiry)
		sn->expires_us =
			patch->expires_in_ms ? clock_wall_us() + patch->expires_in_ms * 1000 : 0;
	r = snapshot_save(sn, err);
	if (r < 0) {
		free(sn->name);
		sn->name = take_ptr(name);
		sn->expires_us = expires_us;
		return r;
	}
	snapshot_look_at_expiry(sn->fleet);
	snapshot_tell(sn->fleet);
	return 0;
}

bool snapshot_is_known(const struct fleet *fleet, const char *id)
{
	list_for_each (&fleet->snapshots, const struct snapshot, sn, link)
		if (strcmp(sn->id, id) == 0)
			return true;
	return false;
}

size_t snapshot_count_image(const struct fleet *fleet, const struct digest *image)
{
	size_t n = 0;

	list_for_each (&fleet->snapshots, const struct snapshot, sn, link)
		n += !snapshot_is_warm_copy(sn) && digest_equal(&sn->image, image);
	return n;
}

int snapshot_seal(struct snapshot *sn, const struct image_spec *spec, image_sealed_fn done,
                  void *arg, struct image_seal **ret, struct err *err)
{
	int r = image_refuse_unreadable(sn->engine, err);

	if (r == 0 && !sn->is_there)
		r = err_set(err, ERR_CONFLICT, 0, "snapshot %s is damaged", sn->id);
	return r < 0 ? r
	             : image_ask_for_seal(sn->fleet, sn->source_id, sn->id, &sn->image, spec, done,
	                                  arg, ret, err);
}

/* A create from one. */

int snapshot_resolve(const struct fleet *fleet, const char *project_id,
                     const struct sandbox_spec *spec, struct snapshot **ret, struct err *err)
{
	struct snapshot *sn = snapshot_find(fleet, project_id, spec->snapshot);

	if (!sn) {
		(void)err_field(err, "snapshot", "there is no snapshot '%.64s'", spec->snapshot);
		return err_hint(err, "`cloche snapshot ls` lists them");
	}
	if (spec->template)
		return err_field(err, "template", "comes with the snapshot: leave it out");
	if (!sn->is_there) {
		(void)err_set(err, ERR_CONFLICT, 0, "snapshot %s is damaged", sn->id);
		return err_hint(err, "start from the one before it (parent_id), and remove it");
	}
	*ret = sn;
	return 0;
}

uint32_t snapshot_engine(const struct snapshot *sn)
{
	return sn->engine;
}

void snapshot_fill_limits(const struct snapshot *sn, struct guest_limits *limits)
{
	limits_fill(limits, &sn->limits);
}

int snapshot_check_disk(const struct snapshot *sn, uint64_t disk_bytes, struct err *err)
{
	const bool has_own_disk = engine_traits(sn->engine)->has_own_disk;

	if (has_own_disk && disk_bytes != sn->limits.disk_bytes)
		return err_field(err, "limits.disk_mib", "a %s's disk keeps its size: %llu",
		                 engine_name(sn->engine),
		                 (unsigned long long)(sn->limits.disk_bytes / MIB));
	if (has_own_disk || disk_bytes >= sn->bytes)
		return 0;
	return err_field(err, "limits.disk_mib", "the snapshot's files take %llu MiB",
	                 (unsigned long long)((sn->bytes + MIB - 1) / MIB));
}

/* Its own variables come before the snapshot's. */
void snapshot_apply(const struct snapshot *sn, bool with_memory, struct sandbox *s)
{
	free(s->template);
	free(s->user);
	free(s->cwd);
	s->template = xstrdup(sn->template);
	s->image = sn->image;
	s->user = sn->user ? xstrdup(sn->user) : NULL;
	s->cwd = sn->cwd ? xstrdup(sn->cwd) : NULL;
	memcpy(s->snapshot_id, sn->id, sizeof(s->snapshot_id));
	s->base_bytes = sn->is_unshared ? 0 : sn->bytes;
	s->drops_trust = sn->has_trust;
	(void)json_object_update_missing(s->env, sn->env);
	if (with_memory && sn->memory_bytes > 0)
		copied_processes_expect(s, sn->carried);
}

/* The start. */

static int load(const struct snapshot_row *row, void *arg)
{
	struct fleet *fleet = arg;
	struct snapshot *sn;

	if (snapshot_load(fleet, row, &sn) < 0) {
		log_error("snapshot.unreadable", "id='%s'", row->id);
	} else if (sn->is_removed) {
		snapshot_keep_removal(fleet, sn->id, sn->project_id);
		snapshot_free(sn);
	} else
		list_append(&fleet->snapshots, &sn->link);
	return 0;
}

int snapshots_open(struct fleet *fleet, struct err *err)
{
	fleet->snapshot_expiry = loop_timer_new(fleet->config.loop, on_expiry, fleet);
	return store_each_snapshot(fleet->config.store, load, fleet, err);
}

void snapshots_close(struct fleet *fleet)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		snapshot_free(sn);
	snapshot_removals_close(fleet);
	loop_timer_free(take_ptr(fleet->snapshot_expiry));
}

void snapshot_found(struct fleet *fleet, const struct snapshot_info *info)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (strcmp(sn->id, info->id) == 0) {
			sn->is_there = true;
			return;
		}
	if (info->keeper != store_number(fleet->config.store))
		return; /* of another store: the database was moved away, say */
	log_warn("snapshot.orphaned", "id='%s'", info->id);
	snapshot_discard(fleet, info->id);
}

void snapshots_settle(struct fleet *fleet)
{
	fleet->spares->settle_copies(fleet);
	list_for_each (&fleet->snapshots, struct snapshot, sn, link) {
		if (!sn->is_there)
			log_error("snapshot.damaged", "id=%s", sn->id);
		(void)!snapshot_charge(fleet, sn->source_id,
		                       /* is_asked= */ false, NULL);
	}
	snapshot_drop_unused(fleet, NULL);
	snapshot_tell(fleet);
	snapshot_look_at_expiry(fleet);
}

bool snapshot_is_warm_copy(const struct snapshot *sn)
{
	return sn->project_id[0] == '\0';
}
