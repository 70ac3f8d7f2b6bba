// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a sandbox may reach. Its policy (net/policy/policy.h) is part of its row. A policy that
 * denies everything needs nothing: a sandbox without a door has no route. Any other policy has a
 * door, which the broker makes and the wall serves; until both are done, nothing can be reached.
 */
#include "net/policy/policy.h"
#include "sandbox/model/sandbox.h"

struct network;

/* Called from the loop: the policy is in force, or err says why not. */
typedef void (*network_fn)(struct sandbox *s, const struct err *err, void *arg);

/* NULL is "deny-all". field names the value in errors. The caller owns *ret. */
must_check int network_read(const json_t *value, const char *field, struct policy **ret,
                            struct err *err);
/* The same of what a client wishes, who may write pip, npm or apt among the hosts of `allow`: the
 * places where this host's templates have their packages from. */
must_check int network_read_wish(const struct fleet *fleet, const json_t *value, const char *field,
                                 struct policy **ret, struct err *err);
/* Checks that a policy which was not read by network_read() can be sent to the wall. */
must_check int network_check(const struct policy *policy, const char *field, struct err *err);
bool network_wants_door(const struct policy *policy); /* there is something that it lets through */
/* Sets its policy; owns policy. Not in force before network_apply(). */
void network_set(struct sandbox *s, struct policy *policy);
const struct policy *network_policy(const struct sandbox *s); /* borrowed */
/* Sets a temporary policy, in force after network_apply() until it is removed (NULL); not part of
 * the row. Owns policy. */
void network_lend(struct sandbox *s, struct policy *policy);
/* Brings door and wall into line with the policy. done may be NULL. */
void network_apply(struct sandbox *s, network_fn done, void *arg);
bool network_is_open(const struct sandbox *s); /* what the policy lets through can be reached */
/* Whether its files make programs trust its own issuer, or that of the sandbox that it is a copy
 * of. */
bool network_has_trust(const struct sandbox *s);
/* Have programs inside to trust the issuer, by its policy? */
bool network_needs_trust(const struct sandbox *s);
bool network_has_signer(const struct sandbox *s); /* programs inside find it */
bool network_is_trusted(const struct sandbox *s); /* TLS is opened, and programs inside accept it */
/* The last name or address that was denied since the last network_lend(), or NULL; borrowed. */
const char *network_denied(const struct sandbox *s);
bool network_is_settled(const struct sandbox *s);
/* A client's change: recorded, then put in force. Owns policy, also on failure. */
must_check int network_change(struct sandbox *s, struct policy *policy, network_fn done, void *arg,
                              struct err *err);

/* A secret was set anew or removed: the wall is told the policies that refer to it again. */
void network_on_secret(struct fleet *fleet, const char *project_id, const char *name);
/* How many living sandboxes of the project have a policy that refers to it. */
size_t network_count_users(const struct fleet *fleet, const char *project_id, const char *name);

void network_begin(struct sandbox *s); /* its agent is up: opens what there is, then it runs */
/* Gives a spare a door that lets nothing through, and has its programs trust the issuer of
 * refusals, before it has an owner with a policy. */
void network_ahead(struct sandbox *s, network_fn done, void *arg);
void network_go_on(struct sandbox *s); /* it was paused */
void network_end(struct sandbox *s);   /* it ends: nothing passes any more */
/* Calls fn when all traffic is counted: at once, or when the wall has sent its last figures. */
void network_when_over(struct sandbox *s, void (*fn)(struct sandbox *s));
/* The member of its group that a URL leads to, whatever its policy is; NULL: none. */
const struct sandbox *network_member_at(const struct sandbox *s, const char *url);
void network_free(struct sandbox *s);
/*
 * Its part of the row: the policy, or, where that has credentials in it, its sealed text
 * (secret/sealed_text.h). One that does not open, because its key is lost, is locked: it stays in
 * the row, and the sandbox reaches nothing until it gets another policy or the key is back.
 */
must_check int network_put_row(const struct sandbox *s, struct json_writer *w, const char *name);
must_check int network_read_row(struct sandbox *s, const json_t *value); /* NULL: it has none */
bool network_is_locked(const struct sandbox *s);
size_t network_count_locked(const struct fleet *fleet); /* those that live or are kept */
/* Writes the rows anew that had credentials as they are, or sealed under an older key. */
void network_seal_rows(struct fleet *fleet);
const char *network_name(const struct sandbox *s); /* "deny-all", "allow-all" or "rules" */

struct wall_ops;
extern const struct wall_ops network_wall_ops; /* with the fleet as arg */
