// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a sandbox may reach, from E2B's options to a policy of ours (docs/network.md). */
#include "base/json/json.h"

/*
 * body: {allow_internet_access?} and {allowOut?, denyOut?, rules?, egressProxy?} in options. *ret
 * is the caller's. Allowed wins over denied; without a rule all that is public may be reached.
 */
must_check int e2b_policy(const json_t *options, bool has_internet, json_t **ret, struct err *err);
/* The options without what is secret in them, for clients to read again; the caller's. */
json_t *e2b_policy_told(const json_t *options);
