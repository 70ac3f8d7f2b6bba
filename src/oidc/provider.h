// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The login provider, as one OpenID Connect client sees it. Its metadata and keys are fetched when
 * they are first needed, and kept for a while; an unknown key id has the keys fetched again, but
 * not more often than KEYS_PAUSE says, whoever sends such ids. All of this is on the loop's thread.
 *
 *	provider_ask() --> metadata --> the request --> keys, if there is an id token --> fn
 */
#include "oidc/id_token.h"
#include "oidc/provider_documents.h"
#include "outgoing/outgoing_call.h"

struct provider;

struct provider_config {                 /* texts are copied */
	const struct outgoing *outgoing; /* outlives it */
	const char *issuer, *client_id;
	const char *client_secret; /* NULL: a public client */
};

enum provider_endpoint {
	PROVIDER_NONE, /* only the metadata is wanted */
	PROVIDER_TOKEN,
	PROVIDER_DEVICE,
	PROVIDER_REVOCATION,
};

struct provider_question { /* copied */
	enum provider_endpoint endpoint;
	const char *form;     /* application/x-www-form-urlencoded, without who the client is */
	const char *nonce;    /* that the id token must have; NULL: any */
	bool is_token_needed; /* an answer without an id token is a bad one */
};

struct provider_answer { /* borrowed until fn returns */
	enum login_problem problem;
	const char *detail;   /* for the log; never NULL */
	bool is_slow_down;    /* with LOGIN_PENDING: ask less often */
	const json_t *body;   /* or NULL */
	const json_t *claims; /* of the id token, which is good; or NULL */
	struct id_token token;
};
typedef void (*provider_fn)(const struct provider_answer *answer, void *arg);

struct provider *provider_new(const struct provider_config *config);
void provider_free(struct provider *p); /* questions end as LOGIN_UNREACHABLE; NULL is fine */

/* fn is called once, never before this has returned. */
void provider_ask(struct provider *p, const struct provider_question *question, provider_fn fn,
                  void *arg);
/* A token that somebody has sent by himself: a logout token (id_token.h). */
void provider_check_logout(struct provider *p, const char *token, provider_fn fn, void *arg);
/* NULL until an answer has come. */
const struct provider_metadata *provider_metadata(const struct provider *p);
const char *provider_issuer(const struct provider *p);
const char *provider_client_id(const struct provider *p);
/* Since when the provider has not answered (wall clock), and why; 0: it does, or was never asked.
 */
uint64_t provider_silent_us(const struct provider *p, const char **ret_why);
