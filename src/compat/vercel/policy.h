// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Network policies in Vercel's form. A sandbox keeps its policy as it was requested:
 *
 *	{"mode": "allow-all"}, {"mode": "deny-all"}, or
 *	{"allow": [domain, …] or {domain: [rule, …]},
 *	 "subnets": {"allow": [range], "deny": [range]}}
 *
 * The older {"mode": "custom", "allowedDomains": …} is converted to that on input. No I/O; fuzzed.
 */
#include "base/json/json.h"

/* value NULL is allow-all, as with Vercel. Owned by the caller. Names the field that is wrong. */
must_check int policy_read_theirs(const json_t *value, json_t **ret, struct err *err);
/* As sandbox_create() takes it; owned by the caller. */
must_check int policy_to_native(const json_t *theirs, json_t **ret, struct err *err);
/* As Vercel's clients expect it in replies: without secrets. */
void policy_put_theirs(const json_t *theirs, struct json_writer *w, const char *name);
