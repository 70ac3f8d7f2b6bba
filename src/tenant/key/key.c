// SPDX-License-Identifier: Apache-2.0
/*
 * Keys are few and needed at every request, so all of them are in memory; each change is also
 * written to the store. A key is found by the SHA-256 of its secret: the timing of a hash
 * table over digests tells a guesser nothing about secrets, and the last comparison takes constant
 * time.
 *
 * A revoked key leaves the tables at once but is not freed before the ring: a running request may
 * still hold it. Projects are in project.c, secrets in key_secret.c.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "store/tables/keys.h"

#include <openssl/crypto.h>

/* FNV-1a: the digests are random already, and ids and names are few. */
static unsigned hash_bytes(const void *data, size_t len)
{
	const unsigned char *p = data;
	unsigned hash = 2166136261U;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 16777619U;
	return hash;
}

#define HASH_FUNCTION(key, len, hash) ((hash) = hash_bytes(key, len))
#define HASH_KEYCMP(a, b, len)        CRYPTO_memcmp(a, b, len)
#include "tenant/key/key_private.h"
#include "tenant/person_key.h"
#include "tenant/shared_key.h"

#define NAME_BYTES_MAX 64
#define KEYS_MAX       10000 /* of all projects, beside their shares; kept in memory */
#define KEYS_PROJECT   1000  /* of one project, with those that are revoked */
#define KEYS_SHARE     16    /* a project may always have this many */
#define USE_STEP_US    (UINT64_C(600) * 1000000) /* between two writes of a key's use */

DEFINE_FREEP(struct keyring, keyring_free)

static const struct {
	const char *name;
} scopes[] = {
	[SCOPE_READ] = {"read"},
	[SCOPE_WRITE] = {"write"},
	[SCOPE_ADMIN] = {"admin"},
};

const char *key_scope_name(enum key_scope scope)
{
	return scopes[scope].name;
}

int key_scope_parse(const char *text, enum key_scope *ret)
{
	for (size_t i = SCOPE_READ; i < ARRAY_SIZE(scopes); i++)
		if (strcmp(scopes[i].name, text) == 0) {
			*ret = (enum key_scope)i;
			return 0;
		}
	return -EINVAL;
}

static bool is_name(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > NAME_BYTES_MAX || !utf8_is_valid(name, len))
		return false;
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return true;
}

int key_check_name(const char *name, struct err *err)
{
	return is_name(name)
	               ? 0
	               : err_field(err, "name", "must have 1 to %d bytes and no control characters",
	                           NAME_BYTES_MAX);
}

static void attach_key(struct keyring *ring, struct key *key)
{
	list_append(&ring->keys, &key->link);
	if (key->revoked_us != 0)
		return;
	HASH_ADD(by_hash, ring->keys_by_hash, hash, sizeof(key->hash), key);
	HASH_ADD_KEYPTR(by_id, ring->keys_by_id, key->id, strlen(key->id), key);
}

static struct key *key_new(const struct key_row *row)
{
	struct key *key = xnew0(struct key);

	(void)snprintf(key->id, sizeof(key->id), "%s", row->id);
	(void)snprintf(key->project_id, sizeof(key->project_id), "%s", row->project_id);
	key->name = xstrdup(row->name);
	memcpy(key->hash, row->hash, sizeof(key->hash));
	key->scope = (enum key_scope)row->scope;
	key->created_us = row->created_us;
	key->revoked_us = row->revoked_us;
	key->expires_us = row->expires_us;
	key->used_us = key->use_saved_us = row->used_us;
	person_key_read(key, row->person);
	return key;
}

static int load_key(const struct key_row *row, void *arg)
{
	if (row->scope >= SCOPE_READ && row->scope <= SCOPE_ADMIN) /* else it opens nothing */
		attach_key(arg, key_new(row));
	return 0;
}

int keyring_load(struct store *store, struct keyring **ret, struct err *err)
{
	auto_call(keyring_freep) struct keyring *ring = xnew0(struct keyring);
	int r;

	ring->store = store;
	list_init(&ring->keys);
	list_init(&ring->projects);
	r = projects_load(ring, err);
	if (r == 0)
		r = store_each_key(ring->store, load_key, ring, err);
	if (r < 0)
		return r;
	ring->root.scope = SCOPE_ADMIN;
	ring->root.name = xstrdup("root");
	*ret = take_ptr(ring);
	return 0;
}

static void save_use(struct keyring *ring, struct key *key)
{
	struct err err;

	key->use_saved_us = key->used_us;
	if (store_note_key_use(ring->store, key->id, key->used_us, &err) < 0)
		log_warn("key.use_not_saved", "id=%s error='%s'", key->id, err.message);
}

