// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tokens of a sandbox's identity (identity/identity.h), as its policy gives them out: into what the
 * wall is told, and to who calls for one. The wall gets new ones when half of their time is over.
 */
#include "identity/identity.h"
#include "sandbox/network/network.h"

/* Whether this daemon gives out tokens for all that the policy names. */
must_check int identity_check_policy(const struct fleet *fleet, const struct policy *p,
                                     const char *field, struct err *err);
/* Puts tokens into a policy's JSON. A rule that gets none denies. */
void identity_fill(struct sandbox *s, json_t *policy);
void identity_renew_later(struct network *n, bool has_tokens); /* the wall is told a policy */
/* All keys so far are gone: the wall gets tokens of the new one. */
void identity_renew_all(struct fleet *fleet);
/* For a caller. FORBIDDEN: its policy does not name the audience. */
must_check int identity_ask(struct sandbox *s, const char *audience, struct identity_token *ret,
                            struct err *err);
