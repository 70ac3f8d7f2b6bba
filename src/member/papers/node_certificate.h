// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Reads certificates of nodes and of their cluster's authority, and keys, from PEM. */
#include "base/auto.h"
#include "base/digest.h"

#include <stdbool.h>

struct x509_st;
struct evp_pkey_st;

/* NULL: it cannot be read. The caller frees them. */
struct x509_st *node_certificate_read(const char *pem); /* the first in it */
struct evp_pkey_st *node_certificate_read_key(const char *pem);
/* Each in it, until fn says false. False: there is none, one is damaged, or fn said so. */
bool node_certificate_each(const char *pems, bool (*fn)(struct x509_st *one, void *arg), void *arg);
/* Whether one of these authorities has signed it. While an authority is replaced there are two. */
bool node_certificate_is_trusted(const char *authorities_pem, const struct x509_st *certificate);
/* The node's name: of the URI cloche://CLUSTER/NAME in it, of which there is one. -EACCES: it has
 * none in this cluster. */
must_check int node_certificate_name(const struct x509_st *certificate, const char *cluster_id,
                                     char *ret, size_t size);

struct certificate_dates { /* seconds since 1970 */
	int64_t begin_s, end_s;
};
/* From when it was signed until it ends. False: it cannot be read. */
bool node_certificate_term(const char *pem, struct certificate_dates *ret);
