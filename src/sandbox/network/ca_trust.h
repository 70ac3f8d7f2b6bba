// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What programs inside have to trust where the wall looks into TLS: the certificate of the
 * sandbox's issuer. It is added to the bundle that OpenSSL, Python, curl, git and apt read, kept
 * beside by itself where update-ca-certificates finds it, and named in variables for programs that
 * have a store of their own. The key is in the wall and never comes inside.
 */
#include "proto/start.h"
#include "sandbox/model/sandbox.h"

struct ca_trust;

/* From the loop, once; err NULL: it is installed. The trust is freed after it. */
typedef void (*ca_trust_fn)(const struct err *err, void *arg);

/* certificate: PEM; copied. "": what is there of one goes. */
struct ca_trust *ca_trust_install(struct sandbox *s, const char *certificate, ca_trust_fn done,
                                  void *arg);
void ca_trust_cancel(struct ca_trust *t); /* done is not called; NULL is fine */

#define CA_TRUST_VARIABLES_MAX 9
/* Adds "NAME=value" words for a sandbox that has it, but for names of the two objects (or NULL). */
void ca_trust_add_env(const struct sandbox *s, const json_t *env, const json_t *over,
                      struct start *to);
bool ca_trust_is_own(const char *word); /* one of those */
