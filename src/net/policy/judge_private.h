// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The part of the judge that looks at requests. */
#include "net/policy/judge.h"

/* Whether the request is for the host that the connection was judged by. */
bool judge_request_fits(const struct judge_facts *facts);
/* Whether the conditions of m on requests hold. A path with two forms must match in both; if the
 * rule denies, one is enough. */
bool judge_request_matches(const struct policy_match *m, const struct judge_request *request,
                           bool denies);
