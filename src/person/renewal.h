// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Asks the provider, at intervals, whether each session still holds, by its refresh token: roles
 * follow what it answers, and a session that it refuses ends. While it is silent, sessions go on
 * for SESSION_GRACE_US.
 */
#include "oidc/provider.h"
#include "person/person_session.h"

struct renewal;
struct renewal *renewal_new(struct loop *loop, struct provider *provider,
                            struct person_sessions *sessions, uint64_t every_us);
void renewal_free(struct renewal *r); /* after the provider; NULL is fine */
