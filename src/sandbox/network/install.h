// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Something that programs inside need for the network: the certificate of an issuer (trust.c), or
 * the way to the signer (signer_inside.c). It is one operation of the agent, as root of the
 * sandbox, with a text for its input, and bounded in time.
 */
#include "proto/start.h"
#include "sandbox/model/sandbox.h"

struct install;

/* Called once, from the loop; err NULL: it is done. The install is freed after it. */
typedef void (*install_fn)(const struct err *err, void *arg);

/* op is borrowed until the end; text is copied. */
struct install *install_new(struct sandbox *s, const struct start *op, const char *text,
                            install_fn done, void *arg);
void install_cancel(struct install *t); /* done is not called; NULL is fine */
