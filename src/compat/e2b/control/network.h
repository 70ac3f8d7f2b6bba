// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Turns E2B's network options into a policy of ours (docs/network.md). */
#include "base/json/json.h"

/*
 * body: {allow_internet_access?} and {allowOut?, denyOut?, rules?, egressProxy?} in options. The
 * caller owns *ret. Allowed wins over denied; without a rule the public internet may be reached.
 */
must_check int e2b_policy(const json_t *options, bool has_internet, json_t **ret, struct err *err);
/* The options without their secrets, for replies; the caller owns it. */
json_t *e2b_policy_told(const json_t *options);
