// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Makes the smallest policy that allows what a sandbox was seen to reach: the names and ports that
 * it used, and addresses only where there was no name. Hosts with the same ports share a rule.
 */
#include "base/json/json.h"
#include "net/match/address.h"
#include "net/match/hostname.h"
#include "net/policy/policy.h"

/* Bounds, so that policy_read() accepts the learnt policy whatever a guest does. */
#define LEARN_HOSTS_MAX POLICY_RULES_MAX
#define LEARN_PORTS_MAX 6 /* of a host; beyond, its rule names no ports */

struct learner;

struct learner *learner_new(void);
void learner_free(struct learner *l);
DEFINE_FREEP(struct learner, learner_free)
/*
 * Adds a connection that was allowed. name is NULL if it had none. address is the one that was
 * dialled, or NULL if the name is enough, as it is unless the address is in a closed range.
 */
bool learner_add(struct learner *l, const struct hostname *name, const struct address *address,
                 uint16_t port);               /* whether that is new, and was learnt */
bool learner_is_full(const struct learner *l); /* there were more hosts than LEARN_HOSTS_MAX */
void learner_write(const struct learner *l, struct json_writer *w, const char *name);
