// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * E2B's workload tokens are ours (identity/identity.h). A create names each with its audience:
 *
 *	"iam": {"tokens": {"aws": {"audience": "sts.amazonaws.com", "tokenType": "JWT-SVID"}}}
 *
 * and a header of a network rule has one by its name: `Bearer ${e2b.identity.tokens.aws}` is our
 * `Bearer identity://sts.amazonaws.com`. Code inside never has it, as with E2B. The names are kept
 * in the sandbox's notes, for later changes of its network.
 */
#include "base/json/json.h"

#define WORKLOAD_TOKENS_MAX 8 /* as many as a policy may have */

/* Of a create's body: *ret is {NAME: AUDIENCE}, which the caller owns, or NULL if there are none.
 */
must_check int workload_token_read(const json_t *body, json_t **ret, struct err *err);
/* The audience of a name in such an object; NULL and err: there is none. */
const char *workload_token_audience(const json_t *tokens, const char *name, size_t len,
                                    struct err *err);
