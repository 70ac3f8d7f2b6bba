// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An invitation into a cluster: a token that lets one node join once, for a while.
 *
 * Its key is 32 random bytes, which only who has the token knows. Of it come three others: the
 * database gets a hash of the one, and lets in who says it; the node that invited keeps the other,
 * and signs only a request that was proved by it; the third wraps what the new node is to know. So
 * who holds the database alone has no node's certificate, and who listens there cannot use an
 * invitation twice. The token also has the digest of the authority, so that a joining node knows
 * its cluster, and the login at the database.
 */
#include "base/digest.h"
#include "base/err.h"
#include "base/id.h"

#define INVITATION_KEY 32

struct invitation {
	char id[ID_SIZE]; /* inv_… */
	char *cluster_id, *user, *password;
	struct digest authority;
	uint8_t key[INVITATION_KEY];
	uint64_t expires_s; /* since 1970 */
};

void invitation_done(struct invitation *i);
char *invitation_write(const struct invitation *i); /* for free() */
must_check int invitation_parse(const char *token, struct invitation *ret, struct err *err);

/* What the database is told by who uses it. */
void invitation_door_key(const struct invitation *i, char ret[DIGEST_HEX]);
void invitation_door_hash(const struct invitation *i, char ret[DIGEST_HEX]); /* of that */
/* What the node that invites keeps. */
void invitation_proof_key(const struct invitation *i, struct digest *ret);
/* What wraps the keys of objects on their way to the new node (node_keys.h): who has the token has
 * it, and the database has not. */
void invitation_parcel_key(const struct invitation *i, struct digest *ret);
/* That the request is of who has the token. */
void invitation_prove(const struct digest *proof_key, const char *name, const char *address,
                      const char *request, struct digest *ret);