void keyring_free(struct keyring *ring)
{
	if (!ring)
		return;
	HASH_CLEAR(by_hash, ring->keys_by_hash);
	HASH_CLEAR(by_id, ring->keys_by_id);
	list_for_each (&ring->keys, struct key, key, link) {
		if (key->used_us != key->use_saved_us && key->revoked_us == 0)
			save_use(ring, key);
		free(key->name);
		free(key->person);
		free(key);
	}
	projects_free(ring);
	free(ring->root.name);
	free(ring);
}

const struct key *keyring_check(struct keyring *ring, const char *secret)
{
	unsigned char hash[32];
	struct key *key = NULL;

	if (!key_hash_secret(secret, hash))
		return NULL;
	HASH_FIND(by_hash, ring->keys_by_hash, hash, sizeof(hash), key);
	return key && key_is_good(key) ? key : NULL;
}

void keyring_note_use(struct keyring *ring, const struct key *key)
{
	struct key *used = unconst(key);

	if (key == &ring->root)
		return;
	used->used_us = clock_wall_us();
	if (used->used_us - used->use_saved_us >= USE_STEP_US)
		save_use(ring, used);
}

bool key_is_good(const struct key *key)
{
	return key->revoked_us == 0 && (key->expires_us == 0 || clock_wall_us() < key->expires_us);
}

const struct key *keyring_root(struct keyring *ring)
{
	return &ring->root;
}

const char *key_id(const struct key *key)
{
	return key->id;
}

const char *key_name(const struct key *key)
{
	return key->name;
}

enum key_scope key_scope(const struct key *key)
{
	return key->scope;
}

const char *key_person(const struct key *key)
{
	return key->person;
}

const char *key_project_id(const struct key *key)
{
	return key->project_id;
}

void key_to_json(const struct key *key, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "id", key->id);
	json_put_str(w, "project_id", key->project_id);
	json_put_str(w, "name", key->name);
	json_put_str(w, "scope", key_scope_name(key->scope));
	json_put_u64(w, "created_us", key->created_us);
	if (key->expires_us != 0)
		json_put_u64(w, "expires_us", key->expires_us);
	if (key->used_us != 0)
		json_put_u64(w, "used_us", key->used_us);
	if (key->person)
		json_put_raw(w, "person", key->person, strlen(key->person));
	json_close_object(w);
}

int key_add_hashed(struct keyring *ring, const struct key_row *like, const struct key **ret,
                   struct err *err)
{
	char id[ID_SIZE];
	struct key_row row = *like;
	struct key *key;
	int r;

	id_make(id, "key");
	row.id = id;
	row.created_us = clock_wall_us();
	r = store_put_key(ring->store, &row, err);
	if (r < 0)
		return r;
	key = key_new(&row);
	attach_key(ring, key);
	*ret = key;
	return 0;
}

static void detach_key(struct keyring *ring, struct key *key)
{
	HASH_DELETE(by_hash, ring->keys_by_hash, key);
	HASH_DELETE(by_id, ring->keys_by_id, key);
}

/* Keeps only the newest of the revoked and expired keys, so that a client that makes keys without
 * end cannot fill the host. */
int key_make_room(struct keyring *ring, const char *project_id, struct err *err)
{
	struct key *oldest = NULL;
	size_t n = 0;

	list_for_each (&ring->keys, struct key, key, link) {
		if (key->is_forgotten || strcmp(key->project_id, project_id) != 0)
			continue;
		n++;
		if (!key_is_good(key) && !oldest)
			oldest = key;
	}
	if (n < KEYS_SHARE || (n < KEYS_PROJECT && HASH_CNT(by_id, ring->keys_by_id) < KEYS_MAX))
		return 0;
	if (!oldest && n < KEYS_PROJECT)
		return err_set(err, ERR_LIMIT, 0, "there are %d keys, which is the limit",
		               KEYS_MAX);
	if (!oldest)
		return err_set(err, ERR_LIMIT, 0, "the project has %zu keys, which is the limit",
		               n);
	oldest->is_forgotten = true;
	if (oldest->revoked_us == 0) {
		detach_key(ring, oldest);
		oldest->revoked_us = oldest->expires_us;
	}
	return store_delete_key(ring->store, oldest->id, err);
}

