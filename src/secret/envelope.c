// SPDX-License-Identifier: Apache-2.0
#include "secret/envelope.h"

#include "base/id.h"
#include "base/parse.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#define NONCE_SIZE 12
#define TAG_SIZE   16
#define BOX_MAX    (NONCE_SIZE + ENVELOPE_BYTES_MAX + TAG_SIZE)
#define WRAPPED    (NONCE_SIZE + MASTER_KEY_SIZE + TAG_SIZE)

DEFINE_FREEP(EVP_CIPHER_CTX, EVP_CIPHER_CTX_free)

/* Puts nonce, sealed bytes and tag into box. */
static int box_seal(const uint8_t key[MASTER_KEY_SIZE], const char *label, const void *data,
                    size_t len, uint8_t *box)
{
	auto_call(EVP_CIPHER_CTX_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	uint8_t *sealed = box + NONCE_SIZE;
	int n;

	random_bytes(box, NONCE_SIZE);
	if (!ctx || EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, box) != 1 ||
	    EVP_EncryptUpdate(ctx, NULL, &n, (const uint8_t *)label, (int)strlen(label)) != 1 ||
	    EVP_EncryptUpdate(ctx, sealed, &n, data, (int)len) != 1 ||
	    EVP_EncryptFinal_ex(ctx, sealed + len, &n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, sealed + len) != 1)
		return -ENOMEM;
	return 0;
}

/* Opens a box of len bytes into ret, which gets len - NONCE_SIZE - TAG_SIZE of them. */
static int box_open(const uint8_t key[MASTER_KEY_SIZE], const char *label, uint8_t *box, size_t len,
                    void *ret)
{
	auto_call(EVP_CIPHER_CTX_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	const size_t n_sealed = len - NONCE_SIZE - TAG_SIZE;
	uint8_t *tag = box + len - TAG_SIZE;
	int n;

	if (!ctx || EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, box) != 1 ||
	    EVP_DecryptUpdate(ctx, NULL, &n, (const uint8_t *)label, (int)strlen(label)) != 1 ||
	    EVP_DecryptUpdate(ctx, ret, &n, box + NONCE_SIZE, (int)n_sealed) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, tag) != 1 ||
	    EVP_DecryptFinal_ex(ctx, (uint8_t *)ret + n_sealed, &n) != 1)
		return -EBADMSG;
	return 0;
}

static char *to_text(const uint8_t *box, size_t len)
{
	char *text = xcalloc(1, base64_size(len));

	(void)base64_encode(box, len, text);
	return text;
}

/* Length of the box, for free(), or -EBADMSG. */
static ssize_t from_text(const char *text, uint8_t **ret)
{
	const size_t len = strlen(text);
	auto_free uint8_t *box = NULL;
	ssize_t n;

	if (len > base64_size(BOX_MAX) - 1)
		return -EBADMSG;
	box = xcalloc(1, len + 1);
	n = base64_decode(text, len, box);
	if (n < NONCE_SIZE + TAG_SIZE)
		return -EBADMSG;
	*ret = take_ptr(box);
	return n;
}

void envelope_done(struct envelope *e)
{
	free(take_ptr(e->wrapped));
	free(take_ptr(e->sealed));
}

static int wrap(const struct master_keys *keys, const char *label,
                const uint8_t key[MASTER_KEY_SIZE], struct envelope *e)
{
	uint8_t box[WRAPPED];
	int r = box_seal(keys->of[0], label, key, MASTER_KEY_SIZE, box);

	if (r < 0)
		return r;
	free(e->wrapped);
	e->wrapped = to_text(box, sizeof(box));
	memcpy(e->key_id, keys->ids[0], sizeof(e->key_id));
	return 0;
}

static int unwrap(const struct master_keys *keys, const char *label, const struct envelope *e,
                  uint8_t ret[MASTER_KEY_SIZE])
{
	const uint8_t *master = master_keys_find(keys, e->key_id);
	auto_free uint8_t *box = NULL;
	ssize_t n;

	if (!master)
		return -ENOKEY;
	n = from_text(e->wrapped, &box);
	if (n != WRAPPED)
		return -EBADMSG;
	return box_open(master, label, box, (size_t)n, ret);
}

int envelope_seal(const struct master_keys *keys, const char *label, const void *value, size_t len,
                  struct envelope *ret)
{
	auto_free uint8_t *box = NULL;
	struct envelope e = {0};
	uint8_t key[MASTER_KEY_SIZE];
	int r;

	assert(len <= ENVELOPE_BYTES_MAX && keys->n > 0);
	box = xcalloc(1, NONCE_SIZE + len + TAG_SIZE);
	random_bytes(key, sizeof(key));
	r = box_seal(key, label, value, len, box);
	if (r == 0)
		r = wrap(keys, label, key, &e);
	OPENSSL_cleanse(key, sizeof(key));
	if (r < 0)
		return r;
	e.sealed = to_text(box, NONCE_SIZE + len + TAG_SIZE);
	*ret = e;
	return 0;
}

ssize_t envelope_open(const struct master_keys *keys, const char *label, const struct envelope *e,
                      char **ret)
{
	auto_free uint8_t *box = NULL;
	auto_free char *value = NULL;
	uint8_t key[MASTER_KEY_SIZE];
	ssize_t n = from_text(e->sealed, &box);
	int r = n < 0 ? (int)n : unwrap(keys, label, e, key);

	if (r == 0) {
		value = xcalloc(1, (size_t)n + 1);
		r = box_open(key, label, box, (size_t)n, value);
	}
	OPENSSL_cleanse(key, sizeof(key));
	if (r < 0) {
		if (value)
			OPENSSL_cleanse(value, (size_t)n);
		return r;
	}
	*ret = take_ptr(value);
	return n - NONCE_SIZE - TAG_SIZE;
}

int envelope_rewrap(const struct master_keys *keys, const char *label, struct envelope *e)
{
	uint8_t key[MASTER_KEY_SIZE];
	int r;

	if (strcmp(e->key_id, keys->ids[0]) == 0)
		return 1;
	r = unwrap(keys, label, e, key);
	if (r == 0)
		r = wrap(keys, label, key, e);
	OPENSSL_cleanse(key, sizeof(key));
	return r;
}
