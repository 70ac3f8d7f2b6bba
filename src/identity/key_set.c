// SPDX-License-Identifier: Apache-2.0
#include "identity/key_set.h"

#include "base/list.h"
#include "base/log.h"
#include "secret/sealed_text.h"
#include "store/tables/identity_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LABEL_SIZE (SIGNING_KEY_NAME_SIZE + 16)

struct entry {
	struct list link; /* in the order of their making */
	char id[SIGNING_KEY_NAME_SIZE];
	char *modulus, *sealed;
	struct signing_key *key; /* NULL: it does not open, and was retired */
	uint64_t created_us, active_us, retired_us;
	bool is_changed; /* while the set is opened: its row is to be written anew */
};

struct key_set {
	struct store *store;
	const struct master_keys *keys;
	uint64_t now_us; /* while it is opened */
	struct list all;
	size_t n_lost;
};

static void entry_free(struct entry *e)
{
	signing_key_free(e->key);
	free(e->modulus);
	free(e->sealed);
	free(e);
}

static int save(const struct key_set *set, const struct entry *e, struct err *err)
{
	const struct identity_key_row row = {.id = e->id,
	                                     .sealed = e->sealed,
	                                     .modulus = e->modulus,
	                                     .created_us = e->created_us,
	                                     .active_us = e->active_us,
	                                     .retired_us = e->retired_us};

	return store_put_identity_key(set->store, &row, err);
}

static int discard(struct key_set *set, struct entry *e, struct err *err)
{
	int r = store_delete_identity_key(set->store, e->id, err);

	if (r < 0)
		return r;
	list_remove(&e->link);
	entry_free(e);
	return 0;
}

static void label_of(const char *id, char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "identity %s", id);
}

static int seal(const struct key_set *set, struct entry *e, struct err *err)
{
	auto_call(sealed_text_wipe) char *pem = signing_key_pem(e->key);
	char label[LABEL_SIZE];
	char *sealed;

	label_of(e->id, label);
	sealed = pem ? sealed_text_make(set->keys, label, pem, strlen(pem)) : NULL;
	if (!sealed)
		return err_set(err, ERR_INTERNAL, 0, "the key of identities cannot be sealed");
	free(e->sealed);
	e->sealed = sealed;
	return 0;
}

/* Opens the private half. *ret_stale: it is to be sealed anew. */
static int unseal(const struct key_set *set, struct entry *e, bool *ret_stale)
{
	auto_call(sealed_text_wipe) char *pem = NULL;
	char label[LABEL_SIZE];
	int r;

	label_of(e->id, label);
	r = sealed_text_open(set->keys, label, e->sealed, &pem, ret_stale);
	if (r == 0)
		r = signing_key_read(pem, &e->key);
	if (r == 0 && (strcmp(signing_key_name(e->key), e->id) != 0 ||
	               strcmp(signing_key_modulus(e->key), e->modulus) != 0))
		r = -EBADMSG;
	if (r < 0) {
		signing_key_free(take_ptr(e->key));
		*ret_stale = false;
	}
	return r;
}

static bool clamp(uint64_t *at_us, uint64_t now_us)
{
	if (*at_us <= now_us)
		return false;
	*at_us = now_us;
	return true;
}

static int load_one(const struct identity_key_row *row, void *arg)
{
	struct key_set *set = arg;
	struct entry *e = xnew0(struct entry);

	(void)snprintf(e->id, sizeof(e->id), "%s", row->id);
	e->sealed = xstrdup(row->sealed);
	e->modulus = xstrdup(row->modulus);
	e->created_us = row->created_us;
	e->active_us = row->active_us;
	e->retired_us = row->retired_us;
	list_append(&set->all, &e->link);
	if (e->retired_us == 0 && unseal(set, e, &e->is_changed) < 0) {
		set->n_lost++;
		e->retired_us = set->now_us; /* one that never signed goes by key_set_prune() */
		e->is_changed = true;
	}
	e->is_changed |= clamp(&e->active_us, set->now_us);
	e->is_changed |= clamp(&e->retired_us, set->now_us);
	return 0;
}

/* Not during the walk, which could meet them again. What cannot be written stays as it was. */
static void save_changed(struct key_set *set)
{
	struct err err;

	list_for_each (&set->all, struct entry, e, link) {
		if (!e->is_changed)
			continue;
		e->is_changed = false;
		if ((e->key && seal(set, e, &err) < 0) || save(set, e, &err) < 0)
			log_error("identity.not_saved", "key=%s error='%s'", e->id, err.message);
	}
}

static bool is_current(const struct entry *e)
{
	return e->active_us > 0 && e->retired_us == 0;
}

static bool is_next(const struct entry *e)
{
	return e->active_us == 0 && e->retired_us == 0;
}

/* The one that began to sign last: a kill between two writes may leave two. */
static struct entry *find_current(const struct key_set *set)
{
	struct entry *found = NULL;

	list_for_each (&set->all, struct entry, e, link)
		if (is_current(e) && (!found || e->active_us >= found->active_us))
			found = e;
	return found;
}

static struct entry *find_next(const struct key_set *set)
{
	list_for_each (&set->all, struct entry, e, link)
		if (is_next(e))
			return e;
	return NULL;
}

