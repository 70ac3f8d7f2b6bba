// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Turns E2B's network options into a policy of ours (docs/network.md). */
#include "base/json/json.h"

#include <stdbool.h>

struct e2b_network {
	const json_t *options; /* {allowOut?, denyOut?, rules?, egressProxy?}, or NULL */
	bool has_internet;
	const json_t *tokens; /* that rules may name (workload_token.h), or NULL */
};

/* The caller owns *ret. Allowed wins over denied; without a rule the public internet may be
 * reached. */
must_check int e2b_policy(const struct e2b_network *network, json_t **ret, struct err *err);
/* The options without their secrets, for replies; the caller owns it. */
json_t *e2b_policy_told(const json_t *options);
