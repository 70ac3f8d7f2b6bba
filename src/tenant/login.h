// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Logins of browsers: a token of 256 random bits stands for a key, for a day. Only its hash is
 * kept, in the store, so that a login outlives the daemon; the key must still be there, so that
 * revoking it ends its logins too.
 *
 * A link lets one browser in, once: a token likewise, which is in memory alone and soon forgotten.
 */
#include "base/units.h"
#include "tenant/key.h"

#define LOGIN_TOKEN_SIZE 65 /* hexadecimal digits and a NUL */
#define LOGIN_US         (24 * 3600 * SECOND_US)
#define LINK_US          (120 * SECOND_US)

struct logins;

must_check int logins_open(struct store *store, struct keyring *ring, struct logins **ret,
                           struct err *err);
void logins_free(struct logins *l); /* NULL is fine */

/* Where a key has too many, its oldest one ends. now_us: the wall clock's. */
must_check int login_begin(struct logins *l, const struct key *key, uint64_t now_us,
                           char ret_token[LOGIN_TOKEN_SIZE], struct err *err);
/* The key it stands for and when it ends, or NULL. */
const struct key *login_check(const struct logins *l, const char *token, uint64_t now_us,
                              uint64_t *ret_expires_us);
must_check int login_end(struct logins *l, const char *token, struct err *err);

void link_make(struct logins *l, const struct key *key, uint64_t now_us,
               char ret_token[LOGIN_TOKEN_SIZE]);
/* The key that it was made for; NULL: unknown, used or too old. It is used up. */
const struct key *link_take(struct logins *l, const char *token, uint64_t now_us);
