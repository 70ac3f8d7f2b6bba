// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * From what a sandbox was seen to reach, the smallest policy that would have let it: the names and
 * ports that were used, and addresses only where there was no name. Hosts that were reached by the
 * same ports share a rule.
 */
#include "base/json/json.h"
#include "net/match/address.h"
#include "net/match/hostname.h"
#include "net/policy/policy.h"

/* Whatever a guest does, what is learnt is a policy that can be read. */
#define LEARN_HOSTS_MAX POLICY_RULES_MAX
#define LEARN_PORTS_MAX 6 /* of a host; beyond, its rule names no ports */

struct learner;

struct learner *learner_new(void);
void learner_free(struct learner *l);
DEFINE_FREEP(struct learner, learner_free)
/*
 * A connection that was let through. name is NULL if it had none; address is that which was
 * dialled, and NULL where the name is enough, which it is unless the address is of a closed range.
 */
bool learner_add(struct learner *l, const struct hostname *name, const struct address *address,
                 uint16_t port);               /* whether that is new, and was learnt */
bool learner_is_full(const struct learner *l); /* there were more hosts than LEARN_HOSTS_MAX */
void learner_write(const struct learner *l, struct json_writer *w, const char *name);
