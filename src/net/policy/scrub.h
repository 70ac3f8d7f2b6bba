// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Removes credentials from replies: those that a policy sets in requests and a server repeats. Each
 * byte becomes '*', so no length changes. A reply comes in pieces of any size: bytes that could be
 * the beginning of a credential are held back until it is known whether they are.
 *
 * It looks for the credential as it was sent, after its scheme ("Bearer", "Basic"), and for Basic
 * also for the decoded user and password, and the password alone. It does not look for other
 * encodings.
 */
#include "base/buf.h"
#include "net/policy/policy.h"

#define SCRUB_MIN ((size_t)8) /* shortest credential: shorter ones occur by chance */

struct scrub;

/* For replies of the host; NULL if no rule about it has something to hide. */
struct scrub *scrub_new(const struct policy *p, const struct hostname *name, uint16_t port);
void scrub_free(struct scrub *s); /* NULL is fine */
/* Takes the next piece of a body. Returns the bytes that may be sent on; valid until the next
 * call. */
const struct buf *scrub_feed(struct scrub *s, const char *data, size_t len);
const struct buf *scrub_end(struct scrub *s); /* the bytes held back, at the end */
size_t scrub_held(const struct scrub *s);     /* bytes */
void scrub_text(const struct scrub *s, char *text, size_t len); /* in place, of a whole text */
/* The credential in a field's value: the part after the scheme, if it has one. */
const char *scrub_credential(const char *value);
