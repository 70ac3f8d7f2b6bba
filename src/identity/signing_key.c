// SPDX-License-Identifier: Apache-2.0
#include "identity/signing_key.h"

#include "base/parse.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <string.h>

#define BITS            2048
#define BYTES           (BITS / 8)
#define PEM_SIZE        4096
#define THUMBPRINT_SIZE 512

struct signing_key {
	EVP_PKEY *pair;
	char name[SIGNING_KEY_NAME_SIZE];
	char modulus[base64_size(BYTES)];
};

/* The members in the order of the alphabet, without blanks: RFC 7638, 3.2. */
static void put_name(struct signing_key *key)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[THUMBPRINT_SIZE];
	int n = snprintf(text, sizeof(text), "{\"e\":\"AQAB\",\"kty\":\"RSA\",\"n\":\"%s\"}",
	                 key->modulus);

	(void)SHA256((const unsigned char *)text, (size_t)n, hash);
	(void)base64url_encode(hash, sizeof(hash), key->name);
}

/* Reads the public half; only keys as we make them are taken. */
static int describe(struct signing_key *key)
{
	BIGNUM *n = NULL, *e = NULL;
	unsigned char bytes[BYTES];
	bool is_ours = EVP_PKEY_is_a(key->pair, "RSA") && EVP_PKEY_get_bits(key->pair) == BITS &&
	               EVP_PKEY_get_bn_param(key->pair, OSSL_PKEY_PARAM_RSA_N, &n) == 1 &&
	               EVP_PKEY_get_bn_param(key->pair, OSSL_PKEY_PARAM_RSA_E, &e) == 1 &&
	               BN_is_word(e, RSA_F4) &&
	               BN_bn2binpad(n, bytes, sizeof(bytes)) == (int)sizeof(bytes);

	if (is_ours) {
		(void)base64url_encode(bytes, sizeof(bytes), key->modulus);
		put_name(key);
	}
	BN_free(n);
	BN_free(e);
	return is_ours ? 0 : -EBADMSG;
}

static int take(EVP_PKEY *pair, struct signing_key **ret)
{
	struct signing_key *key;

	if (!pair)
		return -EBADMSG;
	key = xnew0(struct signing_key);
	key->pair = pair;
	if (describe(key) < 0) {
		signing_key_free(key);
		return -EBADMSG;
	}
	*ret = key;
	return 0;
}

int signing_key_make(struct signing_key **ret)
{
	return take(EVP_RSA_gen(BITS), ret);
}

int signing_key_read(const char *pem, struct signing_key **ret)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *pair = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;

	(void)BIO_free(bio);
	return take(pair, ret);
}

void signing_key_free(struct signing_key *key)
{
	if (key)
		EVP_PKEY_free(key->pair); /* overwrites the private half */
	free(key);
}

char *signing_key_pem(const struct signing_key *key)
{
	BIO *bio = BIO_new(BIO_s_secmem());
	char text[PEM_SIZE], *pem = NULL;
	int n = -1;

	if (bio && PEM_write_bio_PKCS8PrivateKey(bio, key->pair, NULL, NULL, 0, NULL, NULL) == 1)
		n = BIO_read(bio, text, sizeof(text));
	if (n > 0)
		pem = xstrndup(text, (size_t)n);
	OPENSSL_cleanse(text, sizeof(text));
	(void)BIO_free(bio);
	return pem;
}

const char *signing_key_name(const struct signing_key *key)
{
	return key->name;
}

const char *signing_key_modulus(const struct signing_key *key)
{
	return key->modulus;
}

int signing_key_sign(const struct signing_key *key, const char *text, size_t len, struct buf *out)
{
	unsigned char signature[BYTES];
	char coded[base64_size(BYTES)];
	size_t n = sizeof(signature);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_signed = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key->pair) == 1 &&
	                 EVP_DigestSign(ctx, signature, &n, (const unsigned char *)text, len) == 1;

	EVP_MD_CTX_free(ctx);
	if (!is_signed)
		return -EIO;
	return buf_append(out, coded, base64url_encode(signature, n, coded));
}
