// SPDX-License-Identifier: Apache-2.0
#include "secret/secret_private.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "store/tables/secrets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LABEL_SIZE (ID_SIZE + SECRET_NAME_SIZE + 24)

/* Whose value it is. No part has a '/'. */
static void put_label(const char *project_id, const char *name, uint64_t version,
                      char ret[LABEL_SIZE])
{
	(void)snprintf(ret, LABEL_SIZE, "%s/%s/%" PRIu64, project_id, name, version);
}

static void label_of(const struct secret *s, char ret[LABEL_SIZE])
{
	put_label(s->project_id, s->name, s->version, ret);
}

static struct secret_row row_of(const struct secret *s)
{
	return (struct secret_row){.id = s->id,
	                           .project_id = s->project_id,
	                           .name = s->name,
	                           .hosts = s->hosts,
	                           .version = s->version,
	                           .key_id = s->envelope.key_id,
	                           .wrapped = s->envelope.wrapped,
	                           .sealed = s->envelope.sealed,
	                           .created_us = s->created_us,
	                           .changed_us = s->changed_us};
}

void secret_free(struct secret *s)
{
	envelope_done(&s->envelope);
	free(s->hosts);
	free(s);
}

void secret_let_go(struct secrets *secrets, struct secret *s)
{
	list_remove(&s->link);
	secrets->n_all--;
	secret_free(s);
}

void secret_insert(struct secrets *secrets, struct secret *s)
{
	struct list *before = &secrets->all;

	list_for_each (&secrets->all, struct secret, other, link) {
		if (strcmp(other->name, s->name) > 0) {
			before = &other->link;
			break;
		}
	}
	list_append(before, &s->link); /* ahead of that one, or at the end */
	secrets->n_all++;
}

struct secret *secret_find(const struct secrets *secrets, const char *project_id, const char *name)
{
	list_for_each (&secrets->all, struct secret, s, link)
		if (strcmp(s->name, name) == 0 && strcmp(s->project_id, project_id) == 0)
			return s;
	return NULL;
}

static int load_one(const struct secret_row *row, void *arg)
{
	struct secrets *secrets = arg;
	struct secret *s = xnew0(struct secret);

	(void)snprintf(s->id, sizeof(s->id), "%s", row->id);
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", row->project_id);
	(void)snprintf(s->name, sizeof(s->name), "%s", row->name);
	s->hosts = xstrdup(row->hosts);
	s->version = row->version;
	s->created_us = row->created_us;
	s->changed_us = row->changed_us;
	(void)snprintf(s->envelope.key_id, sizeof(s->envelope.key_id), "%s", row->key_id);
	s->envelope.wrapped = xstrdup(row->wrapped);
	s->envelope.sealed = xstrdup(row->sealed);
	secret_insert(secrets, s);
	return 0;
}

/* One that cannot be sealed anew stays as it is: the key that it needs may come back. */
static void rewrap_all(struct secrets *secrets)
{
	size_t n_done = 0, n_locked = 0;

	list_for_each (&secrets->all, struct secret, s, link) {
		char label[LABEL_SIZE];
		struct secret_row row;
		struct err err;
		int r;

		label_of(s, label);
		r = envelope_rewrap(secrets->config.keys, label, &s->envelope);
		n_locked += r < 0;
		if (r != 0)
			continue;
		row = row_of(s);
		if (store_put_secret(secrets->config.store, &row, &err) < 0)
			log_error("secret.not_saved", "id=%s error='%s'", s->id, err.message);
		n_done++;
	}
	if (n_done > 0)
		log_info("secret.rewrapped", "secrets=%zu key=%s", n_done,
		         secrets->config.keys->ids[0]);
	if (n_locked > 0)
		log_error("secret.locked",
		          "secrets=%zu message='their master key is not in the key file, or they "
		          "were altered'",
		          n_locked);
}

int secrets_open(const struct secrets_config *config, struct secrets **ret, struct err *err)
{
	struct secrets *secrets = xnew0(struct secrets);
	int r;

	secrets->config = *config;
	list_init(&secrets->all);
	r = store_each_secret(config->store, load_one, secrets, err);
	if (r < 0) {
		secrets_close(secrets);
		return r;
	}
	rewrap_all(secrets);
	*ret = secrets;
	return 0;
}

void secrets_close(struct secrets *secrets)
{
	if (!secrets)
		return;
	list_for_each (&secrets->all, struct secret, s, link)
		secret_free(s);
	free(secrets);
}

void secrets_on_change(struct secrets *secrets,
                       void (*fn)(const char *project_id, const char *name, void *arg), void *arg)
{
	secrets->changed = fn;
	secrets->changed_arg = arg;
}

void secret_note_changed(struct secrets *secrets, const struct secret *s)
{
	if (secrets->changed)
		secrets->changed(s->project_id, s->name, secrets->changed_arg);
}

