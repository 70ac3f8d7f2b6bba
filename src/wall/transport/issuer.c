// SPDX-License-Identifier: Apache-2.0
/*
 *	secret, id --HKDF--> scalar of P-256, serial number --> key, certificate (self-signed)
 *	                                                          | signs
 *	one random key for all hosts --> a certificate per host, up to CACHE_MAX kept
 *
 * Two walls make the same key, names and dates for one authority. Their certificates differ only in
 * the signature, which nobody checks on a trusted root.
 */
#include "wall/transport/issuer.h"

#include "http/certificate.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define CACHE_MAX     64
#define SCALAR_SIZE   48 /* 128 bits more than the curve's order: no bias when it is reduced */
#define DAY_S         (24L * 3600)
#define LEAF_DAYS     30
#define RENEW_DAYS    10
#define CURVE_POINT   65                /* bytes, uncompressed */
#define CA_NOT_BEFORE "20200101000000Z" /* fixed, so that it is the same after a restart */
#define CA_NOT_AFTER  "20491231235959Z"
#define REFUSALS      "refusals" /* no id of a sandbox is like this */

struct leaf {
	struct host host;
	X509 *cert; /* NULL: free */
	time_t made_s;
	uint64_t used;
};

struct issuer {
	EVP_PKEY *key;
	X509 *cert;
	char pem[CERTIFICATE_PEM_MAX];
	EVP_PKEY *leaf_key; /* NULL until a host is asked for */
	bool is_shared;     /* by sandboxes: keeps nothing of what one of them asked for */
	struct leaf leaves[CACHE_MAX];
	uint64_t clock; /* of uses */
};

static int derive(const uint8_t secret[ISSUER_SECRET_SIZE], const char *id, uint8_t *ret,
                  size_t size)
{
	char info[64];
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, unconst("SHA256"), 0),
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, unconst(secret),
	                                          ISSUER_SECRET_SIZE),
		OSSL_PARAM_construct_octet_string(
			OSSL_KDF_PARAM_INFO, info,
			(size_t)snprintf(info, sizeof(info), "cloche issuer %s", id)),
		OSSL_PARAM_construct_end(),
	};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	int ok = ctx && EVP_KDF_derive(ctx, ret, size, params) == 1;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok ? 0 : -EINVAL;
}

/* Reduces a much larger number to 1 … order-1. */
static BIGNUM *reduce(const EC_GROUP *group, const uint8_t *scalar)
{
	BIGNUM *n = BN_bin2bn(scalar, SCALAR_SIZE, NULL),
	       *most = BN_dup(EC_GROUP_get0_order(group));
	BN_CTX *ctx = BN_CTX_secure_new();
	bool ok = n && most && ctx && BN_sub_word(most, 1) == 1 && BN_mod(n, n, most, ctx) == 1 &&
	          BN_add_word(n, 1) == 1;

	BN_CTX_free(ctx);
	BN_free(most);
	if (ok)
		return n;
	BN_clear_free(n);
	return NULL;
}

static int find_point(const EC_GROUP *group, const BIGNUM *private_key, uint8_t ret[CURVE_POINT])
{
	EC_POINT *point = EC_POINT_new(group);
	bool ok = point && EC_POINT_mul(group, point, private_key, NULL, NULL, NULL) == 1 &&
	          EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, ret, CURVE_POINT,
	                             NULL) == CURVE_POINT;

	EC_POINT_free(point);
	return ok ? 0 : -EINVAL;
}

static EVP_PKEY *make_key(const BIGNUM *private_key, const uint8_t point[CURVE_POINT])
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;

	if (build && ctx &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, CERTIFICATE_CURVE,
	                                    0) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, private_key) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, CURVE_POINT) ==
	            1)
		params = OSSL_PARAM_BLD_to_param(build);
	if (params && EVP_PKEY_fromdata_init(ctx) == 1)
		(void)EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *key_from(const uint8_t *scalar)
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	BIGNUM *private_key = group ? reduce(group, scalar) : NULL;
	uint8_t point[CURVE_POINT];
	EVP_PKEY *key = NULL;

	if (private_key && find_point(group, private_key, point) == 0)
		key = make_key(private_key, point);
	BN_clear_free(private_key);
	EC_GROUP_free(group);
	return key;
}

