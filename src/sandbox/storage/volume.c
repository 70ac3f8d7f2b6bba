// SPDX-License-Identifier: Apache-2.0
#include "sandbox/storage/volume_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/storage/storage.h"
#include "store/tables/volumes.h"
#include "tenant/meter.h"

struct volume *volume_alloc(struct fleet *fleet)
{
	struct volume *v = xnew0(struct volume);

	v->fleet = fleet;
	list_init(&v->link);
	return v;
}

void volume_free(struct volume *v)
{
	list_remove(&v->link);
	json_decref(v->notes);
	free(v->name);
	free(v);
}

struct volume *volume_find(const struct fleet *fleet, const char *project_id,
                           const char *id_or_name)
{
	list_for_each (&fleet->volumes, struct volume, v, link)
		if (!v->is_making && strcmp(v->project_id, project_id) == 0 &&
		    (strcmp(v->id, id_or_name) == 0 || strcmp(v->name, id_or_name) == 0))
			return v;
	return NULL;
}

struct volume *volume_find_shown(const struct fleet *fleet, const char *id,
                                 bool (*says_yes)(const struct volume *v, const void *arg),
                                 const void *arg)
{
	list_for_each (&fleet->volumes, struct volume, v, link)
		if (strcmp(v->id, id) == 0)
			return says_yes(v, arg) ? v : NULL;
	return NULL;
}

bool volume_is_known(const struct fleet *fleet, const char *id)
{
	list_for_each (&fleet->volumes, const struct volume, v, link)
		if (strcmp(v->id, id) == 0)
			return true;
	return false;
}

void volume_list(const struct fleet *fleet, const char *project_id,
                 void (*fn)(const struct volume *v, void *arg), void *arg)
{
	list_for_each (&fleet->volumes, const struct volume, v, link)
		if (!v->is_making && strcmp(v->project_id, project_id) == 0)
			fn(v, arg);
}

static bool is_owners(const struct volume *v, const struct sandbox *s)
{
	return strcmp(s->project_id, v->project_id) == 0;
}

/* A sandbox that only looks into it for a moment is not a user, but must not lose it. */
static const struct sandbox *find_user(const struct volume *v, bool is_any)
{
	const struct sandbox *reader = NULL;

	list_for_each (&v->fleet->all, const struct sandbox, s, link_all) {
		for (size_t i = 0; s->place == PLACE_ALIVE && i < VOLUMES_MAX; i++) {
			if (strcmp(s->volumes[i].id, v->id) != 0 || (!is_any && !is_owners(v, s)))
				continue;
			if (!s->volumes[i].is_read_only)
				return s;
			reader = s;
		}
	}
	return reader;
}

void volume_facts(const struct volume *v, struct volume_facts *ret)
{
	*ret = (struct volume_facts){.id = v->id,
	                             .name = v->name,
	                             .project_id = v->project_id,
	                             .key_id = v->key_id,
	                             .notes = v->notes,
	                             .bytes = v->bytes,
	                             .used_bytes = v->used_bytes,
	                             .created_us = v->created_us,
	                             .has_one_writer = v->has_one_writer,
	                             .user = find_user(v, /* is_any= */ false)};
}

static void put_users(const struct volume *v, struct json_writer *w)
{
	json_open_array(w, "sandbox_ids");
	list_for_each (&v->fleet->all, const struct sandbox, s, link_all)
		for (size_t i = 0; s->place == PLACE_ALIVE && i < VOLUMES_MAX; i++)
			if (strcmp(s->volumes[i].id, v->id) == 0 && is_owners(v, s))
				json_put_str(w, NULL, s->id);
	json_close_array(w);
}

void volume_put_fields(const struct volume *v, struct json_writer *w)
{
	json_put_str(w, "id", v->id);
	json_put_str(w, "name", v->name);
	json_put_str(w, "state", v->is_there ? "ready" : "damaged");
	json_put_u64(w, "size_mib", v->bytes / MIB);
	json_put_u64(w, "used_bytes", v->used_bytes);
	json_put_bool(w, "one_writer", v->has_one_writer);
	put_users(v, w);
	json_put_u64(w, "created_us", v->created_us);
}

