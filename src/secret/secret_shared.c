// SPDX-License-Identifier: Apache-2.0
#include "secret/secret_shared.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/id.h"
#include "base/log.h"
#include "base/parse.h"
#include "secret/secret_private.h"
#include "store/tables/secrets.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define ID_CHARS  32                           /* of a hash */
#define MOST      (2 * SECRETS_MAX_OF_PROJECT) /* two nodes may have made the last one at once */
#define VALUE_MAX (base64_size(ENVELOPE_VALUE_MAX) - 1)
#define YEAR_MAX  UINT64_C(100000000000000000) /* a time beyond that is none */

void secret_record_id(const char *project_id, const char *name, char ret[ID_SIZE])
{
	auto_free char *text = xasprintf("%s/%s", project_id, name);
	char hex[DIGEST_HEX];
	struct digest hash;

	if (EVP_Digest(text, strlen(text), hash.bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* no memory */
	digest_to_hex(&hash, hex);
	(void)snprintf(ret, ID_SIZE, "sec_%.*s", ID_CHARS, hex);
}

static struct secret *find_record(const struct secrets *secrets, const char *project_id,
                                  const char *record_id)
{
	char id[ID_SIZE];

	list_for_each (&secrets->all, struct secret, s, link) {
		if (strcmp(s->project_id, project_id) != 0)
			continue;
		secret_record_id(project_id, s->name, id);
		if (strcmp(id, record_id) == 0)
			return s;
	}
	return NULL;
}

/* The value is base64, so that whatever it is takes the same room. */
static char *make_content(const struct secret *s, const char *hosts, const char *value, size_t len)
{
	char *base64 = xcalloc(1, base64_size(len)), *text;
	json_t *json;

	(void)base64_encode(value, len, base64);
	json = json_pack("{ss ss ss ss sI}", "id", s->id, "name", s->name, "hosts", hosts, "value",
	                 base64, "created_us", (json_int_t)s->created_us);
	text = json_dumps(json, JSON_COMPACT);
	OPENSSL_cleanse(base64, base64_size(len));
	free(base64);
	base64 = unconst(json_string_value(json_object_get(json, "value")));
	OPENSSL_cleanse(base64, strlen(base64));
	json_decref(json);
	return text;
}

int secrets_draft(const struct secrets *secrets, const char *project_id,
                  const struct secret_wish *wish, char **ret, uint64_t *ret_version,
                  struct err *err)
{
	const struct secret *known;
	auto_free char *hosts = NULL;
	int r = secret_check(wish->name, wish->len, err);

	if (r == 0 && wish->hosts)
		r = secret_read_hosts(wish->hosts, &hosts, err);
	known = r == 0 ? secret_find(secrets, project_id, wish->name) : NULL;
	if (r == 0 && !known)
		r = secret_check_room(secrets, project_id, SECRETS_MAX_OF_PROJECT, err);
	if (r < 0)
		return r;
	if (known) {
		*ret = make_content(known, hosts ? hosts : known->hosts, wish->value, wish->len);
		*ret_version = known->version;
	} else {
		struct secret *fresh = secret_make(project_id, wish->name);

		*ret = make_content(fresh, hosts ? hosts : "", wish->value, wish->len);
		*ret_version = 0;
		secret_free(fresh);
	}
	return *ret ? 0 : err_set(err, ERR_INTERNAL, 0, "the value cannot be sealed");
}

static int remove_one(struct secrets *secrets, const struct secret_arrival *a, struct err *err)
{
	struct secret *s = find_record(secrets, a->project_id, a->record_id);
	int r;

	if (!s)
		return 0;
	r = store_delete_secret(secrets->config.store, s->id, err);
	if (r < 0)
		return r;
	list_remove(&s->link);
	secrets->n_all--;
	secret_note_changed(secrets, s);
	secret_free(s);
	return 0;
}

static int refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_BAD_REQUEST, 0, "a secret of the cluster %s", why);
}

/* What read_content() gives: strings are borrowed of json; value is for the caller to overwrite. */
struct content {
	const char *id, *name;
	char *hosts; /* for free() */
	char value[ENVELOPE_VALUE_MAX + 1];
	ssize_t len;
	uint64_t created_us;
};

static int split_hosts(const char *text, char **ret, struct err *err)
{
	auto_json json_t *list = json_array();

	for (const char *at = text; *at; at += strspn(at, " ")) {
		const size_t len = strcspn(at, " ");

		(void)json_array_append_new(list, json_stringn(at, len));
		at += len;
	}
	return secret_read_hosts(list, ret, err);
}

