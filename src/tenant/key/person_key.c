// SPDX-License-Identifier: Apache-2.0
#include "tenant/person_key.h"

#include "base/clock.h"
#include "base/parse.h"
#include "store/tables/keys.h"
#include "tenant/key/key_private.h"

#include <openssl/evp.h>
#include <string.h>

#define NAME_MAX_BYTES  64 /* of a key */
#define TEXT_MAX_BYTES  254
#define PERSON_JSON_MAX 2047 /* EVENT_PERSON_SIZE */
#define ID_DIGITS       26

void person_id_make(const struct person *person, char ret[ID_SIZE])
{
	auto_free char *both = xasprintf("%s\n%s", person->issuer, person->subject);
	unsigned char hash[32];
	int n;

	if (EVP_Digest(both, strlen(both), hash, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only on no memory */
	n = snprintf(ret, ID_SIZE, "per_");
	for (int i = 0; i < ID_DIGITS / 2; i++)
		n += snprintf(ret + n, (size_t)(ID_SIZE - n), "%02x", hash[i]);
}

/* A text of the provider, without what would not be seen as it is. */
static char *clean(const char *text, size_t max)
{
	char *ret = xstrndup(text, max);
	bool is_cut;

	ret[utf8_valid_prefix(ret, strlen(ret), &is_cut)] = '\0';
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	return ret;
}

static char *person_json(const struct person *person)
{
	auto_free char *name = clean(person->name, TEXT_MAX_BYTES);
	auto_free char *email = clean(person->email, TEXT_MAX_BYTES);
	auto_call(buf_done) struct buf out = BUF_INIT(PERSON_JSON_MAX);
	struct json_writer w;

	json_writer_init(&w, &out);
	json_open_object(&w, NULL);
	json_put_str(&w, "issuer", person->issuer);
	json_put_str(&w, "subject", person->subject);
	json_put_str(&w, "name", name[0] ? name : NULL);
	json_put_str(&w, "email", email[0] ? email : NULL);
	json_close_object(&w);
	return json_writer_end(&w) < 0 ? NULL : xstrdup(buf_str(&out));
}

void person_key_read(struct key *key, const char *person)
{
	auto_json json_t *object = person && *person ? json_loads(person, 0, NULL) : NULL;
	struct person who = {
		.issuer = json_string_value(json_object_get(object, "issuer")),
		.subject = json_string_value(json_object_get(object, "subject")),
	};

	if (!who.issuer || !who.subject)
		return;
	free(key->person);
	key->person = xstrdup(person);
	person_id_make(&who, key->person_id);
}

const struct key *person_key_find(struct keyring *ring, const char *person_id,
                                  const char *project_id)
{
	list_for_each (&ring->keys, struct key, key, link)
		if (strcmp(key->person_id, person_id) == 0 &&
		    strcmp(key->project_id, project_id) == 0 && key_is_good(key))
			return key;
	return NULL;
}

void person_keys_each(struct keyring *ring, const char *person_id,
                      void (*fn)(const struct key *key, void *arg), void *arg)
{
	list_for_each (&ring->keys, struct key, key, link)
		if (strcmp(key->person_id, person_id) == 0 && key_is_good(key))
			fn(key, arg);
}

static int set_key(struct keyring *ring, struct key *key, const char *name, enum key_scope scope,
                   uint64_t expires_us, const char *person, struct err *err)
{
	const struct key_row row = {.id = key->id,
	                            .name = name,
	                            .scope = scope,
	                            .expires_us = expires_us,
	                            .person = person};
	int r;

	if (key->scope == scope && key->expires_us == expires_us &&
	    strcmp(key->person, person) == 0)
		return 0;
	r = store_set_person_key(ring->store, &row, err);
	if (r < 0)
		return r;
	if (strcmp(key->name, name) != 0) {
		free(key->name);
		key->name = xstrdup(name);
	}
	if (strcmp(key->person, person) != 0) {
		free(key->person);
		key->person = xstrdup(person);
	}
	key->scope = scope;
	key->expires_us = expires_us;
	return 0;
}

static const struct person_role *role_in(const struct person_role *roles, size_t n,
                                         const char *project_id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(roles[i].project_id, project_id) == 0)
			return &roles[i];
	return NULL;
}

/* What a person had and has no more ends now. */
static int end_others(struct keyring *ring, const char *person_id, const struct person_role *roles,
                      size_t n, struct err *err)
{
	int r = 0;

	list_for_each (&ring->keys, struct key, key, link)
		if (r == 0 && strcmp(key->person_id, person_id) == 0 && key_is_good(key) &&
		    !role_in(roles, n, key->project_id))
			r = set_key(ring, key, key->name, key->scope, clock_wall_us(), key->person,
			            err);
	return r;
}

static int make_key(struct keyring *ring, const struct person_role *role, const char *name,
                    uint64_t expires_us, const char *person, struct err *err)
{
	struct key_row row = {.project_id = role->project_id,
	                      .name = name,
	                      .scope = role->scope,
	                      .expires_us = expires_us,
	                      .person = person};
	const struct key *key;
	int r = key_make_room(ring, role->project_id, err);

	random_bytes(row.hash, sizeof(row.hash)); /* of no secret that anybody could know */
	return r < 0 ? r : key_add_hashed(ring, &row, &key, err);
}

static int set_role(struct keyring *ring, const char *person_id, const struct person_role *role,
                    uint64_t since_us, uint64_t expires_us, const char *name, const char *person,
                    struct err *err)
{
	struct key *found = NULL;

	list_for_each (&ring->keys, struct key, key, link) {
		if (key->is_forgotten || strcmp(key->person_id, person_id) != 0 ||
		    strcmp(key->project_id, role->project_id) != 0)
			continue;
		if (key->revoked_us >= since_us && key->revoked_us != 0)
			return 0;
		if (key->revoked_us == 0)
			found = key;
	}
	if (found)
		return set_key(ring, found, name, role->scope, expires_us, person, err);
	return make_key(ring, role, name, expires_us, person, err);
}

int person_keys_set(struct keyring *ring, const struct person *person,
                    const struct person_role *roles, size_t n, uint64_t since_us,
                    uint64_t expires_us, struct err *err)
{
	const char *shown = person->email[0] ? person->email : person->name;
	auto_free char *name = clean(shown[0] ? shown : person->subject, NAME_MAX_BYTES);
	auto_free char *json = person_json(person);
	char id[ID_SIZE];
	int r;

	if (!json)
		return err_set(err, ERR_UNAUTHENTICATED, E2BIG,
		               "what the provider tells of this "
		               "person is too long");
	person_id_make(person, id);
	r = end_others(ring, id, roles, n, err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = set_role(ring, id, &roles[i], since_us, expires_us, name, json, err);
	return r;
}

int person_keys_end(struct keyring *ring, const char *person_id, uint64_t expires_us,
                    struct err *err)
{
	int r = 0;

	list_for_each (&ring->keys, struct key, key, link)
		if (r == 0 && strcmp(key->person_id, person_id) == 0 && key_is_good(key))
			r = set_key(ring, key, key->name, key->scope, expires_us, key->person, err);
	return r;
}
