// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The part of judging that looks at requests; its own file for its length. */
#include "net/policy/judge.h"

/* request is for the host that the connection was judged by. */
bool judge_request_fits(const struct judge_facts *facts);
/* Whether the conditions of m on requests hold. A path that has two readings must match in both, or
 * in either where the rule denies. */
bool judge_request_matches(const struct policy_match *m, const struct judge_request *request,
                           bool denies);
