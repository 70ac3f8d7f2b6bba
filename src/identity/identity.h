// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Identities of sandboxes. The daemon is an issuer of OpenID Connect for workloads: it signs short
 * tokens that say what a sandbox is (token.h), and publishes the keys to check them with. So a
 * cloud can trust a sandbox without a stored key.
 *
 * Which audience a sandbox may have a token for is a matter of its policy
 * (net/policy/identity_reference.h); the operator can name those that a policy may have.
 *
 * The signing key is replaced when it has signed for a while (key_set.h). Keys are made on the work
 * thread, since that takes a tenth of a second.
 *
 * Every token that is given out is an event, without the token.
 */
#include "base/id.h"
#include "event/event.h"
#include "identity/key_set.h"
#include "identity/token.h"
#include "loop/work.h"

#define IDENTITY_TOKEN_MIN_MS  (UINT64_C(60) * 1000)
#define IDENTITY_TOKEN_MAX_MS  (UINT64_C(3600) * 1000)
#define IDENTITY_ROTATE_MIN_MS IDENTITY_TOKEN_MAX_MS

struct identity;

struct identity_config {
	struct loop *loop;
	struct store *store;      /* to be closed after this */
	struct event_log *events; /* likewise; or NULL */
	struct work *work;        /* makes keys; NULL: they are made at once */
	const struct master_keys *keys;
	const char *issuer; /* its URL; borrowed, as all below */
	uint64_t token_ms, rotate_ms;
	char *const *audiences; /* that policies may name, NULL-terminated; NULL: any */
	const char *(*project_name)(const char *project_id, void *arg); /* or NULL */
	void *project_name_arg;
};

/* Whether clouds can take it for the URL of an issuer: https, or http of this host; no query, no
 * slash at its end. field names it in errors. */
must_check int identity_check_issuer(const char *url, const char *field, struct err *err);

must_check int identity_open(const struct identity_config *config, struct identity **ret,
                             struct err *err);
void identity_close(struct identity *id); /* NULL is fine */

bool identity_may_name(const struct identity *id, const char *audience); /* by the operator */
uint64_t identity_token_ms(const struct identity *id);

enum identity_way { /* how a token is given out */
	            IDENTITY_BY_WALL,
	            IDENTITY_BY_CALL,
};
struct identity_token {
	struct buf text; /* the caller overwrites it: identity_token_done() */
	char id[ID_SIZE];
	uint64_t expires_us; /* of the wall clock */
};
/* project is filled in. The caller has seen that the policy names the audience. */
must_check int identity_sign(struct identity *id, const struct workload *w, const char *audience,
                             enum identity_way way, struct identity_token *ret, struct err *err);
void identity_token_done(struct identity_token *token); /* twice is fine */

/* done is called from the loop when the next key signs. With is_revoking, all keys so far are gone:
 * no token of theirs verifies any more, and on_revoked is told. */
typedef void (*identity_done_fn)(const struct err *err, void *arg);
must_check int identity_rotate(struct identity *id, bool is_revoking, identity_done_fn done,
                               void *arg, struct err *err);
void identity_on_revoked(struct identity *id, void (*fn)(void *arg), void *arg);

/* Members of the open object. */
void identity_put_discovery(const struct identity *id, struct json_writer *w);
void identity_put_keys(const struct identity *id, struct json_writer *w);
void identity_put_status(const struct identity *id, struct json_writer *w);
