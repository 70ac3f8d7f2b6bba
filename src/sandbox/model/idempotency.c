// SPDX-License-Identifier: Apache-2.0
/*
 * All keys are in memory, in order of their age, and in the store. The row is written after the
 * object's own row and before the object has an effect. If the gateway dies in between, the next
 * one finds an object that never ran, and undoes it.
 */
#include "sandbox/model/idempotency.h"

#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"
#include "sandbox/model/sandbox_private.h"
#include "store/tables/idempotency.h"

#define KEPT_US (UINT64_C(24) * 3600 * 1000000)

struct entry {
	struct list link;
	char *name; /* project and key */
	char project_id[ID_SIZE], object_id[ID_SIZE];
	const char *key; /* in name */
	unsigned char digest[32];
	uint64_t until_us; /* steady */
	UT_hash_handle by_name, by_object;
};

struct idempotency {
	struct entry *by_name, *by_object;
	struct list all; /* oldest first */
};

static void forget(struct idempotency *o, struct entry *e)
{
	list_remove(&e->link);
	HASH_DELETE(by_name, o->by_name, e);
	HASH_DELETE(by_object, o->by_object, e);
	free(e->name);
	free(e);
}

static void remove_entry(struct fleet *fleet, struct entry *e)
{
	struct err err;

	if (store_delete_idempotency_key(fleet->config.store, e->project_id, e->key, &err) < 0)
		log_error("idempotency.not_saved", "error='%s'", err.message);
	forget(fleet->idempotency, e);
}

static struct entry *find(struct idempotency *o, const char *project_id, const char *key)
{
	auto_free char *name = xasprintf("%s/%s", project_id, key);
	struct entry *e = NULL;

	HASH_FIND(by_name, o->by_name, name, strlen(name), e);
	return e;
}

static void add(struct idempotency *o, const struct idempotency_row *row, uint64_t until_us)
{
	struct entry *e = xnew0(struct entry);

	e->name = xasprintf("%s/%s", row->project_id, row->key);
	e->key = e->name + strlen(row->project_id) + 1;
	(void)snprintf(e->project_id, sizeof(e->project_id), "%s", row->project_id);
	(void)snprintf(e->object_id, sizeof(e->object_id), "%s", row->object_id);
	memcpy(e->digest, row->digest, sizeof(e->digest));
	e->until_us = until_us;
	list_append(&o->all, &e->link);
	HASH_ADD_KEYPTR(by_name, o->by_name, e->name, strlen(e->name), e);
	HASH_ADD(by_object, o->by_object, object_id, strlen(e->object_id), e);
}

static void load(const struct idempotency_row *row, void *arg)
{
	uint64_t wall = clock_wall_us(), now = clock_steady_us();
	uint64_t age = wall > row->created_us ? wall - row->created_us : 0;

	add(arg, row, now + (age < KEPT_US ? KEPT_US - age : 0));
}

int idempotency_open(struct fleet *fleet, struct err *err)
{
	fleet->idempotency = xnew0(struct idempotency);
	list_init(&fleet->idempotency->all);
	return store_each_idempotency_key(fleet->config.store, load, fleet->idempotency, err);
}

void idempotency_close(struct fleet *fleet)
{
	struct entry *e;

	if (!fleet->idempotency)
		return;
	while ((e = list_first(&fleet->idempotency->all, struct entry, link)))
		forget(fleet->idempotency, e);
	free(take_ptr(fleet->idempotency));
}

/* Removes keys that are too old, and those over this project's bound. */
static void make_room(struct fleet *fleet, const char *project_id)
{
	uint64_t now = clock_steady_us();
	struct entry *first = NULL;
	size_t n = 0;

	list_for_each (&fleet->idempotency->all, struct entry, e, link) {
		if (e->until_us <= now) {
			remove_entry(fleet, e);
		} else if (strcmp(e->project_id, project_id) == 0) {
			first = first ? first : e;
			n++;
		}
	}
	if (n >= IDEMPOTENCY_KEYS_MAX)
		remove_entry(fleet, first);
}

int idempotency_find(struct fleet *fleet, const char *project_id,
                     const struct idempotency_key *idempotency_key, const char **ret_id,
                     struct err *err)
{
	struct entry *e = find(fleet->idempotency, project_id, idempotency_key->key);

	if (!e || e->until_us <= clock_steady_us())
		return 0;
	if (memcmp(e->digest, idempotency_key->digest, sizeof(e->digest)) != 0) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "Idempotency-Key: this key came with another request before");
		(void)snprintf(err->field, sizeof(err->field), "Idempotency-Key");
		return err_hint(err, "use a new key for a new request");
	}
	*ret_id = e->object_id;
	return 1;
}

int idempotency_put(struct fleet *fleet, const char *project_id,
                    const struct idempotency_key *idempotency_key, const char *object_id,
                    struct err *err)
{
	struct idempotency_row row = {
		.project_id = project_id, .object_id = object_id, .created_us = clock_wall_us()};
	struct entry *old;
	int r;

	if (!idempotency_key)
		return 0;
	row.key = idempotency_key->key;
	memcpy(row.digest, idempotency_key->digest, sizeof(row.digest));
	make_room(fleet, project_id);
	r = store_put_idempotency_key(fleet->config.store, &row, err);
	if (r < 0)
		return r;
	old = find(fleet->idempotency, project_id, idempotency_key->key);
	if (old)
		forget(fleet->idempotency, old);
	add(fleet->idempotency, &row, clock_steady_us() + KEPT_US);
	return 0;
}

bool idempotency_has(const struct fleet *fleet, const char *object_id)
{
	struct entry *e = NULL;

	HASH_FIND(by_object, fleet->idempotency->by_object, object_id, strlen(object_id), e);
	return e != NULL;
}

void idempotency_drop(struct fleet *fleet, const char *object_id)
{
	struct entry *e = NULL;

	HASH_FIND(by_object, fleet->idempotency->by_object, object_id, strlen(object_id), e);
	if (!e)
		return;
	node_give(fleet->config.node, object_id, /* with_key= */ true);
	remove_entry(fleet, e);
}
