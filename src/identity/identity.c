// SPDX-License-Identifier: Apache-2.0
/*
 * A rotation makes the keys that will be missing first, on the work thread, and then moves in one
 * turn of the loop: so there is always a key that signs, and one that comes next.
 *
 *	rotate: make 1 --> promote the next, add the new one as next
 *	revoke: make 2 --> remove all, add and promote one, add the other
 */
#include "identity/identity.h"

#include "base/clock.h"
#include "base/log.h"
#include "net/policy/identity_reference.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define LOOK_US     (UINT64_C(60) * 1000000) /* how often ages are looked at */
#define US_PER_S    UINT64_C(1000000)
#define MS_PER_S    1000
#define KEYS_IN_SET 2 /* one that signs, and the next */

struct making { /* the work thread's while it runs */
	struct identity *of;
	struct signing_key *keys[KEYS_IN_SET];
	size_t n;
	bool is_revoking;
	const char *cause; /* of the event */
	identity_done_fn done;
	void *arg;
};

struct identity {
	struct identity_config config;
	struct key_set *set;
	struct loop_timer *timer;
	struct making *making; /* or NULL */
	void (*revoked)(void *arg);
	void *revoked_arg;
};

static void making_free(struct making *m)
{
	for (size_t i = 0; m && i < KEYS_IN_SET; i++)
		signing_key_free(m->keys[i]);
	free(m);
}

static int make_keys(void *arg)
{
	struct making *m = arg;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++)
		r = signing_key_make(&m->keys[i]);
	return r;
}

static void tell_rotated(struct identity *id, const char *cause)
{
	const struct signing_key *key = key_set_current(id->set);
	struct event e;
	struct json_writer *w =
		event_begin(&e, id->config.events, EVENT_IDENTITY_ROTATED, NULL, NULL);

	json_put_str(w, "key", key ? signing_key_name(key) : NULL);
	json_put_str(w, "cause", cause);
	event_end(&e);
	log_info("identity.rotated", "key=%s cause=%s", key ? signing_key_name(key) : "", cause);
}

/* The keys are the set's from here on. */
static int move_on(struct identity *id, struct making *m, struct err *err)
{
	const uint64_t now_us = clock_wall_us();
	int r = 0;

	if (m->is_revoking) {
		r = key_set_clear(id->set, err);
		if (r == 0)
			r = key_set_add(id->set, take_ptr(m->keys[1]), now_us, err);
	}
	if (r == 0)
		r = key_set_promote(id->set, now_us, err);
	if (r == 0)
		r = key_set_add(id->set, take_ptr(m->keys[0]), now_us, err);
	return r;
}

static void on_made(int result, void *arg)
{
	struct making *m = arg;
	struct identity *id = m->of;
	struct err err = {0};
	int r = result;

	id->making = NULL;
	if (r < 0)
		(void)err_set(&err, ERR_INTERNAL, -r, "no key of identities could be made");
	else
		r = move_on(id, m, &err);
	if (r < 0)
		log_error("identity.not_rotated", "error='%s'", err.message);
	else
		tell_rotated(id, m->cause);
	if (r == 0 && m->is_revoking && id->revoked)
		id->revoked(id->revoked_arg);
	if (m->done)
		m->done(r < 0 ? &err : NULL, m->arg);
	making_free(m);
}

static int start_rotation(struct identity *id, const struct making *wish, struct err *err)
{
	if (id->making)
		return err_set(err, ERR_CONFLICT, 0,
		               "a new signing key is being made: try again in a moment");
	id->making = xnew0(struct making);
	*id->making = *wish;
	id->making->of = id;
	id->making->n = wish->is_revoking ? KEYS_IN_SET : 1;
	if (id->config.work)
		work_do(id->config.work, make_keys, on_made, id->making);
	else
		on_made(make_keys(id->making), id->making);
	return 0;
}

int identity_rotate(struct identity *id, bool is_revoking, identity_done_fn done, void *arg,
                    struct err *err)
{
	return start_rotation(id,
	                      &(struct making){.is_revoking = is_revoking,
	                                       .cause = is_revoking ? "revoked" : "asked",
	                                       .done = done,
	                                       .arg = arg},
	                      err);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct identity *id = arg;
	const uint64_t now_us = clock_wall_us();
	struct err err;

	(void)loop;
	if (key_set_prune(id->set, now_us, &err) < 0)
		log_error("identity.not_removed", "error='%s'", err.message);
	if (!id->making && key_set_is_due(id->set, now_us, id->config.rotate_ms * MS_PER_S))
		(void)!start_rotation(id, &(struct making){.cause = "age"}, &err);
	loop_timer_set_in(id->timer, LOOK_US);
}

/* At the start, when nobody waits yet. */
static int fill_set(struct identity *id, struct err *err)
{
	const bool is_first = key_set_current(id->set) == NULL;
	int r = 0;

	if (key_set_lost(id->set) > 0)
		log_error(
			"identity.key_lost",
			"keys=%zu message='the master key that sealed them is not in the key file, "
			"or they were altered: new ones take their places; tokens that are out "
			"still verify'",
			key_set_lost(id->set));
	while (r == 0 && (!key_set_current(id->set) || !key_set_has_next(id->set))) {
		struct signing_key *key = NULL;

		if (!key_set_current(id->set) && key_set_has_next(id->set)) {
			r = key_set_promote(id->set, clock_wall_us(), err);
			continue;
		}
		if (signing_key_make(&key) < 0)
			return err_set(err, ERR_INTERNAL, 0, "no key of identities could be made");
		r = key_set_add(id->set, key, clock_wall_us(), err);
	}
	if (r == 0 && is_first)
		tell_rotated(id, key_set_lost(id->set) > 0 ? "lost" : "first");
	return r;
}