/* All that sign, but for one. */
static int retire_others(struct key_set *set, const struct entry *but, uint64_t now_us,
                         struct err *err)
{
	int r = 0;

	list_for_each (&set->all, struct entry, e, link) {
		if (r < 0 || e == but || !is_current(e))
			continue;
		e->retired_us = now_us;
		signing_key_free(take_ptr(e->key)); /* it signs nothing any more */
		r = save(set, e, err);
	}
	return r;
}

int key_set_open(struct store *store, const struct master_keys *keys, uint64_t now_us,
                 struct key_set **ret, struct err *err)
{
	struct key_set *set = xnew0(struct key_set);
	int r;

	*set = (struct key_set){.store = store, .keys = keys, .now_us = now_us};
	list_init(&set->all);
	r = store_each_identity_key(store, load_one, set, err);
	save_changed(set);
	if (r == 0)
		r = retire_others(set, find_current(set), now_us, err);
	if (r == 0)
		r = key_set_prune(set, now_us, err);
	if (r < 0) {
		key_set_close(set);
		return r;
	}
	*ret = set;
	return 0;
}

void key_set_close(struct key_set *set)
{
	if (!set)
		return;
	list_for_each (&set->all, struct entry, e, link)
		entry_free(e);
	free(set);
}

size_t key_set_lost(const struct key_set *set)
{
	return set->n_lost;
}

const struct signing_key *key_set_current(const struct key_set *set)
{
	const struct entry *e = find_current(set);

	return e ? e->key : NULL;
}

bool key_set_has_next(const struct key_set *set)
{
	return find_next(set) != NULL;
}

bool key_set_is_due(struct key_set *set, uint64_t now_us, uint64_t age_us)
{
	struct entry *e = find_current(set);

	if (!e)
		return true;
	(void)clamp(&e->active_us, now_us);
	return now_us - e->active_us >= age_us;
}

int key_set_add(struct key_set *set, struct signing_key *key, uint64_t now_us, struct err *err)
{
	struct entry *e = xnew0(struct entry);
	int r;

	(void)snprintf(e->id, sizeof(e->id), "%s", signing_key_name(key));
	e->modulus = xstrdup(signing_key_modulus(key));
	e->key = key;
	e->created_us = now_us;
	r = seal(set, e, err);
	if (r == 0)
		r = save(set, e, err);
	if (r < 0) {
		entry_free(e);
		return r;
	}
	list_append(&set->all, &e->link);
	return 0;
}

/* The new one first: who is killed in between has two that sign, and not none. */
int key_set_promote(struct key_set *set, uint64_t now_us, struct err *err)
{
	struct entry *e = find_next(set);
	int r;

	if (!e)
		return err_set(err, ERR_INTERNAL, 0, "there is no next key of identities");
	e->active_us = now_us;
	r = save(set, e, err);
	if (r < 0) {
		e->active_us = 0;
		return r;
	}
	return retire_others(set, e, now_us, err);
}

static bool is_over(struct entry *e, uint64_t now_us)
{
	if (e->retired_us == 0)
		return false;
	(void)clamp(&e->retired_us, now_us);
	return e->active_us == 0 || now_us - e->retired_us >= KEY_SET_OVERLAP_US;
}

int key_set_prune(struct key_set *set, uint64_t now_us, struct err *err)
{
	int r = 0;

	list_for_each (&set->all, struct entry, e, link)
		if (r == 0 && is_over(e, now_us))
			r = discard(set, e, err);
	return r;
}

int key_set_clear(struct key_set *set, struct err *err)
{
	int r = 0;

	list_for_each (&set->all, struct entry, e, link)
		if (r == 0)
			r = discard(set, e, err);
	return r;
}

void key_set_put_public(const struct key_set *set, struct json_writer *w)
{
	json_open_array(w, "keys");
	list_for_each (&set->all, const struct entry, e, link) {
		json_open_object(w, NULL);
		json_put_str(w, "kty", "RSA");
		json_put_str(w, "use", "sig");
		json_put_str(w, "alg", "RS256");
		json_put_str(w, "kid", e->id);
		json_put_str(w, "n", e->modulus);
		json_put_str(w, "e", "AQAB");
		json_close_object(w);
	}
	json_close_array(w);
}

static void put_time(struct json_writer *w, const char *name, uint64_t at_us)
{
	if (at_us > 0)
		json_put_u64(w, name, at_us);
	else
		json_put_null(w, name);
}

void key_set_put(const struct key_set *set, struct json_writer *w, const char *name)
{
	json_open_array(w, name);
	list_for_each (&set->all, const struct entry, e, link) {
		json_open_object(w, NULL);
		json_put_str(w, "id", e->id);
		json_put_str(w, "state",
		             is_next(e)      ? "next"
		             : is_current(e) ? "current"
		                             : "retired");
		json_put_u64(w, "created_us", e->created_us);
		put_time(w, "active_us", e->active_us);
		put_time(w, "retired_us", e->retired_us);
		put_time(w, "removed_us",
		         e->retired_us > 0 ? e->retired_us + KEY_SET_OVERLAP_US : 0);
		json_close_object(w);
	}
	json_close_array(w);
}
