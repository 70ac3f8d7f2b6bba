// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a provider says about a person, once its signature is known to be good: whether it is meant
 * for us, now, and for the login that was begun (OpenID Connect Core 3.1.3.7). No I/O, no clock.
 */
#include "base/json/json.h"
#include "oidc/problem.h"

#define ID_TOKEN_SKEW_S       60  /* how far the provider's clock may be off */
#define ID_TOKEN_SUBJECT_SIZE 256 /* as OpenID Connect bounds it */

struct id_token_rules {
	const char *issuer, *client_id;
	const char *nonce; /* NULL: none was sent, and what the token has is not looked at */
	uint64_t now_s;    /* wall clock */
};

struct id_token { /* borrowed from the claims */
	const char *subject;
	const char *sid; /* the session at the provider; NULL: not told */
	uint64_t expires_s;
};

/* type: of the token's header. */
enum login_problem id_token_check(const json_t *claims, const char *type,
                                  const struct id_token_rules *rules, struct id_token *ret);
/* A token by which the provider tells that a session is over (Back-Channel Logout 2.6): ret has a
 * subject, a sid, or both. */
enum login_problem logout_token_check(const json_t *claims, const char *type,
                                      const struct id_token_rules *rules, struct id_token *ret);