int identity_open(const struct identity_config *config, struct identity **ret, struct err *err)
{
	struct identity *id = xnew0(struct identity);
	int r;

	id->config = *config;
	r = key_set_open(config->store, config->keys, clock_wall_us(), &id->set, err);
	if (r == 0)
		r = fill_set(id, err);
	if (r < 0) {
		identity_close(id);
		return r;
	}
	id->timer = loop_timer_new(config->loop, on_timer, id);
	loop_timer_set_in(id->timer, LOOK_US);
	*ret = id;
	return 0;
}

void identity_close(struct identity *id)
{
	struct making *m = id ? take_ptr(id->making) : NULL;
	struct err err;

	if (!id)
		return;
	if (m && m->done) {
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "the daemon stops");
		m->done(&err, m->arg);
	}
	making_free(m);
	loop_timer_free(id->timer);
	key_set_close(id->set);
	free(id);
}

void identity_on_revoked(struct identity *id, void (*fn)(void *arg), void *arg)
{
	id->revoked = fn;
	id->revoked_arg = arg;
}

bool identity_may_name(const struct identity *id, const char *audience)
{
	char *const *one = id->config.audiences;

	if (!one)
		return true;
	while (*one && strcmp(*one, audience) != 0)
		one++;
	return *one != NULL;
}

uint64_t identity_token_ms(const struct identity *id)
{
	return id->config.token_ms;
}

static void tell_issued(const struct identity *id, const struct workload *w, const char *audience,
                        enum identity_way way, const struct identity_token *token)
{
	static const char *const ways[] = {
		[IDENTITY_BY_WALL] = "wall", [IDENTITY_BY_CALL] = "call"};
	struct event e;
	struct json_writer *to = event_begin(&e, id->config.events, EVENT_IDENTITY_ISSUED,
	                                     w->project_id, w->sandbox_id);

	json_put_str(to, "audience", audience);
	json_put_str(to, "by", ways[way]);
	json_put_str(to, "token_id", token->id);
	json_put_str(to, "key", signing_key_name(key_set_current(id->set)));
	json_put_u64(to, "expires_us", token->expires_us);
	event_end(&e);
}

int identity_sign(struct identity *id, const struct workload *w, const char *audience,
                  enum identity_way way, struct identity_token *ret, struct err *err)
{
	const struct signing_key *key = key_set_current(id->set);
	struct workload whole = *w;
	struct token_terms terms = {.issuer = id->config.issuer,
	                            .audience = audience,
	                            .now_s = clock_wall_us() / US_PER_S,
	                            .lifetime_s = id->config.token_ms / MS_PER_S};

	*ret = (struct identity_token){.text = BUF_INIT(TOKEN_SIZE_MAX)};
	if (id->config.project_name)
		whole.project = id->config.project_name(w->project_id, id->config.project_name_arg);
	if (!whole.project)
		whole.project = w->project_id;
	id_make(ret->id, "tok");
	terms.id = ret->id;
	ret->expires_us = (terms.now_s + terms.lifetime_s) * US_PER_S;
	if (!key || token_make(key, &whole, &terms, &ret->text) < 0) {
		identity_token_done(ret);
		return err_set(err, ERR_INTERNAL, 0, "the token could not be signed");
	}
	tell_issued(id, &whole, audience, way, ret);
	return 0;
}

void identity_token_done(struct identity_token *token)
{
	if (token->text.data)
		OPENSSL_cleanse(token->text.data, token->text.len);
	buf_done(&token->text);
}

static void put_list(struct json_writer *w, const char *name, const char *const *items, size_t n)
{
	json_open_array(w, name);
	for (size_t i = 0; i < n; i++)
		json_put_str(w, NULL, items[i]);
	json_close_array(w);
}

void identity_put_discovery(const struct identity *id, struct json_writer *w)
{
	static const char *const claims[] = {
		"iss",          "sub",         "aud",     "iat",        "nbf",
		"exp",          "jti",         "project", "project_id", "template",
		"image_digest", "snapshot_id", "engine",  "isolation",  "sandbox_id"};
	auto_free char *keys = xasprintf("%s/.well-known/jwks.json", id->config.issuer);

	json_put_str(w, "issuer", id->config.issuer);
	json_put_str(w, "jwks_uri", keys);
	put_list(w, "response_types_supported", (const char *const[]){"id_token"}, 1);
	put_list(w, "subject_types_supported", (const char *const[]){"public"}, 1);
	put_list(w, "id_token_signing_alg_values_supported", (const char *const[]){"RS256"}, 1);
	put_list(w, "claims_supported", claims, ARRAY_SIZE(claims));
}

void identity_put_keys(const struct identity *id, struct json_writer *w)
{
	key_set_put_public(id->set, w);
}

void identity_put_status(const struct identity *id, struct json_writer *w)
{
	json_put_str(w, "issuer", id->config.issuer);
	json_put_u64(w, "token_ms", id->config.token_ms);
	json_put_u64(w, "rotate_ms", id->config.rotate_ms);
	if (!id->config.audiences)
		json_put_null(w, "audiences");
	else
		json_open_array(w, "audiences");
	for (char *const *one = id->config.audiences; one && *one; one++)
		json_put_str(w, NULL, *one);
	if (id->config.audiences)
		json_close_array(w);
	key_set_put(id->set, w, "keys");
}