void secret_note_event(struct secrets *secrets, const struct secret *s, enum event_type type)
{
	struct event e;
	struct json_writer *w = event_begin(&e, secrets->config.events, type, s->project_id, NULL);

	json_put_str(w, "name", s->name);
	json_put_u64(w, "version", s->version);
	event_end(&e);
}

static void tell(struct secrets *secrets, const struct secret *s, enum event_type type)
{
	secret_note_event(secrets, s, type);
	secret_note_changed(secrets, s);
}

int secret_check_room(const struct secrets *secrets, const char *project_id, size_t most,
                      struct err *err)
{
	size_t n = 0;

	list_for_each (&secrets->all, const struct secret, s, link)
		n += strcmp(s->project_id, project_id) == 0;
	if (n >= most || (n >= SECRETS_SHARE && secrets->n_all >= SECRETS_MAX))
		return err_set(err, ERR_LIMIT, 0, "there are %zu secrets, which is the limit", n);
	return 0;
}

int secret_check(const char *name, size_t len, struct err *err)
{
	if (!secret_name_is_valid(name))
		return err_field(err, "name",
		                 "must begin with a letter, and have letters, digits, '_' and '-' "
		                 "alone, %d at most",
		                 SECRET_NAME_MAX);
	if (len == 0)
		return err_field(err, "value", "is empty");
	if (len > ENVELOPE_VALUE_MAX)
		return err_field(err, "value", "is longer than %d bytes", ENVELOPE_VALUE_MAX);
	return 0;
}

int secret_read_hosts(const json_t *hosts, char **ret, struct err *err)
{
	auto_call(buf_done) struct buf text =
		BUF_INIT((size_t)SECRET_HOSTS_MAX * (HOSTNAME_SIZE + 1));
	const size_t n = json_array_size(hosts);

	if (n > SECRET_HOSTS_MAX)
		return err_field(err, "hosts", "has more than %d names", SECRET_HOSTS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(hosts, i);
		const char *host = json_string_value(one), *why = "is not a string";
		struct hostname_pattern pattern;

		if (!json_is_string(one) ||
		    hostname_pattern_parse(json_string_value(one), json_string_length(one),
		                           &pattern, &why) < 0)
			return err_field(
				err, "hosts", "'%.100s' %s", host ? host : "",
				host && strstr(host, "://")
					? "is a URL: give its host name alone, as in example.com"
					: why);
		(void)!buf_printf(&text, "%s%s", i > 0 ? " " : "", pattern.name.text);
	}
	*ret = xstrdup(n > 0 ? buf_str(&text) : "");
	return 0;
}

bool secret_is_bound(const struct secret *s)
{
	return s->hosts[0] != '\0';
}

/* A pattern with stars is compared as if a star were a label like any other: only a star of ours is
 * as wide. */
bool secret_may_go(const struct secret *s, const struct hostname_pattern *where)
{
	if (!secret_is_bound(s))
		return true;
	for (const char *at = s->hosts; *at; at += strspn(at, " ")) {
		const size_t len = strcspn(at, " ");
		struct hostname_pattern pattern;

		if (hostname_pattern_parse(at, len, &pattern, NULL) == 0 &&
		    hostname_pattern_matches(&pattern, &where->name))
			return true;
		at += len;
	}
	return false;
}

int secret_put_state(struct secrets *secrets, struct secret *s, const struct secret_state *state,
                     struct err *err)
{
	auto_free char *hosts = xstrdup(state->hosts);
	struct secret next = *s;
	struct secret_row row;
	char label[LABEL_SIZE];
	int r;

	if (state->id)
		(void)snprintf(next.id, sizeof(next.id), "%s", state->id);
	next.hosts = hosts;
	next.version = state->version;
	next.created_us = state->created_us;
	next.changed_us = state->changed_us;
	label_of(&next, label);
	r = envelope_seal(secrets->config.keys, label, state->value, state->len, &next.envelope);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the value cannot be sealed");
	row = row_of(&next);
	r = store_put_secret(secrets->config.store, &row, err);
	if (r < 0) {
		envelope_done(&next.envelope);
		return r;
	}
	envelope_done(&s->envelope);
	free(s->hosts);
	*s = next;
	hosts = NULL;
	return 0;
}

struct secret *secret_make(const char *project_id, const char *name)
{
	struct secret *s = xnew0(struct secret);

	id_make(s->id, "se");
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", project_id);
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	s->hosts = xstrdup("");
	s->created_us = clock_wall_us();
	return s;
}

