// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Takes credentials that a policy sets in requests out of replies that repeat them. Each byte of
 * one becomes '*', so that no length changes. A reply comes in pieces of any size: what could be
 * the beginning of a credential is held back until it is known whether it is one.
 *
 * What is looked for is the credential as it was sent, behind its scheme ("Bearer", "Basic"), and
 * of Basic also what it encodes: user and password, and the password by itself. Other encodings of
 * it are not known here.
 */
#include "base/buf.h"
#include "net/policy/policy.h"

#define SCRUB_MIN                                                                                  \
	((size_t)8) /* bytes of what is taken out: less is found where it is not meant             \
	             */

struct scrub;

/* For replies of the host; NULL: no rule about it has something to hide. */
struct scrub *scrub_new(const struct policy *p, const struct hostname *name, uint16_t port);
void scrub_free(struct scrub *s); /* NULL is fine */
/* The next piece of a body. Gives what may be told of it and those before; good until the next
 * call. */
const struct buf *scrub_feed(struct scrub *s, const char *data, size_t len);
const struct buf *scrub_end(struct scrub *s); /* what was held back: there is no more */
size_t scrub_held(const struct scrub *s);     /* bytes */
void scrub_text(const struct scrub *s, char *text, size_t len); /* in place, of a whole text */
/* The part of a field's value that is the credential: behind the scheme, if it has one. */
const char *scrub_credential(const char *value);
