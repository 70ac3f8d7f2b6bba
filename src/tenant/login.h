// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Browser logins: for a day, a token of 256 random bits stands for a key. The store keeps only its
 * hash, so a login survives a restart of the daemon. The key must still exist, so revoking it ends
 * its logins too.
 *
 * A link lets one browser log in, once. It is a token too, kept only in memory and only for a short
 * time.
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

/* If a key has too many logins, its oldest one ends. now_us is of the wall clock. */
must_check int login_begin(struct logins *l, const struct key *key, uint64_t now_us,
                           char ret_token[LOGIN_TOKEN_SIZE], struct err *err);
/* The key it stands for and when it ends, or NULL. */
const struct key *login_check(const struct logins *l, const char *token, uint64_t now_us,
                              uint64_t *ret_expires_us);
must_check int login_end(struct logins *l, const char *token, struct err *err);

void link_make(struct logins *l, const struct key *key, uint64_t now_us,
               char ret_token[LOGIN_TOKEN_SIZE]);
/* Uses up the link. Returns its key, or NULL if it is unknown, used or too old. */
const struct key *link_take(struct logins *l, const char *token, uint64_t now_us);
