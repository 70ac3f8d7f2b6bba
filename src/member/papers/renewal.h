// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How a node's certificate is renewed, through the database, which nobody trusts:
 *
 *	the node	makes a new key and asks for a certificate of it: {certificate, request,
 *			at_s, signature}, with its present certificate, signed by that one's key
 *	the signer	sees from these two who asks, and signs for that name only
 *	the node	takes what the cluster's authority has signed for its name and its new key
 *
 * The signer (the node with the authority's key) allows each key one successor, and keeps a note of
 * it. So a stolen key is useless once the node has the next one. If a thief asks first, the node is
 * refused, and reports it. The same new key may be asked for again, since an answer may get lost.
 */
#include "base/json/json.h"
#include "member/papers/authority.h"

struct renewal_ask {
	const char *cluster_id;
	const char *key, *certificate; /* present ones of the node */
	const char *request;           /* of its new key */
	uint64_t at_s;
};
/* The text that is asked with, for free(). */
must_check int renewal_write(const struct renewal_ask *ask, char **ret, struct err *err);

/* A node has joined, with this request: its first key. */
must_check int renewal_note_first(const char *cluster_id, const char *dir, const char *name,
                                  const char *request, struct err *err);
/* The certificate that it asks for; dir has the notes. name: of the node whose row it is. Else err
 * says why it is refused; with -EAGAIN nothing is wrong with the request itself. */
must_check int renewal_sign(const struct authority_pems *authority, const char *cluster_id,
                            const char *dir, const char *name, const char *text,
                            char **ret_certificate, struct err *err);
