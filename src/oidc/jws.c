// SPDX-License-Identifier: Apache-2.0
#include "oidc/base64url.h"
#include "oidc/jws_private.h"

#include <ctype.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/rsa.h>
#include <string.h>

#define HEADER_MAX 4096
#define VALUES_MAX 4096

const struct jws_alg jws_algs[] = {
	{"RS256", JWS_RSA, "SHA256"},
	{"RS384", JWS_RSA, "SHA384"},
	{"RS512", JWS_RSA, "SHA512"},
	{"PS256", JWS_RSA_PSS, "SHA256"},
	{"ES256", JWS_EC, "SHA256", "P-256", "prime256v1", 32},
	{"ES384", JWS_EC, "SHA384", "P-384", "secp384r1", 48},
	{"EdDSA", JWS_ED25519, NULL, "Ed25519", NULL, 32},
};
const size_t n_jws_algs = ARRAY_SIZE(jws_algs);

static int refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_UNAUTHENTICATED, EBADMSG, "the token is refused: %s", why);
}

static int parse_part(const char *text, size_t len, size_t max, json_t **ret, struct err *err)
{
	auto_free char *raw = NULL;
	ssize_t n;
	int r;

	if (len > max)
		return refuse(err, "a part of it is too long");
	raw = xcalloc(1, len + 1);
	n = base64url_decode(text, len, raw);
	if (n < 0)
		return refuse(err, "a part of it is not base64url");
	r = json_parse_up_to(raw, (size_t)n, VALUES_MAX, ret, err);
	if (r < 0)
		return refuse(err, "a part of it is not JSON");
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return refuse(err, "a part of it is not an object");
}

static int copy_name(const json_t *value, char *ret, size_t size)
{
	const char *text = json_string_value(value);

	if (!text || strlen(text) >= size)
		return -EINVAL;
	(void)snprintf(ret, size, "%s", text);
	return 0;
}

static int read_header(const json_t *header, struct jws *ret, struct err *err)
{
	const char *alg = json_string_value(json_object_get(header, "alg"));
	const json_t *kid = json_object_get(header, "kid"), *type = json_object_get(header, "typ");

	for (ret->alg = 0; alg && ret->alg < n_jws_algs; ret->alg++)
		if (strcmp(jws_algs[ret->alg].name, alg) == 0)
			break;
	if (!alg || ret->alg == n_jws_algs)
		return refuse(err, "it has no algorithm that is accepted");
	if (json_object_get(header, "crit"))
		return refuse(err, "its header has what must be understood and is not");
	if (kid && copy_name(kid, ret->kid, sizeof(ret->kid)) < 0)
		return refuse(err, "its key's id is no text, or too long");
	ret->has_kid = kid;
	if (type && copy_name(type, ret->type, sizeof(ret->type)) < 0)
		return refuse(err, "its type is no text, or too long");
	for (char *p = ret->type; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return 0;
}

int jws_parse(const char *text, size_t len, struct jws *ret, struct err *err)
{
	const char *first = memchr(text, '.', MIN(len, JWS_TEXT_MAX));
	const char *second =
		first ? memchr(first + 1, '.', len - (size_t)(first + 1 - text)) : NULL;
	auto_json json_t *header = NULL;
	size_t rest;
	ssize_t n;
	int r;

	*ret = (struct jws){0};
	if (len > JWS_TEXT_MAX)
		return refuse(err, "it is too long");
	if (!second)
		return refuse(err, "it has not three parts");
	rest = len - (size_t)(second + 1 - text);
	if (rest == 0 || rest > sizeof(ret->signature))
		return refuse(err, "its signature is missing, or too long");
	n = base64url_decode(second + 1, rest, ret->signature);
	if (n <= 0)
		return refuse(err, "its signature is not base64url");
	ret->signature_len = (size_t)n;
	ret->signed_len = (size_t)(second - text);
	r = parse_part(text, (size_t)(first - text), HEADER_MAX, &header, err);
	if (r == 0)
		r = read_header(header, ret, err);
	if (r == 0)
		r = parse_part(first + 1, (size_t)(second - first - 1), JWS_TEXT_MAX, &ret->payload,
		               err);
	return r;
}

void jws_done(struct jws *jws)
{
	json_decref(take_ptr(jws->payload));
}

/* Two numbers of fixed length, as the DER that OpenSSL wants. For free by OPENSSL_free(). */
static int der_of(const struct jws *jws, size_t half, unsigned char **ret)
{
	ECDSA_SIG *sig;
	BIGNUM *r, *s;
	int n;

	*ret = NULL;
	if (jws->signature_len != 2 * half)
		return -1;
	sig = ECDSA_SIG_new();
	r = BN_bin2bn(jws->signature, (int)half, NULL);
	s = BN_bin2bn(jws->signature + half, (int)half, NULL);
	if (!sig || !r || !s || ECDSA_SIG_set0(sig, r, s) != 1) {
		BN_free(r);
		BN_free(s);
		ECDSA_SIG_free(sig);
		return -1;
	}
	n = i2d_ECDSA_SIG(sig, ret);
	ECDSA_SIG_free(sig);
	return n;
}

static bool begin(EVP_MD_CTX *ctx, const struct jws_alg *alg, const struct jwk *key)
{
	EVP_PKEY_CTX *pkey = NULL;

	if (EVP_DigestVerifyInit_ex(ctx, &pkey, alg->digest, NULL, NULL, key->key, NULL) != 1)
		return false;
	return alg->kind != JWS_RSA_PSS ||
	       (EVP_PKEY_CTX_set_rsa_padding(pkey, RSA_PKCS1_PSS_PADDING) == 1 &&
	        EVP_PKEY_CTX_set_rsa_pss_saltlen(pkey, RSA_PSS_SALTLEN_DIGEST) == 1);
}

static bool is_signed(const struct jws *jws, const char *text, const struct jwk *key)
{
	const struct jws_alg *alg = &jws_algs[jws->alg];
	const unsigned char *signature = jws->signature;
	unsigned char *der = NULL;
	size_t len = jws->signature_len;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_good = ctx && begin(ctx, alg, key);

	if (is_good && alg->kind == JWS_EC) {
		int n = der_of(jws, alg->half, &der);

		is_good = n > 0;
		signature = der;
		len = is_good ? (size_t)n : 0;
	}
	is_good = is_good && EVP_DigestVerify(ctx, signature, len, (const unsigned char *)text,
	                                      jws->signed_len) == 1;
	EVP_MD_CTX_free(ctx);
	OPENSSL_free(der);
	ERR_clear_error();
	return is_good;
}

int jws_verify(const struct jws *jws, const char *text, const struct jwks *keys, struct err *err)
{
	const struct jwk *found = NULL;

	for (size_t i = 0; i < keys->n; i++) {
		if (!jwk_fits(&keys->of[i], jws))
			continue;
		if (found)
			return refuse(err, "more than one of the provider's keys could be meant");
		found = &keys->of[i];
	}
	if (!found)
		return err_set(err, ERR_UNAUTHENTICATED, ENOKEY,
		               "the provider has no key that the token could be signed with");
	return is_signed(jws, text, found) ? 0 : refuse(err, "its signature is wrong");
}