void volume_to_json(const struct volume *v, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	volume_put_fields(v, w);
	json_close_object(w);
}

/* Quota and metering. */

static struct quota_held held_by(const struct volume *v)
{
	return (struct quota_held){.of = {[QUOTA_DISK_BYTES] = v->bytes}};
}

void volume_give(const struct volume *v)
{
	const struct quota_owner owner = {v->project_id, v->key_id};
	const struct quota_held held = held_by(v);

	if (v->fleet->config.quota)
		quota_give(v->fleet->config.quota, &owner, &held);
}

int volume_take(const struct volume *v, bool is_asked, struct err *err)
{
	const struct quota_owner owner = {v->project_id, v->key_id};
	const struct quota_held held = held_by(v);
	struct quota *quota = v->fleet->config.quota;

	if (!quota)
		return 0;
	if (is_asked)
		return quota_admit(quota, &owner, &held, /* is_create= */ false, err);
	quota_take(quota, &owner, &held);
	return 0;
}

void volume_meter(struct volume *v)
{
	struct meters *meters = v->fleet->config.meters;
	const struct meter_spec spec = {
		.sandbox_id = v->id, .project_id = v->project_id, .key_id = v->key_id};

	if (!meters)
		return;
	v->meter = meter_find(meters, v->id);
	if (!v->meter)
		v->meter = meter_store(meters, &spec, v->bytes);
}

void volumes_tick(struct fleet *fleet)
{
	list_for_each (&fleet->volumes, const struct volume, v, link)
		if (v->meter)
			meter_tick(v->meter);
}

/* Its row. */

int volume_save(const struct volume *v, struct err *err)
{
	auto_free char *notes = v->notes ? json_dumps(v->notes, JSON_COMPACT) : NULL;
	const struct volume_row row = {.id = v->id,
	                               .project_id = v->project_id,
	                               .key_id = v->key_id,
	                               .name = v->name,
	                               .notes = notes,
	                               .bytes = v->bytes,
	                               .created_us = v->created_us,
	                               .has_one_writer = v->has_one_writer};

	return store_put_volume(v->fleet->config.store, &row, err);
}

static int load(const struct volume_row *row, void *arg)
{
	struct fleet *fleet = arg;
	struct volume *v = volume_alloc(fleet);

	(void)snprintf(v->id, sizeof(v->id), "%s", row->id);
	(void)snprintf(v->project_id, sizeof(v->project_id), "%s", row->project_id);
	(void)snprintf(v->key_id, sizeof(v->key_id), "%s", row->key_id);
	v->name = xstrdup(row->name);
	v->bytes = row->bytes;
	v->created_us = row->created_us;
	v->has_one_writer = row->has_one_writer;
	if (row->notes && json_parse(row->notes, strlen(row->notes), &v->notes, NULL) < 0)
		log_error("volume.notes_unreadable", "id='%s'", row->id);
	list_append(&fleet->volumes, &v->link);
	return 0;
}

int volume_set_notes(struct volume *v, const json_t *notes, struct err *err)
{
	json_t *before = v->notes;
	int r;

	v->notes = json_deep_copy(notes);
	r = volume_save(v, err);
	json_decref(r < 0 ? v->notes : before);
	if (r < 0)
		v->notes = before;
	return r;
}

int volumes_open(struct fleet *fleet, struct err *err)
{
	return store_each_volume(fleet->config.store, load, fleet, err);
}

void volumes_close(struct fleet *fleet)
{
	list_for_each (&fleet->volumes, struct volume, v, link)
		volume_free(v);
}

/* Going. */

