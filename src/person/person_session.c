// SPDX-License-Identifier: Apache-2.0
/*
 * The number of sessions is bounded, and that of one person too: whoever logs in without end only
 * ends his own oldest ones.
 */
#include "person/person_session.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "store/tables/person_sessions.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#define SESSIONS_MAX        4096
#define SESSIONS_OF_PERSON  16
#define DIGITS              (LOGIN_TOKEN_SIZE - 1)
#define REFRESH_LABEL       "person.refresh"
#define CLIENT_TOKEN_PREFIX "clo_"

struct person_session {
	struct list link; /* oldest first */
	uint64_t number;  /* of this process */
	struct digest hash;
	enum person_session_kind kind;
	char person_id[ID_SIZE], project_id[ID_SIZE];
	char *sid, *refresh; /* refresh is sealed; "" = none */
	uint64_t created_us, expires_us, until_us;
	uint64_t asked_us; /* steady: when person_sessions_sweep() last told of it */
};

struct person_sessions {
	struct person_sessions_config config;
	struct list all;
	size_t n;
	uint64_t last_number;
};

static void hash_digits(const char *digits, struct digest *ret)
{
	if (EVP_Digest(digits, DIGITS, ret->bytes, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only on no memory */
}

static void person_session_drop(struct person_sessions *ss, struct person_session *s)
{
	list_remove(&s->link);
	ss->n--;
	free(s->sid);
	free(s->refresh);
	free(s);
}

static struct person_session *add(struct person_sessions *ss, const struct person_session_row *row)
{
	struct person_session *s = xnew0(struct person_session);

	s->number = ++ss->last_number;
	s->asked_us = clock_steady_us();
	s->hash = row->hash;
	s->kind = (enum person_session_kind)row->kind;
	(void)snprintf(s->person_id, sizeof(s->person_id), "%s", row->person_id);
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", row->project_id);
	s->sid = xstrdup(row->sid);
	s->refresh = xstrdup(row->refresh);
	s->created_us = row->created_us;
	s->expires_us = row->expires_us;
	s->until_us = row->until_us;
	list_append(&ss->all, &s->link);
	ss->n++;
	return s;
}

static void load(const struct person_session_row *row, void *arg)
{
	(void)add(arg, row);
}

static int save(struct person_sessions *ss, const struct person_session *s, struct err *err)
{
	const struct person_session_row row = {.hash = s->hash,
	                                       .person_id = s->person_id,
	                                       .project_id = s->project_id,
	                                       .sid = s->sid,
	                                       .refresh = s->refresh,
	                                       .kind = s->kind,
	                                       .created_us = s->created_us,
	                                       .expires_us = s->expires_us,
	                                       .until_us = s->until_us};

	return store_put_person_session(ss->config.store, &row, err);
}

int person_sessions_open(const struct person_sessions_config *config, struct person_sessions **ret,
                         struct err *err)
{
	struct person_sessions *ss = xnew0(struct person_sessions);
	int r;

	ss->config = *config;
	list_init(&ss->all);
	r = store_each_person_session(config->store, load, ss, err);
	if (r < 0)
		person_sessions_free(ss);
	else
		*ret = ss;
	return r;
}

void person_sessions_free(struct person_sessions *ss)
{
	if (!ss)
		return;
	list_for_each (&ss->all, struct person_session, s, link)
		person_session_drop(ss, s);
	free(ss);
}

/* Events are the person's own, in the project that was chosen. */
static void tell(struct person_sessions *ss, const struct person_session *s, enum event_type type,
                 const char *why)
{
	const struct key *key = person_session_key(ss, s, NULL);
	struct event e;
	struct json_writer *w = event_begin(&e, ss->config.events, type, s->project_id, NULL);

	json_put_str(w, "person_id", s->person_id);
	json_put_str(w, "subject_key_id", key ? key_id(key) : NULL);
	json_put_str(w, "scope", key ? key_scope_name(key_scope(key)) : NULL);
	json_put_str(w, "kind", s->kind == SESSION_BROWSER ? "browser" : "client");
	if (key)
		json_put_raw(w, "person", key_person(key), strlen(key_person(key)));
	else
		json_put_null(w, "person");
	if (why)
		json_put_str(w, "why", why);
	event_end(&e);
}

static uint64_t last_end_us(const struct person_sessions *ss, const char *person_id)
{
	uint64_t last_us = clock_wall_us();

	list_for_each (&ss->all, struct person_session, s, link)
		if (strcmp(s->person_id, person_id) == 0)
			last_us = MAX(last_us, s->expires_us);
	return last_us;
}

static void forget(struct person_sessions *ss, struct person_session *s)
{
	char person_id[ID_SIZE];
	struct err err;

	(void)snprintf(person_id, sizeof(person_id), "%s", s->person_id);
	if (store_delete_person_session(ss->config.store, &s->hash, &err) < 0)
		log_error("login.not_ended", "error='%s'", err.message);
	person_session_drop(ss, s);
	if (person_keys_end(ss->config.ring, person_id, last_end_us(ss, person_id), &err) < 0)
		log_error("login.not_ended", "error='%s'", err.message);
}

void person_session_end(struct person_sessions *ss, struct person_session *s, const char *why)
{
	tell(ss, s, EVENT_PERSON_LOGGED_OUT, why);
	forget(ss, s);
}

size_t person_sessions_end_of(struct person_sessions *ss, const char *subject, const char *sid,
                              const char *why)
{
	char person_id[ID_SIZE] = "";
	size_t n = 0;

	if (subject)
		person_id_make(&(struct person){.issuer = ss->config.issuer, .subject = subject},
		               person_id);
	list_for_each (&ss->all, struct person_session, s, link) {
		if ((subject && strcmp(s->person_id, person_id) != 0) ||
		    (sid && strcmp(s->sid, sid) != 0) || (!subject && !sid))
			continue;
		person_session_end(ss, s, why);
		n++;
	}
	return n;
}

static void make_room(struct person_sessions *ss, const char *person_id)
{
	struct person_session *oldest = NULL;
	size_t n = 0;

	list_for_each (&ss->all, struct person_session, s, link) {
		if (strcmp(s->person_id, person_id) != 0)
			continue;
		n++;
		oldest = oldest ? oldest : s;
	}
	if (n >= SESSIONS_OF_PERSON)
		person_session_end(ss, oldest, "too many");
	else if (ss->n >= SESSIONS_MAX)
		person_session_end(ss, list_first(&ss->all, struct person_session, link),
		                   "too many");
}

static const char *text_claim(const json_t *claims, const char *name)
{
	const char *text = json_string_value(json_object_get(claims, name));

	return text ? text : "";
}

static struct person person_of(const struct person_sessions *ss, const struct person_proof *proof)
{
	const char *name = text_claim(proof->claims, "name");

	return (struct person){
		.issuer = ss->config.issuer,
		.subject = proof->token.subject,
		.name = *name ? name : text_claim(proof->claims, "preferred_username"),
		.email = text_claim(proof->claims, "email"),
	};
}

static uint64_t end_us(const struct person_proof *proof, bool has_refresh, uint64_t until_us)
{
	uint64_t told_us = has_refresh ? clock_wall_us() + SESSION_GRACE_US
	                               : proof->token.expires_s * SECOND_US;

	return MIN(told_us, until_us);
}

static void make_token(enum person_session_kind kind, char token[SESSION_TOKEN_SIZE],
                       struct digest *hash)
{
	unsigned char raw[DIGITS / 2];
	char *digits = token;

	random_bytes(raw, sizeof(raw));
	if (kind == SESSION_CLIENT)
		digits += snprintf(token, SESSION_TOKEN_SIZE, CLIENT_TOKEN_PREFIX);
	for (size_t i = 0; i < sizeof(raw); i++)
		(void)snprintf(digits + i * 2, 3, "%02x", raw[i]);
	hash_digits(digits, hash);
	OPENSSL_cleanse(raw, sizeof(raw));
}

/* The default project if it is one of them, else the first. */
static const char *first_project(const struct person_sessions *ss, const struct person_role *roles,
                                 size_t n)
{
	const char *usual = key_project_id(keyring_root(ss->config.ring));

	for (size_t i = 0; i < n; i++)
		if (strcmp(roles[i].project_id, usual) == 0)
			return usual;
	return roles[0].project_id;
}

static void seal(const struct person_sessions *ss, struct person_session *s, const char *refresh)
{
	char *sealed =
		refresh ? sealed_text_make(ss->config.keys, REFRESH_LABEL, refresh, strlen(refresh))
			: NULL;

	if (!sealed)
		return;
	free(s->refresh);
	s->refresh = sealed;
}

void person_session_refresh_token(const struct person_sessions *ss, const struct person_session *s,
                                  char **ret_refresh)
{
	bool is_stale;

	*ret_refresh = NULL;
	if (s->refresh[0] && sealed_text_open(ss->config.keys, REFRESH_LABEL, s->refresh,
	                                      ret_refresh, &is_stale) < 0)
		*ret_refresh = NULL;
}

enum login_problem person_session_begin(struct person_sessions *ss,
                                        const struct person_proof *proof,
                                        enum person_session_kind kind,
                                        char ret_token[SESSION_TOKEN_SIZE],
                                        struct person_session **ret, struct err *err)
{
	struct person_role roles[PERSON_ROLES_MAX];
	const struct person person = person_of(ss, proof);
	struct person_session_row row = {.sid = proof->token.sid ? proof->token.sid : "",
	                                 .refresh = "",
	                                 .kind = kind,
	                                 .created_us = clock_wall_us()};
	char person_id[ID_SIZE];
	struct person_session *s;
	size_t n = role_map_apply(ss->config.roles, proof->claims, ss->config.roles_claim,
	                          ss->config.ring, roles);

	if (n == 0)
		return LOGIN_NO_ROLE;
	person_id_make(&person, person_id);
	make_room(ss, person_id);
	row.person_id = person_id;
	row.project_id = first_project(ss, roles, n);
	row.until_us = row.created_us + ss->config.most_us;
	row.expires_us = end_us(proof, proof->refresh, row.until_us);
	if (row.expires_us <= row.created_us)
		return LOGIN_EXPIRED; /* within the skew, but of no use */
	make_token(kind, ret_token, &row.hash);
	s = add(ss, &row);
	seal(ss, s, proof->refresh);
	if (save(ss, s, err) < 0 ||
	    person_keys_set(ss->config.ring, &person, roles, n, row.created_us,
	                    last_end_us(ss, person_id), err) < 0) {
		forget(ss, s);
		return LOGIN_BUSY;
	}
	tell(ss, s, EVENT_PERSON_LOGGED_IN, NULL);
	*ret = s;
	return LOGIN_FINE;
}

static size_t set_roles(struct person_sessions *ss, const struct person_session *s,
                        const struct person_proof *proof)
{
	struct person_role roles[PERSON_ROLES_MAX];
	const struct person person = person_of(ss, proof);
	struct err err;
	size_t n = role_map_apply(ss->config.roles, proof->claims, ss->config.roles_claim,
	                          ss->config.ring, roles);

	if (person_keys_set(ss->config.ring, &person, roles, n, s->created_us,
	                    last_end_us(ss, s->person_id), &err) < 0)
		log_error("login.not_renewed", "error='%s'", err.message);
	return n;
}

void person_session_renew(struct person_sessions *ss, struct person_session *s,
                          const struct person_proof *proof)
{
	struct err err;

	seal(ss, s, proof->refresh);
	s->expires_us = end_us(proof, /* has_refresh= */ true, s->until_us);
	if (proof->claims && set_roles(ss, s, proof) == 0) {
		person_session_end(ss, s, "no role");
		return;
	}
	if (save(ss, s, &err) < 0 ||
	    person_keys_end(ss->config.ring, s->person_id, last_end_us(ss, s->person_id), &err) < 0)
		log_error("login.not_renewed", "error='%s'", err.message);
}

struct person_session *person_session_find(struct person_sessions *ss,
                                           enum person_session_kind kind, const char *token)
{
	const size_t prefix = strlen(CLIENT_TOKEN_PREFIX);
	struct digest hash;

	if (kind == SESSION_CLIENT) {
		if (strncmp(token, CLIENT_TOKEN_PREFIX, prefix) != 0)
			return NULL;
		token += prefix;
	}
	if (strspn(token, "0123456789abcdef") != DIGITS || token[DIGITS] != '\0')
		return NULL;
	hash_digits(token, &hash);
	list_for_each (&ss->all, struct person_session, s, link)
		if (s->kind == kind && CRYPTO_memcmp(&s->hash, &hash, sizeof(hash)) == 0)
			return clock_wall_us() < s->expires_us ? s : NULL;
	return NULL;
}

static void take_first(const struct key *key, void *arg)
{
	const struct key **found = arg;

	if (!*found)
		*found = key;
}

const struct key *person_session_key(const struct person_sessions *ss,
                                     const struct person_session *s, const char *project)
{
	struct keyring *ring = ss->config.ring;
	const char *project_id = project ? keyring_find_project(ring, project) : s->project_id;
	const struct key *key = project_id ? person_key_find(ring, s->person_id, project_id) : NULL;

	if (!key && !project) /* the role there is gone: another one */
		person_keys_each(ring, s->person_id, take_first, &key);
	return key;
}

int person_session_choose(struct person_sessions *ss, struct person_session *s, const char *project,
                          struct err *err)
{
	const struct key *key = person_session_key(ss, s, project);

	if (!key)
		return err_field(err, "project", "you have no role in a project '%.64s'", project);
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", key_project_id(key));
	return save(ss, s, err);
}

uint64_t person_session_expires_us(const struct person_session *s)
{
	return s->expires_us;
}

bool person_session_is_of(const struct person_sessions *ss, const struct person_session *s,
                          const char *subject)
{
	char person_id[ID_SIZE];

	person_id_make(&(struct person){.issuer = ss->config.issuer, .subject = subject},
	               person_id);
	return strcmp(person_id, s->person_id) == 0;
}

const char *person_session_person_id(const struct person_session *s)
{
	return s->person_id;
}

void person_sessions_sweep(struct person_sessions *ss, uint64_t every_us, size_t max,
                           void (*fn)(struct person_session *s, void *arg), void *arg)
{
	uint64_t now_us = clock_wall_us(), steady_us = clock_steady_us();

	list_for_each (&ss->all, struct person_session, s, link) {
		if (s->expires_us <= now_us)
			person_session_end(ss, s, "expired");
		else if (s->refresh[0] && max > 0 && steady_us - s->asked_us >= every_us) {
			s->asked_us = steady_us;
			max--;
			fn(s, arg);
		}
	}
}

struct person_session *person_session_by_number(struct person_sessions *ss, uint64_t number)
{
	list_for_each (&ss->all, struct person_session, s, link)
		if (s->number == number)
			return s;
	return NULL;
}

uint64_t person_session_number(const struct person_session *s)
{
	return s->number;
}