int secrets_set(struct secrets *secrets, const char *project_id, const char *name,
                const char *value, size_t len, const json_t *hosts, const struct secret **ret,
                bool *ret_new, struct err *err)
{
	auto_free char *wanted = NULL;
	struct secret *s;
	bool is_new;
	int r = secret_check(name, len, err);

	if (r == 0 && hosts)
		r = secret_read_hosts(hosts, &wanted, err);
	if (r < 0)
		return r;
	s = secret_find(secrets, project_id, name);
	is_new = !s;
	if (is_new) {
		r = secret_check_room(secrets, project_id, SECRETS_MAX_OF_PROJECT, err);
		if (r < 0)
			return r;
		s = secret_make(project_id, name);
	}
	if (!wanted)
		wanted = xstrdup(s->hosts);
	r = secret_put_state(secrets, s,
	                     &(struct secret_state){.value = value,
	                                            .len = len,
	                                            .hosts = wanted,
	                                            .version = s->version + 1,
	                                            .created_us = s->created_us,
	                                            .changed_us = clock_wall_us()},
	                     err);
	if (r < 0) {
		if (is_new)
			secret_free(s);
		return r;
	}
	if (is_new)
		secret_insert(secrets, s);
	tell(secrets, s, EVENT_SECRET_SET);
	*ret = s;
	*ret_new = is_new;
	return 0;
}

int secret_refuse_unknown(const char *name, struct err *err)
{
	(void)err_set(err, ERR_NOT_FOUND, 0, "no secret '%.64s'", name);
	if (err)
		err->errnum = SECRET_UNKNOWN;
	return err_hint(err, "`cloche secret ls` lists them, `cloche secret set NAME` makes one");
}

int secrets_remove(struct secrets *secrets, const char *project_id, const char *name,
                   struct err *err)
{
	struct secret *s = secret_find(secrets, project_id, name);
	int r;

	if (!s)
		return secret_refuse_unknown(name, err);
	r = store_delete_secret(secrets->config.store, s->id, err);
	if (r < 0)
		return r;
	list_remove(&s->link);
	secrets->n_all--;
	tell(secrets, s, EVENT_SECRET_REMOVED);
	secret_free(s);
	return 0;
}

void secrets_forget(struct secrets *secrets, const char *project_id)
{
	list_for_each (&secrets->all, struct secret, s, link) {
		if (strcmp(s->project_id, project_id) != 0)
			continue;
		secret_let_go(secrets, s);
	}
}

const struct secret *secrets_find(const struct secrets *secrets, const char *project_id,
                                  const char *name)
{
	return secret_find(secrets, project_id, name);
}

void secrets_each(const struct secrets *secrets, const char *project_id,
                  void (*fn)(const struct secret *s, void *arg), void *arg)
{
	list_for_each (&secrets->all, const struct secret, s, link)
		if (strcmp(s->project_id, project_id) == 0)
			fn(s, arg);
}

const struct master_keys *secrets_keys(const struct secrets *secrets)
{
	return secrets->config.keys;
}

bool secret_is_locked(const struct secrets *secrets, const struct secret *s)
{
	return master_keys_find(secrets->config.keys, s->envelope.key_id) == NULL;
}

size_t secrets_count_locked(const struct secrets *secrets)
{
	size_t n = 0;

	list_for_each (&secrets->all, const struct secret, s, link)
		n += secret_is_locked(secrets, s);
	return n;
}

ssize_t secrets_reveal(const struct secrets *secrets, const char *project_id, const char *name,
                       char *ret, struct err *err)
{
	const struct secret *s = secret_find(secrets, project_id, name);
	auto_call(sealed_text_wipe) char *value = NULL;
	char label[LABEL_SIZE];
	ssize_t n;

	if (!s)
		return secret_refuse_unknown(name, err);
	label_of(s, label);
	n = envelope_open(secrets->config.keys, label, &s->envelope, &value);
	if (n > ENVELOPE_VALUE_MAX)
		n = -EBADMSG;
	if (n >= 0) {
		memcpy(ret, value, (size_t)n + 1);
		return n;
	}
	log_error("secret.unreadable", "id=%s errno=%d", s->id, (int)-n);
	(void)err_set(err, ERR_UNAVAILABLE, 0,
	              n == -ENOKEY ? "secret '%s' is locked: the key that sealed it is not in the "
	                             "daemon's key file"
	                           : "secret '%s' is damaged",
	              name);
	return err_hint(err,
	                "put the key file back, or set the value again with `cloche secret "
	                "set %s`",
	                name);
}

void secret_look(const struct secret *s, struct secret_facts *ret)
{
	*ret = (struct secret_facts){.id = s->id,
	                             .name = s->name,
	                             .version = s->version,
	                             .created_us = s->created_us,
	                             .changed_us = s->changed_us};
}

void secret_to_json(const struct secrets *secrets, const struct secret *s, struct json_writer *w,
                    const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "id", s->id);
	json_put_str(w, "name", s->name);
	json_put_u64(w, "version", s->version);
	json_open_array(w, "hosts");
	for (const char *at = s->hosts; *at; at += strspn(at, " ")) {
		const size_t len = strcspn(at, " ");

		json_put_strn(w, NULL, at, len);
		at += len;
	}
	json_close_array(w);
	json_put_bool(w, "locked", secret_is_locked(secrets, s));
	json_put_u64(w, "created_us", s->created_us);
	json_put_u64(w, "changed_us", s->changed_us);
	json_close_object(w);
}