static int read_content(const json_t *json, struct content *ret, struct err *err)
{
	const char *hosts = json_string_value(json_object_get(json, "hosts"));
	char *value = unconst(json_string_value(json_object_get(json, "value")));
	const json_int_t created = json_integer_value(json_object_get(json, "created_us"));

	ret->id = json_string_value(json_object_get(json, "id"));
	ret->name = json_string_value(json_object_get(json, "name"));
	if (!ret->id || !id_is_valid(ret->id, "se") || !ret->name || !hosts || !value ||
	    created <= 0 || (uint64_t)created > YEAR_MAX || strlen(value) > VALUE_MAX)
		return refuse(err, "has another shape");
	ret->created_us = (uint64_t)created;
	ret->len = base64_decode(value, strlen(value), ret->value);
	OPENSSL_cleanse(value, strlen(value));
	if (ret->len < 0 || ret->len > ENVELOPE_VALUE_MAX)
		return refuse(err, "has no value");
	if (secret_check(ret->name, (size_t)ret->len, err) < 0)
		return -EINVAL;
	return split_hosts(hosts, &ret->hosts, err);
}

static int put_content(struct secrets *secrets, const struct secret_arrival *a,
                       const struct content *c, struct err *err)
{
	struct secret *s = secret_find(secrets, a->project_id, c->name);
	const bool is_new = !s;
	char id[ID_SIZE];
	int r;

	secret_record_id(a->project_id, c->name, id);
	if (strcmp(id, a->record_id) != 0)
		return refuse(err, "has another's place");
	list_for_each (&secrets->all, const struct secret, other, link)
		if (other != s && strcmp(other->id, c->id) == 0)
			return refuse(err, "has another's id");
	if (is_new) {
		r = secret_check_room(secrets, a->project_id, MOST, err);
		if (r < 0)
			return r;
		s = secret_make(a->project_id, c->name);
	}
	r = secret_put_state(secrets, s,
	                     &(struct secret_state){.id = c->id,
	                                            .value = c->value,
	                                            .len = (size_t)c->len,
	                                            .hosts = c->hosts,
	                                            .version = a->version,
	                                            .created_us = c->created_us,
	                                            .changed_us = a->changed_us},
	                     err);
	if (r < 0) {
		if (is_new)
			secret_free(s);
		return r;
	}
	if (is_new)
		secret_insert(secrets, s);
	secret_note_changed(secrets, s);
	return 0;
}

int secrets_take(struct secrets *secrets, const struct secret_arrival *a, struct err *err)
{
	auto_json json_t *json = NULL;
	struct content *c;
	int r;

	if (!a->content)
		return remove_one(secrets, a, err);
	r = json_parse(a->content, strlen(a->content), &json, err);
	if (r < 0)
		return r;
	c = xnew0(struct content);
	r = read_content(json, c, err);
	if (r == 0)
		r = put_content(secrets, a, c, err);
	OPENSSL_cleanse(c->value, sizeof(c->value));
	free(c->hosts);
	free(c);
	return r;
}

char *secrets_describe(const struct secrets *secrets, const char *project_id, const char *record_id)
{
	const struct secret *s = find_record(secrets, project_id, record_id);
	char value[ENVELOPE_VALUE_MAX + 1], *content = NULL;
	ssize_t n = s ? secrets_reveal(secrets, project_id, s->name, value, NULL) : -ENOENT;

	if (n >= 0)
		content = make_content(s, s->hosts, value, (size_t)n);
	OPENSSL_cleanse(value, sizeof(value));
	return content;
}

void secrets_each_of_all(const struct secrets *secrets,
                         void (*fn)(const struct secret_arrival *one, void *arg), void *arg)
{
	char id[ID_SIZE];

	list_for_each (&secrets->all, const struct secret, s, link) {
		secret_record_id(s->project_id, s->name, id);
		fn(&(struct secret_arrival){.record_id = id,
		                            .project_id = s->project_id,
		                            .version = s->version,
		                            .changed_us = s->changed_us},
		   arg);
	}
}

void secrets_note_set(struct secrets *secrets, const char *project_id, const char *name)
{
	const struct secret *s = secret_find(secrets, project_id, name);

	if (s)
		secret_note_event(secrets, s, EVENT_SECRET_SET);
}

void secrets_note_removed(struct secrets *secrets, const char *project_id, const char *name,
                          uint64_t version)
{
	struct secret *s = secret_make(project_id, name);

	s->version = version;
	secret_note_event(secrets, s, EVENT_SECRET_REMOVED);
	secret_free(s);
}
