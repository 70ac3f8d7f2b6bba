// SPDX-License-Identifier: Apache-2.0
#include "oidc/base64url.h"
#include "oidc/jws_private.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <string.h>

#define VALUES_MAX   16384
#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192 /* a larger one only costs time */
#define NUMBER_MAX   (RSA_BITS_MAX / 8 + 1)

/* A member that is base64url, into ret of size bytes. < 0: there is none, or no such. */
static ssize_t read_bytes(const json_t *object, const char *name, unsigned char *ret, size_t size)
{
	const char *text = json_string_value(json_object_get(object, name));
	size_t len = text ? strlen(text) : 0;

	return len == 0 || len / 4 * 3 + 2 > size ? -EINVAL : base64url_decode(text, len, ret);
}

static EVP_PKEY *make_key(const char *type, OSSL_PARAM_BLD *build)
{
	OSSL_PARAM *params = build ? OSSL_PARAM_BLD_to_param(build) : NULL;
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *key = NULL;

	if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_free(params);
	return key;
}

static bool is_rsa_fine(const BIGNUM *n, const BIGNUM *e)
{
	return n && e && BN_num_bits(n) >= RSA_BITS_MIN && BN_num_bits(n) <= RSA_BITS_MAX &&
	       BN_is_odd(n) && BN_is_odd(e) && !BN_is_one(e) && BN_num_bits(e) <= 32;
}

static EVP_PKEY *read_rsa(const json_t *object)
{
	unsigned char modulus[NUMBER_MAX + 4], exponent[16];
	ssize_t modulus_len = read_bytes(object, "n", modulus, sizeof(modulus));
	ssize_t exponent_len = read_bytes(object, "e", exponent, sizeof(exponent));
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	BIGNUM *n = modulus_len > 0 ? BN_bin2bn(modulus, (int)modulus_len, NULL) : NULL;
	BIGNUM *e = exponent_len > 0 ? BN_bin2bn(exponent, (int)exponent_len, NULL) : NULL;
	EVP_PKEY *key = NULL;

	if (build && is_rsa_fine(n, e) &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
	    OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1)
		key = make_key("RSA", build);
	OSSL_PARAM_BLD_free(build);
	BN_free(n);
	BN_free(e);
	return key;
}

static EVP_PKEY *read_ec(const json_t *object, const struct jws_alg *alg)
{
	unsigned char point[1 + 2 * 64] = {POINT_CONVERSION_UNCOMPRESSED};
	unsigned char x[64], y[64];
	OSSL_PARAM_BLD *build;
	EVP_PKEY *key = NULL;

	if (read_bytes(object, "x", x, sizeof(x)) != (ssize_t)alg->half ||
	    read_bytes(object, "y", y, sizeof(y)) != (ssize_t)alg->half)
		return NULL;
	memcpy(point + 1, x, alg->half);
	memcpy(point + 1 + alg->half, y, alg->half);
	build = OSSL_PARAM_BLD_new();
	if (build &&
	    OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, alg->group, 0) ==
	            1 &&
	    OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point,
	                                     1 + 2 * alg->half) == 1)
		key = make_key("EC", build); /* refuses a point that is not on the curve */
	OSSL_PARAM_BLD_free(build);
	return key;
}

static EVP_PKEY *read_ed25519(const json_t *object)
{
	unsigned char x[64];

	if (read_bytes(object, "x", x, sizeof(x)) != 32)
		return NULL;
	return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, 32);
}

static const struct jws_alg *alg_of_curve(const char *curve, enum jws_kind kind)
{
	for (size_t i = 0; i < n_jws_algs; i++)
		if (jws_algs[i].kind == kind && strcmp(jws_algs[i].curve, curve) == 0)
			return &jws_algs[i];
	return NULL;
}

static void read_public(const json_t *object, struct jwk *key)
{
	const char *type = json_string_value(json_object_get(object, "kty"));
	const char *curve = json_string_value(json_object_get(object, "crv"));
	const struct jws_alg *alg;

	if (!type)
		return;
	if (strcmp(type, "RSA") == 0) {
		key->type = "RSA";
		key->key = read_rsa(object);
	} else if (strcmp(type, "EC") == 0 && curve && (alg = alg_of_curve(curve, JWS_EC))) {
		key->type = "EC";
		key->curve = alg->curve;
		key->key = read_ec(object, alg);
	} else if (strcmp(type, "OKP") == 0 && curve && (alg = alg_of_curve(curve, JWS_ED25519))) {
		key->type = "OKP";
		key->curve = alg->curve;
		key->key = read_ed25519(object);
	}
}

/* False if it is no text that fits. */
static bool read_name(const json_t *object, const char *name, char *ret, size_t size, bool *given)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value);

	*given = value;
	if (!value)
		return true;
	if (!text || strlen(text) >= size)
		return false;
	(void)snprintf(ret, size, "%s", text);
	return true;
}

/* Of a key that is not for us, key->key stays NULL. */
static void read_key(const json_t *object, struct jwk *key)
{
	char use[16] = "";
	bool given;

	*key = (struct jwk){0};
	if (!read_name(object, "use", use, sizeof(use), &given) ||
	    (given && strcmp(use, "sig") != 0) ||
	    !read_name(object, "alg", key->alg, sizeof(key->alg), &given) ||
	    !read_name(object, "kid", key->kid, sizeof(key->kid), &key->has_kid))
		return;
	read_public(object, key);
	ERR_clear_error();
}

int jwks_parse(const char *text, size_t len, struct jwks **ret, struct err *err)
{
	auto_json json_t *set = NULL;
	const json_t *list, *object;
	struct jwks *keys;
	size_t i;

	if (len > JWKS_TEXT_MAX)
		return err_set(err, ERR_UNAVAILABLE, E2BIG, "the provider's key set is too long");
	if (json_parse_up_to(text, len, VALUES_MAX, &set, err) < 0)
		return err_prefix(err, "the provider's key set");
	list = json_object_get(set, "keys");
	if (!json_is_array(list) || json_array_size(list) > JWKS_KEYS_MAX)
		return err_set(err, ERR_UNAVAILABLE, EBADMSG,
		               "the provider's key set has no list of up to %d keys",
		               JWKS_KEYS_MAX);
	keys = xnew0(struct jwks);
	json_array_foreach(list, i, object)
	{
		read_key(object, &keys->of[keys->n]);
		keys->n += keys->of[keys->n].key != NULL;
	}
	*ret = keys;
	return 0;
}

void jwks_free(struct jwks *keys)
{
	for (size_t i = 0; keys && i < keys->n; i++)
		EVP_PKEY_free(keys->of[i].key);
	free(keys);
}

size_t jwks_count(const struct jwks *keys)
{
	return keys->n;
}

static const char *const types[] = {
	[JWS_RSA] = "RSA", [JWS_RSA_PSS] = "RSA", [JWS_EC] = "EC", [JWS_ED25519] = "OKP"};

bool jwk_fits(const struct jwk *key, const struct jws *jws)
{
	const struct jws_alg *alg = &jws_algs[jws->alg];

	if (strcmp(key->type, types[alg->kind]) != 0 ||
	    (alg->curve && strcmp(key->curve, alg->curve) != 0))
		return false;
	if (key->alg[0] && strcmp(key->alg, alg->name) != 0)
		return false;
	return !jws->has_kid || (key->has_kid && strcmp(key->kid, jws->kid) == 0);
}
