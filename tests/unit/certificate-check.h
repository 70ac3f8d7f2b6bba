// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What a client that trusts some certificates thinks of another that it is shown. */
#include "test.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

/* An error of X509_verify_cert() for a server's certificate under this name, at this time. */
static inline int certificate_check(const char *trusted_pem, X509 *cert, const char *name,
                                    time_t now_s)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	BIO *bio = BIO_new_mem_buf(trusted_pem, -1);
	X509 *root;
	int result;

	while ((root = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		CHECK(X509_STORE_add_cert(store, root) == 1);
		X509_free(root);
	}
	CHECK(X509_STORE_CTX_init(ctx, store, cert, NULL) == 1);
	X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(ctx), X509_V_FLAG_X509_STRICT);
	X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(ctx), now_s);
	(void)X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_SSL_SERVER);
	(void)X509_VERIFY_PARAM_set1_host(X509_STORE_CTX_get0_param(ctx), name, 0);
	(void)X509_verify_cert(ctx);
	result = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	BIO_free(bio);
	return result;
}
