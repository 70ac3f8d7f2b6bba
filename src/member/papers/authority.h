// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The cluster's own certificate authority: made with the cluster, kept on one node, and used by its
 * member to sign the certificates of nodes that it has invited. Others hold a certificate against
 * the authority's, whose digest came with the invitation.
 */
#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>

#define AUTHORITY_DAY_S     86400
#define AUTHORITY_NODE_DAYS 397 /* how long the certificate of a node is good */
#define AUTHORITY_EARLIER_S                                                                        \
	AUTHORITY_DAY_S /* it is from so long before: clocks of nodes differ                       \
	                 */

struct authority_pems {          /* for free() */
	char *key, *certificate; /* of several certificates the first is the key's */
	uint64_t lifetime_s;     /* of what it signs; 0: AUTHORITY_NODE_DAYS */
};
struct x509_st;
struct evp_pkey_st;

/* A new authority for this cluster. */
must_check int authority_make(const char *cluster_id, struct authority_pems *ret, struct err *err);
/* The digest of a certificate's DER, which an invitation has. */
must_check int authority_digest(const char *certificate_pem, struct digest *ret, struct err *err);
/* A key of a node, and a request for its certificate. */
must_check int authority_make_request(const char *name, char **ret_key, char **ret_request,
                                      struct err *err);

struct authority_subject { /* their letters are checked by who fills it in: node_check() */
	const char *cluster_id, *name, *address;
};
must_check int authority_sign(const struct authority_pems *authority, const char *request_pem,
                              const struct authority_subject *subject, char **ret_certificate,
                              struct err *err);
/* A certificate that follows one of the same node, with the same names. */
must_check int authority_sign_next(const struct authority_pems *authority, const char *request_pem,
                                   const char *name, const struct x509_st *before,
                                   char **ret_certificate, struct err *err);
/* Digests of public keys: of a request, whose owner has signed it, and of any. */
must_check int authority_request_key(const char *request_pem, struct digest *ret, struct err *err);
must_check int authority_key_digest(const struct evp_pkey_st *key, struct digest *ret,
                                    struct err *err);
/* Whether one of the authorities has signed it, for this key and this name. */
must_check int authority_check(const char *authority_pem, const char *certificate_pem,
                               const char *key_pem, const char *name, struct err *err);
/* Whether the first of them has. While an authority is replaced, the first is the new one. */
bool authority_is_of_first(const char *authority_pem, const char *certificate_pem);

/* A name of a host's kind and HOST:PORT, with nothing that could mean more in a certificate. */
must_check int node_check(const char *name, const char *address, struct err *err);
