// SPDX-License-Identifier: Apache-2.0
#include "event/seal.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/parse.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#define SIGNATURE_BYTES 64
#define SIGNED_MAX      65536

struct seal_key {
	EVP_PKEY *pair;
	char pem[SEAL_PEM_SIZE];
};

static int put_public(struct seal_key *key)
{
	BIO *bio = BIO_new(BIO_s_mem());
	int n = -1;

	if (bio && PEM_write_bio_PUBKEY(bio, key->pair) == 1)
		n = BIO_read(bio, key->pem, sizeof(key->pem) - 1);
	key->pem[MAX(n, 0)] = '\0';
	(void)BIO_free(bio);
	return n > 0 ? 0 : -EIO;
}

int seal_key_new(const uint8_t seed[SEAL_SEED_SIZE], struct seal_key **ret, struct err *err)
{
	struct seal_key *key = xnew0(struct seal_key);

	key->pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, SEAL_SEED_SIZE);
	if (!key->pair || put_public(key) < 0) {
		seal_key_free(key);
		return err_set(err, ERR_INTERNAL, EIO, "the key that seals exports cannot be used");
	}
	*ret = key;
	return 0;
}

void seal_key_free(struct seal_key *key)
{
	if (key)
		EVP_PKEY_free(key->pair);
	free(key);
}

const char *seal_key_public(const struct seal_key *key)
{
	return key->pem;
}

static int put_signed(struct buf *out, const char *statement)
{
	int r = buf_append(out, SEAL_CONTEXT, strlen(SEAL_CONTEXT));

	return r == 0 ? buf_append(out, statement, strlen(statement)) : r;
}

int seal_sign(const struct seal_key *key, const char *statement, char ret[SEAL_SIZE])
{
	auto_call(buf_done) struct buf text = BUF_INIT(SIGNED_MAX);
	unsigned char signature[SIGNATURE_BYTES];
	size_t len = sizeof(signature);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_signed = ctx && put_signed(&text, statement) == 0 &&
	                 EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pair) == 1 &&
	                 EVP_DigestSign(ctx, signature, &len, (const unsigned char *)text.data,
	                                text.len) == 1;

	EVP_MD_CTX_free(ctx);
	if (!is_signed)
		return -EIO;
	(void)base64_encode(signature, len, ret);
	return 0;
}

static int read_public(const char *pem, EVP_PKEY **ret, struct err *err)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;

	(void)BIO_free(bio);
	*ret = key;
	if (key && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519)
		return 0;
	EVP_PKEY_free(key);
	return err_set(err, ERR_INVALID_FIELD, 0,
	               "the key is no public Ed25519 key in PEM, such as 'cloche audit key' "
	               "prints");
}

int seal_check_key(const char *public_pem, struct err *err)
{
	EVP_PKEY *key = NULL;
	int r = read_public(public_pem, &key, err);

	if (r == 0)
		EVP_PKEY_free(key);
	return r;
}

static bool is_signature(EVP_PKEY *key, const struct buf *text, const char *signature)
{
	unsigned char raw[SIGNATURE_BYTES + 2];
	ssize_t n = strlen(signature) == SEAL_SIZE - 1
	                    ? base64_decode(signature, SEAL_SIZE - 1, raw)
	                    : -1;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool is_good = n == SIGNATURE_BYTES && ctx &&
	               EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
	               EVP_DigestVerify(ctx, raw, (size_t)n, (const unsigned char *)text->data,
	                                text->len) == 1;

	EVP_MD_CTX_free(ctx);
	return is_good;
}

int seal_verify(const char *public_pem, const char *statement, const char *signature,
                struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(SIGNED_MAX);
	EVP_PKEY *key = NULL;
	bool is_good;
	int r = read_public(public_pem, &key, err);

	if (r < 0)
		return r;
	is_good = put_signed(&text, statement) == 0 && is_signature(key, &text, signature);
	EVP_PKEY_free(key);
	return is_good ? 0
	               : err_set(err, ERR_CONFLICT, 0,
	                         "the seal is not of this key, or was altered");
}
