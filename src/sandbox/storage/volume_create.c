// SPDX-License-Identifier: Apache-2.0
/*
 * How a volume comes to be, empty or as a copy of another:
 *
 *	asked --> counted in the quota --> made by the broker --> recorded --> told
 *
 * If this process dies before the row is written, the next start finds bytes without a row and
 * removes them.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/storage/storage.h"
#include "sandbox/storage/volume_private.h"

#include <string.h>

#define BYTES_MAX   (UINT64_C(1) << 40)
#define PROJECT_MAX 1000 /* volumes of one project */
#define COPIES_MAX  2    /* of one project, under way */

struct making {
	struct volume *v;
	volume_done_fn done;
	void *arg;
};

static int put_row(void *arg, struct err *err)
{
	return volume_save(arg, err);
}

static int record(struct volume *v, struct err *err)
{
	volume_emit(v, EVENT_VOLUME_CREATED);
	return event_log_save(v->fleet->config.events, put_row, v, err);
}

static void on_made(const struct msg_reply *reply, void *arg)
{
	struct making m = *(struct making *)arg;
	struct err err = reply->err;
	int r = err.code == ERR_NONE ? 0 : -EIO;

	free(arg);
	if (r == 0) {
		r = record(m.v, &err);
		if (r < 0)
			volume_drop_bytes(m.v->fleet, m.v->id);
	}
	if (r < 0) {
		volume_give(m.v);
		volume_free(m.v);
		m.done(NULL, &err, m.arg);
		return;
	}
	m.v->is_making = false;
	m.v->is_there = true;
	durable_on_layer(m.v->fleet);
	owner_tell_volume(m.v->fleet, m.v->id, m.v->project_id);
	volume_meter(m.v);
	log_info("volume.created", "id=%s", m.v->id);
	m.done(m.v, NULL, m.arg);
}

static int check_name(const struct fleet *fleet, const char *project_id, const char *name,
                      struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name), n = 0;
	bool is_taken = false;

	if (len == 0 || len > VOLUME_NAME_MAX || strspn(name, letters) != len || name[0] == '.' ||
	    id_is_valid(name, "vo"))
		return err_field(err, "name",
		                 "must have up to %d of a-z, A-Z, 0-9, -, _ and ., such as 'data'",
		                 VOLUME_NAME_MAX);
	list_for_each (&fleet->volumes, const struct volume, v, link)
		if (strcmp(v->project_id, project_id) == 0) {
			n++;
			is_taken |= strcmp(v->name, name) == 0;
		}
	if (n >= PROJECT_MAX) {
		(void)err_set(err, ERR_LIMIT, 0, "there are %zu volumes, which is the limit", n);
		return err_hint(err, "remove some");
	}
	if (is_taken) {
		(void)err_set(err, ERR_CONFLICT, 0, "name: a volume named '%s' exists already",
		              name);
		return err_hint(err, "use it, or take another name");
	}
	return 0;
}

static struct volume *volume_new(struct fleet *fleet, const char *project_id,
                                 const struct volume_wish *wish)
{
	struct volume *v = volume_alloc(fleet);

	id_make_tagged(v->id, "vo");
	(void)snprintf(v->project_id, sizeof(v->project_id), "%s", project_id);
	(void)snprintf(v->key_id, sizeof(v->key_id), "%s", wish->key_id ? wish->key_id : "");
	v->name = xstrdup(wish->name);
	v->bytes = wish->bytes    ? wish->bytes
	           : wish->source ? wish->source->bytes
	                          : VOLUME_MIB_DEFAULT * MIB;
	v->is_copy = wish->source != NULL;
	v->has_one_writer = wish->has_one_writer;
	v->notes = json_deep_copy(wish->notes);
	v->created_us = clock_wall_us();
	return v;
}

static int check_size(const struct volume_wish *wish, struct err *err)
{
	const struct volume *source = wish->source;

	if (!wish->bytes)
		return 0;
	if (wish->bytes < VOLUME_MIB_MIN * MIB || wish->bytes > BYTES_MAX)
		return err_field(err, "size_mib", "must be from %d to %llu", VOLUME_MIB_MIN,
		                 (unsigned long long)(BYTES_MAX / MIB));
	if (source && wish->bytes < source->bytes)
		return err_field(err, "size_mib", "must be at least %llu, the size of '%s'",
		                 (unsigned long long)(source->bytes / MIB), source->name);
	return 0;
}

/* Each byte of a copy may be written once more, so a project makes few at a time. */
static int check_source(const struct fleet *fleet, const struct volume *source, struct err *err)
{
	size_t n = 0;

	if (!source->is_there)
		return err_set(err, ERR_CONFLICT, 0, "volume '%s' is damaged", source->name);
	list_for_each (&fleet->volumes, const struct volume, v, link)
		n += v->is_making && v->is_copy && strcmp(v->project_id, source->project_id) == 0;
	if (n < COPIES_MAX)
		return 0;
	(void)err_set(err, ERR_LIMIT, 0, "%zu volumes are being copied, which is the limit", n);
	return err_hint(err, "try again when one of them is done");
}

static int check(const struct fleet *fleet, const char *project_id, const struct volume_wish *wish,
                 struct err *err)
{
	int r = check_name(fleet, project_id, wish->name, err);

	if (r == 0)
		r = check_size(wish, err);
	if (r == 0 && wish->source)
		r = check_source(fleet, wish->source, err);
	return r < 0 ? r : fleet_check_disk(fleet, err);
}

static int ask(struct volume *v, const struct volume *source, struct making *m, struct err *err)
{
	struct msg_request req = {.op = source ? MSG_VOLUME_COPY : MSG_VOLUME};
	struct volume_spec *spec = source ? &req.volume_copy.made : &req.volume;

	memcpy(spec->id, v->id, sizeof(spec->id));
	spec->keeper = store_number(v->fleet->config.store);
	spec->bytes = v->bytes;
	if (source) {
		memcpy(req.volume_copy.source, source->id, sizeof(req.volume_copy.source));
		req.volume_copy.owner = owner_of_volume(v->fleet, v->project_id);
	}
	return broker_client_ask(v->fleet->broker, &req, on_made, m, NULL, err);
}

int volume_create(struct fleet *fleet, const char *project_id, const struct volume_wish *wish,
                  volume_done_fn done, void *arg, struct err *err)
{
	struct making *m;
	struct volume *v;
	int r = check(fleet, project_id, wish, err);

	if (r < 0)
		return r;
	v = volume_new(fleet, project_id, wish);
	r = volume_take(v, /* is_asked= */ true, err);
	if (r < 0) {
		volume_free(v);
		return r;
	}
	m = xnew0(struct making);
	*m = (struct making){.v = v, .done = done, .arg = arg};
	r = ask(v, wish->source, m, err);
	if (r < 0) {
		free(m);
		volume_give(v);
		volume_free(v);
		return r;
	}
	v->is_making = true;
	list_append(&fleet->volumes, &v->link); /* its name is taken */
	return 0;
}