static void on_discarded(const struct msg_reply *reply, void *arg)
{
	(void)arg;
	if (reply->err.code != ERR_NONE) /* the next start finds it without a row */
		log_warn("volume.not_removed", "error='%s'", reply->err.message);
}

void volume_drop_bytes(struct fleet *fleet, const char *id)
{
	struct msg_request req = {.op = MSG_VOLUME_REMOVE};

	(void)snprintf(req.volume.id, sizeof(req.volume.id), "%s", id);
	(void)!broker_client_ask(fleet->broker, &req, on_discarded, fleet, NULL, NULL);
}

void volume_emit(const struct volume *v, enum event_type type)
{
	struct event ev;
	struct json_writer *w =
		event_begin(&ev, v->fleet->config.events, type, v->project_id, NULL);

	json_put_str(w, "volume_id", v->id);
	json_put_str(w, "name", v->name);
	event_end(&ev);
}

static int delete_row(void *arg, struct err *err)
{
	const struct volume *v = arg;

	return store_delete_volume(v->fleet->config.store, v->id, err);
}

int volume_remove(struct volume *v, struct err *err)
{
	const struct sandbox *user = find_user(v, /* is_any= */ true);
	int r;

	if (user && !is_owners(v, user))
		return err_set(err, ERR_CONFLICT, 0,
		               "the files of volume '%s' are being read: try again", v->name);
	if (user) {
		(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s has volume '%s'", user->id,
		              v->name);
		return err_hint(err, "delete or stop it first");
	}
	volume_emit(v, EVENT_VOLUME_REMOVED);
	r = event_log_save(v->fleet->config.events, delete_row, v, err);
	if (r < 0)
		return r;
	log_info("volume.removed", "id=%s", v->id);
	volume_drop_bytes(v->fleet, v->id);
	volume_give(v);
	if (v->meter)
		meter_close(v->meter, NULL, clock_steady_us());
	volume_free(v);
	return 0;
}

/* The broker's word. */

void volume_found(struct fleet *fleet, const struct volume_info *info)
{
	list_for_each (&fleet->volumes, struct volume, v, link)
		if (strcmp(v->id, info->id) == 0) {
			auto_free char *file = xasprintf("layers/%s/keeper", v->id);

			fleet_check_keeper(fleet, file, info->keeper);
			v->is_there = true;
			v->used_bytes = info->used_bytes;
			return;
		}
	if (info->keeper != store_number(fleet->config.store))
		return; /* of another store: the database was moved away, say */
	log_warn("volume.orphaned", "id='%s'", info->id);
	volume_drop_bytes(fleet, info->id);
}

void volumes_settle(struct fleet *fleet)
{
	list_for_each (&fleet->volumes, struct volume, v, link) {
		if (!v->is_there)
			log_error("volume.damaged", "id=%s", v->id);
		(void)!volume_take(v, /* is_asked= */ false, NULL);
		volume_meter(v);
	}
}

struct measuring {
	struct fleet *fleet;
	void (*fn)(const struct err *err, void *arg);
	void *arg;
};

static void on_measured(const struct msg_reply *reply, void *arg)
{
	struct measuring *m = arg;

	list_for_each (&m->fleet->volumes, struct volume, v, link)
		if (reply->err.code == ERR_NONE && strcmp(v->id, reply->id) == 0)
			v->used_bytes = reply->volume.used_bytes;
	if (reply->err.code == ERR_NONE && reply->id[0])
		return;
	m->fn(reply->err.code == ERR_NONE ? NULL : &reply->err, m->arg);
	free(m);
}

int volume_measure_all(struct fleet *fleet, void (*fn)(const struct err *err, void *arg), void *arg,
                       struct err *err)
{
	struct measuring *m = xnew0(struct measuring);
	int r;

	*m = (struct measuring){fleet, fn, arg};
	r = broker_client_ask(fleet->broker, &(struct msg_request){.op = MSG_VOLUMES}, on_measured,
	                      m, NULL, err);
	if (r < 0)
		free(m);
	return r;
}
