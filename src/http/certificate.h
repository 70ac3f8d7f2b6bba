// SPDX-License-Identifier: Apache-2.0
#pragma once
/* X.509 certificates: one for a server's names, and the parts of any that is being made. Each part
 * says whether it worked. */
#include "base/auto.h"

#include <stdbool.h>
#include <time.h>

#define CERTIFICATE_SERIAL_SIZE 16
#define CERTIFICATE_CURVE       "prime256v1"
#define CERTIFICATE_PEM_MAX     ((size_t)4096)

struct x509_st;
struct X509_name_st;
struct evp_pkey_st;

/* What a server shows. */
struct certificate_leaf {
	struct x509_st *issuer;
	struct evp_pkey_st *issuer_key, *key; /* of `key` only the public half is used */
	const char *names; /* DNS:… and IP:…, with commas; as `value` of an extension */
	time_t from_s, until_s;
};

/* With a random serial number. The caller's to free; NULL if it failed. */
struct x509_st *certificate_sign_leaf(const struct certificate_leaf *leaf);

/* value is in the words of openssl's configuration: nothing that a stranger has chosen may be in
 * it unless its letters were checked. */
bool certificate_add_extension(struct x509_st *cert, struct x509_st *issuer, int nid,
                               const char *value);
/* Makes the bytes positive and of full length. */
bool certificate_set_serial(struct x509_st *cert, uint8_t serial[CERTIFICATE_SERIAL_SIZE]);
bool certificate_set_random_serial(struct x509_st *cert);
bool certificate_add_name(struct X509_name_st *name, const char *field, const char *text);
bool certificate_set_dates(struct x509_st *cert, time_t from_s, time_t until_s);
bool certificate_write_pem(const struct x509_st *cert, char ret[CERTIFICATE_PEM_MAX]);
