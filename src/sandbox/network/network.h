// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a sandbox may reach. Its policy (net/policy/policy.h) is part of its record. A policy that
 * denies everything needs nothing: a sandbox without a door has no route. Any other has a door,
 * made by the broker and kept by the wall; until both have done so nothing can be reached, never
 * everything.
 */
#include "net/policy/policy.h"
#include "sandbox/model/sandbox.h"

struct network;

/* Called from the loop: the policy is in force, or err says why not. */
typedef void (*network_fn)(struct sandbox *s, const struct err *err, void *arg);

/* NULL is "deny-all". field is how the value is called in errors. The caller owns *ret. */
must_check int network_read(const json_t *value, const char *field, struct policy **ret,
                            struct err *err);
/* Whether the wall can be told a policy that was not read by network_read(). */
must_check int network_check(const struct policy *policy, const char *field, struct err *err);
/* Its policy from now on; owns policy. Not in force before network_apply(). */
void network_set(struct sandbox *s, struct policy *policy);
const struct policy *network_policy(const struct sandbox *s); /* borrowed */
/* In force in its stead, after network_apply(), until it is taken back (NULL); no part of the
 * record. Owns policy. */
void network_lend(struct sandbox *s, struct policy *policy);
/* Brings door and wall to where the policy wants them. done may be NULL. */
void network_apply(struct sandbox *s, network_fn done, void *arg);
bool network_is_open(const struct sandbox *s); /* what the policy lets through can be reached */
/* Do its files make programs trust the wall's issuer of it, or of what it is a copy of? */
bool network_has_trust(const struct sandbox *s);
bool network_is_trusted(const struct sandbox *s); /* TLS is opened, and programs inside accept it */
/* The last name that was denied under the policy that is lent, or NULL; borrowed. */
const char *network_denied(const struct sandbox *s);
bool network_is_settled(const struct sandbox *s);
/* A client's change, recorded and then in force. Owns policy, also on failure. */
must_check int network_change(struct sandbox *s, struct policy *policy, network_fn done, void *arg,
                              struct err *err);

void network_begin(struct sandbox *s); /* its agent is up: opens what there is, then it runs */
void network_go_on(struct sandbox *s); /* it was paused */
void network_end(struct sandbox *s);   /* it ends: nothing passes any more */
/* Calls fn when all that has passed is counted: at once, or when the wall has said its last word.
 */
void network_when_over(struct sandbox *s, void (*fn)(struct sandbox *s));
void network_free(struct sandbox *s);
/* The row's part. */
void network_put_row(const struct sandbox *s, struct json_writer *w, const char *name);
const char *network_name(const struct sandbox *s); /* "deny-all", "allow-all" or "rules" */

struct wall_ops;
extern const struct wall_ops network_wall_ops; /* with the fleet as arg */