static bool fill_issuer(X509 *cert, EVP_PKEY *key, const char *id,
                        uint8_t serial[CERTIFICATE_SERIAL_SIZE])
{
	X509_NAME *name = X509_get_subject_name(cert);

	return X509_set_version(cert, X509_VERSION_3) == 1 &&
	       certificate_set_serial(cert, serial) && certificate_add_name(name, "O", "cloche") &&
	       certificate_add_name(name, "CN", id) && X509_set_issuer_name(cert, name) == 1 &&
	       ASN1_TIME_set_string_X509(X509_getm_notBefore(cert), CA_NOT_BEFORE) == 1 &&
	       ASN1_TIME_set_string_X509(X509_getm_notAfter(cert), CA_NOT_AFTER) == 1 &&
	       X509_set_pubkey(cert, key) == 1 &&
	       certificate_add_extension(cert, cert, NID_basic_constraints,
	                                 "critical,CA:TRUE,pathlen:0") &&
	       certificate_add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
	       certificate_add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

int issuer_new(const uint8_t secret[ISSUER_SECRET_SIZE], const char *sandbox_id,
               struct issuer **ret)
{
	struct issuer *a = xnew0(struct issuer);
	uint8_t seed[SCALAR_SIZE + CERTIFICATE_SERIAL_SIZE];
	int r = derive(secret, sandbox_id, seed, sizeof(seed));

	if (r == 0) {
		a->key = key_from(seed);
		a->cert = X509_new();
	}
	if (r == 0 &&
	    (!a->key || !a->cert || !fill_issuer(a->cert, a->key, sandbox_id, seed + SCALAR_SIZE) ||
	     !certificate_write_pem(a->cert, a->pem)))
		r = -EINVAL;
	explicit_bzero(seed, sizeof(seed));
	if (r < 0) {
		issuer_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

int issuer_new_of_refusals(const uint8_t secret[ISSUER_SECRET_SIZE], struct issuer **ret)
{
	int r = issuer_new(secret, REFUSALS, ret);

	if (r == 0)
		(*ret)->is_shared = true;
	return r;
}

void issuer_free(struct issuer *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < CACHE_MAX; i++)
		X509_free(a->leaves[i].cert);
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	EVP_PKEY_free(a->leaf_key);
	free(a);
}

const char *issuer_pem(const struct issuer *a)
{
	return a->pem;
}

static X509 *sign_leaf(const struct issuer *a, const struct host *host, time_t now_s)
{
	char name[HOST_SIZE], alternative[HOST_SIZE + 8];

	if (host->is_name)
		host_format(host, name);
	else
		address_format(&host->address, name); /* without the brackets of a URL */
	(void)snprintf(alternative, sizeof(alternative), "%s:%s", host->is_name ? "DNS" : "IP",
	               name);
	return certificate_sign_leaf(&(struct certificate_leaf){
		.issuer = a->cert,
		.issuer_key = a->key,
		.key = a->leaf_key,
		.names = alternative,
		.from_s = now_s - DAY_S,
		.until_s = now_s + LEAF_DAYS * DAY_S,
	});
}

/* The host's place, or that of the least recently used one. */
static struct leaf *find_place(struct issuer *a, const struct host *host)
{
	struct leaf *oldest = &a->leaves[0];

	for (size_t i = 0; i < CACHE_MAX; i++) {
		struct leaf *l = &a->leaves[i];

		if (l->cert && host_is_equal(&l->host, host))
			return l;
		if (l->used < oldest->used)
			oldest = l;
	}
	return oldest;
}

static bool is_good(const struct leaf *l, const struct host *host, time_t now_s)
{
	return l->cert && host_is_equal(&l->host, host) && now_s >= l->made_s &&
	       now_s - l->made_s < RENEW_DAYS * DAY_S;
}

int issuer_certify(struct issuer *a, const struct host *host, X509 **ret_cert, EVP_PKEY **ret_key)
{
	struct leaf *l = a->is_shared ? &a->leaves[0] : find_place(a, host);
	time_t now_s = time(NULL);

	if (!a->leaf_key)
		a->leaf_key = EVP_EC_gen(CERTIFICATE_CURVE);
	if (!a->leaf_key)
		return -EINVAL;
	if (a->is_shared || !is_good(l, host, now_s)) {
		X509_free(take_ptr(l->cert));
		l->cert = sign_leaf(a, host, now_s);
		if (!l->cert)
			return -EINVAL;
		l->host = *host;
		l->made_s = now_s;
	}
	l->used = ++a->clock;
	*ret_cert = l->cert;
	*ret_key = a->leaf_key;
	return 0;
}
