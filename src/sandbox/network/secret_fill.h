// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Puts the values of secrets into what leaves the gateway: policies on their way to the wall, and
 * the environment of a process. Everything else has the references alone.
 */
#include "net/policy/policy.h"
#include "sandbox/model/fleet_state.h"

/* Whether each secret that the policy refers to is there and fits where it is used. field names the
 * policy in errors. */
must_check int secret_check_policy(const struct fleet *fleet, const char *project_id,
                                   const struct policy *p, const char *field, struct err *err);
bool secret_is_in_policy(const struct policy *p, const char *name); /* NULL: any */
/* Whether the policy has a value that is more than a reference, so that its text is a secret. */
bool secret_is_literal_in(const struct policy *p);
/*
 * Writes the policy with the values to out. A rule whose secret has gone since, or does not fit any
 * more, denies: what it allowed was meant to have a credential. < 0: it is larger than out may be.
 */
must_check int secret_fill_policy(struct sandbox *s, const struct policy *p, struct buf *out);

/* The text with a secret in place of a reference that is all of it, for free(): a variable (url is
 * NULL), or the password for the host of a URL. field names it in errors. */
must_check int secret_fill_text(const struct fleet *fleet, const char *project_id,
                                const char *value, const char *url, const char *field, char **ret,
                                struct err *err);
