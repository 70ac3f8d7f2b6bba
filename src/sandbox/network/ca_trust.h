// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The certificate of the issuer that programs inside must trust. It is added to the bundle that
 * OpenSSL, Python, curl, git and apt read, also stored by itself where update-ca-certificates finds
 * it, and named in variables for programs with their own store (network_env.h). The key is in the
 * wall and never comes inside.
 */
#include "sandbox/model/sandbox.h"

struct ca_trust;

/* Called once, from the loop; err NULL: it is installed. The trust is freed after it. */
typedef void (*ca_trust_fn)(const struct err *err, void *arg);

/* certificate: PEM; copied. "" removes an installed one. */
struct ca_trust *ca_trust_install(struct sandbox *s, const char *certificate, ca_trust_fn done,
                                  void *arg);
void ca_trust_cancel(struct ca_trust *t); /* done is not called; NULL is fine */
