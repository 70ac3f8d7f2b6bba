// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The certificate of the sandbox's issuer, which programs inside must trust if the wall looks into
 * TLS. It is added to the bundle that OpenSSL, Python, curl, git and apt read, also stored by
 * itself where update-ca-certificates finds it, and named in variables for programs with their own
 * store. The key is in the wall and never comes inside.
 */
#include "proto/start.h"
#include "sandbox/model/sandbox.h"

struct ca_trust;

/* Called once, from the loop; err NULL: it is installed. The trust is freed after it. */
typedef void (*ca_trust_fn)(const struct err *err, void *arg);

/* certificate: PEM; copied. "" removes an installed one. */
struct ca_trust *ca_trust_install(struct sandbox *s, const char *certificate, ca_trust_fn done,
                                  void *arg);
void ca_trust_cancel(struct ca_trust *t); /* done is not called; NULL is fine */

#define CA_TRUST_VARIABLES_MAX 9
/* Adds "NAME=value" words for a sandbox that has it, except for names in the two objects (or
 * NULL). */
void ca_trust_add_env(const struct sandbox *s, const json_t *env, const json_t *over,
                      struct start *to);
bool ca_trust_is_own(const char *word); /* one of those */