int keyring_add(struct keyring *ring, const char *project_id, const char *name,
                enum key_scope scope, uint64_t expires_us, char secret[48], const struct key **ret,
                struct err *err)
{
	struct key_row row = {
		.project_id = project_id, .name = name, .scope = scope, .expires_us = expires_us};
	int r = key_check_name(name, err);

	if (r < 0)
		return r;
	if (!key_project_find(ring, project_id, NULL))
		return err_set(err, ERR_NOT_FOUND, 0, "no project '%s'", project_id);
	r = key_make_room(ring, project_id, err);
	if (r < 0)
		return r;
	key_draw_secret(secret, row.hash);
	return key_add_hashed(ring, &row, ret, err);
}

const struct key *keyring_find_key(struct keyring *ring, const char *project_id, const char *id)
{
	struct key *key = NULL;

	HASH_FIND(by_id, ring->keys_by_id, id, strlen(id), key);
	return key && key_is_good(key) && strcmp(key->project_id, project_id) == 0 ? key : NULL;
}

int key_set_revoked(struct keyring *ring, struct key *key, struct err *err)
{
	struct key_row row;
	int r;

	if (key->revoked_us != 0)
		return 0;
	row = (struct key_row){.id = key->id,
	                       .project_id = key->project_id,
	                       .name = key->name,
	                       .scope = key->scope,
	                       .created_us = key->created_us,
	                       .revoked_us = clock_wall_us(),
	                       .expires_us = key->expires_us,
	                       .person = key->person};
	memcpy(row.hash, key->hash, sizeof(row.hash));
	r = store_put_key(ring->store, &row, err);
	if (r < 0)
		return r;
	key->revoked_us = row.revoked_us;
	detach_key(ring, key);
	return 0;
}

int keyring_revoke(struct keyring *ring, const char *project_id, const char *id, struct err *err)
{
	struct key *key = NULL;

	HASH_FIND(by_id, ring->keys_by_id, id, strlen(id), key);
	if (!key || strcmp(key->project_id, project_id) != 0)
		return err_set(err, ERR_NOT_FOUND, 0, "no key '%.64s'", id);
	return key_set_revoked(ring, key, err);
}

void keyring_each(struct keyring *ring, const char *project_id,
                  void (*fn)(const struct key *key, void *arg), void *arg)
{
	list_for_each (&ring->keys, struct key, key, link)
		if (key->revoked_us == 0 && strcmp(key->project_id, project_id) == 0 &&
		    (!key->person || key_is_good(key))) /* who was there once is no news */
			fn(key, arg);
}

void keyring_each_named(struct keyring *ring, const char *project_id, const char *name,
                        void (*fn)(const struct key *key, void *arg), void *arg)
{
	list_for_each (&ring->keys, struct key, key, link)
		if (strcmp(key->name, name) == 0 &&
		    (!project_id || strcmp(key->project_id, project_id) == 0))
			fn(key, arg);
}

void key_forget_all(struct keyring *ring, const char *project_id)
{
	list_for_each (&ring->keys, struct key, key, link) {
		if (key->is_forgotten || strcmp(key->project_id, project_id) != 0)
			continue;
		key->is_forgotten = true;
		if (key->revoked_us != 0)
			continue;
		detach_key(ring, key);
		key->revoked_us = clock_wall_us();
	}
}

const struct key *key_attach_row(struct keyring *ring, const struct key_row *row)
{
	struct key *key = key_new(row);

	attach_key(ring, key);
	return key;
}

struct key *key_find_known(struct keyring *ring, const char *id)
{
	struct key *found = NULL;

	HASH_FIND(by_id, ring->keys_by_id, id, strlen(id), found);
	if (found)
		return found;
	list_for_each (&ring->keys, struct key, key, link)
		if (strcmp(key->id, id) == 0)
			return key;
	return NULL;
}

struct key *key_find_hash(struct keyring *ring, const unsigned char hash[32])
{
	struct key *found = NULL;

	HASH_FIND(by_hash, ring->keys_by_hash, hash, sizeof(found->hash), found);
	return found;
}

int key_forget(struct keyring *ring, struct key *key, struct err *err)
{
	int r = store_delete_key(ring->store, key->id, err);

	if (r < 0)
		return r;
	key->is_forgotten = true;
	if (key->revoked_us == 0)
		detach_key(ring, key);
	key->revoked_us = clock_wall_us();
	return 0;
}

int key_count_check(struct keyring *ring, struct err *err)
{
	return HASH_CNT(by_id, ring->keys_by_id) < KEYS_MAX
	               ? 0
	               : err_set(err, ERR_LIMIT, 0, "there are %d keys, which is the limit",
	                         KEYS_MAX);
}
