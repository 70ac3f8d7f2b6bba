// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What authority.c and authority_file.c share. */
#include "http/certificate.h"
#include "net/match/hostname.h"
#include "preview/authority.h"

#include <openssl/x509.h>

#define AUTHORITY_DAY_S            ((time_t)24 * 3600)
#define AUTHORITY_FINGERPRINT_SIZE (3 * 32)

struct authority_root {
	EVP_PKEY *key;
	X509 *cert;
	time_t until_s;
	char fingerprint[AUTHORITY_FINGERPRINT_SIZE];
};

struct authority {
	struct hostname domain;
	struct authority_root roots[AUTHORITY_MAX]; /* oldest first */
	size_t n_roots;
	char pem[AUTHORITY_MAX * CERTIFICATE_PEM_MAX];
	EVP_PKEY *leaf_key; /* NULL: no certificate was asked for yet */
	X509 *leaf;
	time_t leaf_made_s;
	bool is_leaf_for_all; /* who asks; else it has a name of one client's */
};

/* A new one behind the others. */
must_check int authority_add_root(struct authority *a, time_t now_s, struct err *err);
/* Takes key and cert over, also when it fails. */
must_check int authority_take_root(struct authority *a, EVP_PKEY *key, X509 *cert, struct err *err);
void authority_drop_first(struct authority *a);

must_check int authority_read(struct authority *a, const char *path, struct err *err);
must_check int authority_write(const struct authority *a, const char *dir, const char *path,
                               struct err *err);
