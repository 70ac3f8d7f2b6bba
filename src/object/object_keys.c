// SPDX-License-Identifier: Apache-2.0
#include "object/object_keys.h"

#include "base/id.h"
#include "base/parse.h"
#include "object/object_manifest.h"

#include <assert.h>
#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

DEFINE_FREEP(EVP_CIPHER_CTX, EVP_CIPHER_CTX_free)

struct part {
	const void *data;
	size_t len;
};

static const uint8_t no_nonce[OBJECT_NONCE];

static void mac(const void *key, const struct part *parts, size_t n, struct digest *ret)
{
	EVP_MAC *kind = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = kind ? EVP_MAC_CTX_new(kind) : NULL;
	char sha256[] = "SHA256";
	const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", sha256, 0),
	                             OSSL_PARAM_construct_end()};
	size_t len = 0;

	if (!ctx || EVP_MAC_init(ctx, key, OBJECT_KEY, params) != 1)
		abort(); /* no memory */
	for (size_t i = 0; i < n; i++)
		if (EVP_MAC_update(ctx, parts[i].data, parts[i].len) != 1)
			abort();
	if (EVP_MAC_final(ctx, ret->bytes, &len, DIGEST_LEN) != 1 || len != DIGEST_LEN)
		abort();
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(kind);
}

static void mac_text(const void *key, const char *text, struct digest *ret)
{
	mac(key, &(struct part){text, strlen(text)}, 1, ret);
}

static int encrypt(const uint8_t *key, const uint8_t *nonce, const struct part *label,
                   const struct part *plain, uint8_t *ret)
{
	auto_call(EVP_CIPHER_CTX_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int n;

	if (!ctx || EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) != 1 ||
	    EVP_EncryptUpdate(ctx, NULL, &n, label->data, (int)label->len) != 1 ||
	    EVP_EncryptUpdate(ctx, ret, &n, plain->data, (int)plain->len) != 1 ||
	    EVP_EncryptFinal_ex(ctx, ret + plain->len, &n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, OBJECT_TAG, ret + plain->len) != 1)
		return -ENOMEM;
	return 0;
}

/* stored: the encrypted bytes and their tag. */
static int decrypt(const uint8_t *key, const uint8_t *nonce, const struct part *label,
                   const struct part *stored, uint8_t *ret)
{
	auto_call(EVP_CIPHER_CTX_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	const size_t len = stored->len - OBJECT_TAG;
	uint8_t tag[OBJECT_TAG];
	int n;

	memcpy(tag, (const uint8_t *)stored->data + len, sizeof(tag));
	if (ctx && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
	    EVP_DecryptUpdate(ctx, NULL, &n, label->data, (int)label->len) == 1 &&
	    EVP_DecryptUpdate(ctx, ret, &n, stored->data, (int)len) == 1 &&
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, OBJECT_TAG, tag) == 1 &&
	    EVP_DecryptFinal_ex(ctx, ret + len, &n) == 1)
		return 0;
	explicit_bzero(ret, len); /* what was not checked is nobody's to read */
	return -EBADMSG;
}

void object_keys_derive(const uint8_t project_key[OBJECT_KEY], struct object_keys *ret)
{
	mac_text(project_key, "cloche objects 1: names", &ret->name);
	mac_text(project_key, "cloche objects 1: data", &ret->data);
}

void object_keys_wipe(struct object_keys *k)
{
	OPENSSL_cleanse(k, sizeof(*k));
}

static size_t wrap_label(const char *cluster_id, const char *project_id, char *ret, size_t size)
{
	int n = snprintf(ret, size, "cloche objects 1: key of %s in %s", project_id, cluster_id);

	assert(n > 0 && (size_t)n < size);
	return (size_t)n;
}

int object_key_wrap(const uint8_t cluster_key[OBJECT_KEY], const char *cluster_id,
                    const char *project_id, const uint8_t key[OBJECT_KEY],
                    char ret[OBJECT_WRAPPED_TEXT])
{
	char label[256];
	uint8_t box[OBJECT_WRAPPED];
	const struct part parts[] = {
		{label, wrap_label(cluster_id, project_id, label, sizeof(label))},
		{key, OBJECT_KEY}};
	int r;

	random_bytes(box, OBJECT_NONCE);
	r = encrypt(cluster_key, box, &parts[0], &parts[1], box + OBJECT_NONCE);
	if (r == 0)
		(void)base64_encode(box, sizeof(box), ret);
	return r;
}

int object_key_unwrap(const uint8_t cluster_key[OBJECT_KEY], const char *cluster_id,
                      const char *project_id, const char *wrapped, uint8_t ret[OBJECT_KEY])
{
	char label[256];
	uint8_t box[OBJECT_WRAPPED_TEXT];
	const struct part parts[] = {
		{label, wrap_label(cluster_id, project_id, label, sizeof(label))},
		{box + OBJECT_NONCE, OBJECT_WRAPPED - OBJECT_NONCE}};

	if (strlen(wrapped) != OBJECT_WRAPPED_TEXT - 1 ||
	    base64_decode(wrapped, OBJECT_WRAPPED_TEXT - 1, box) != OBJECT_WRAPPED)
		return -EBADMSG;
	return decrypt(cluster_key, box, &parts[0], &parts[1], ret);
}

static bool is_zero(const uint8_t *data, size_t len)
{
	return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

void object_chunk_name(const struct object_keys *k, const void *data, size_t len,
                       struct digest *ret)
{
	static const char what[] = "chunk";
	const struct part parts[] = {{what, sizeof(what)}, {data, len}};

	assert(len > 0 && len <= OBJECT_CHUNK);
	*ret = (struct digest){0};
	if (!is_zero(data, len))
		mac(k->name.bytes, parts, ARRAY_SIZE(parts), ret);
}

int object_chunk_seal(const struct object_keys *k, const struct digest *name, const void *data,
                      size_t len, void *ret)
{
	const struct part label = {name->bytes, DIGEST_LEN};
	struct digest key;
	int r;

	assert(len > 0 && len <= OBJECT_CHUNK);
	mac(k->data.bytes, &label, 1, &key);
	r = encrypt(key.bytes, no_nonce, &label, &(struct part){data, len}, ret);
	OPENSSL_cleanse(&key, sizeof(key));
	return r;
}

int object_chunk_open(const struct object_keys *k, const struct digest *name, const void *stored,
                      size_t len, void *ret)
{
	const struct part label = {name->bytes, DIGEST_LEN};
	struct digest key, has;
	int r;

	if (len <= OBJECT_TAG || len > OBJECT_STORED_MAX)
		return -EBADMSG;
	mac(k->data.bytes, &label, 1, &key);
	r = decrypt(key.bytes, no_nonce, &label, &(struct part){stored, len}, ret);
	OPENSSL_cleanse(&key, sizeof(key));
	if (r < 0)
		return r;
	object_chunk_name(k, ret, len - OBJECT_TAG, &has);
	if (digest_equal(&has, name))
		return 0;
	explicit_bzero(ret, len - OBJECT_TAG);
	return -EBADMSG;
}

void object_manifest_name(const struct object_keys *k, enum object_kind kind,
                          const struct digest *digest, uint64_t generation, struct digest *ret)
{
	static const char what[] = "manifest";
	const uint64_t numbers[] = {htole64((uint64_t)kind), htole64(generation)};
	const struct part parts[] = {
		{what, sizeof(what)}, {numbers, sizeof(numbers)}, {digest->bytes, DIGEST_LEN}};

	mac(k->name.bytes, parts, ARRAY_SIZE(parts), ret);
}

static void manifest_key(const struct object_keys *k, struct digest *ret)
{
	mac_text(k->data.bytes, "manifests", ret);
}

int object_manifest_seal(const struct object_keys *k, const struct digest *name, const void *text,
                         size_t len, struct buf *out)
{
	const struct part label = {name->bytes, DIGEST_LEN};
	const size_t size = OBJECT_NONCE + len + OBJECT_TAG;
	struct digest key;
	char *room;
	int r;

	if (len > OBJECT_MANIFEST_MAX)
		return -E2BIG;
	r = buf_reserve(out, size, &room);
	if (r < 0)
		return r;
	manifest_key(k, &key);
	random_bytes(room, OBJECT_NONCE);
	r = encrypt(key.bytes, (const uint8_t *)room, &label, &(struct part){text, len},
	            (uint8_t *)room + OBJECT_NONCE);
	OPENSSL_cleanse(&key, sizeof(key));
	if (r == 0)
		buf_commit(out, size);
	return r;
}

int object_manifest_open(const struct object_keys *k, const struct digest *name, const void *stored,
                         size_t len, struct buf *out)
{
	const struct part label = {name->bytes, DIGEST_LEN};
	const uint8_t *box = stored;
	struct digest key;
	char *room;
	int r;

	if (len <= OBJECT_NONCE + OBJECT_TAG ||
	    len > OBJECT_MANIFEST_MAX + OBJECT_NONCE + OBJECT_TAG)
		return -EBADMSG;
	r = buf_reserve(out, len - OBJECT_NONCE - OBJECT_TAG, &room);
	if (r < 0)
		return r;
	manifest_key(k, &key);
	r = decrypt(key.bytes, box, &label, &(struct part){box + OBJECT_NONCE, len - OBJECT_NONCE},
	            (uint8_t *)room);
	OPENSSL_cleanse(&key, sizeof(key));
	if (r == 0)
		buf_commit(out, len - OBJECT_NONCE - OBJECT_TAG);
	return r;
}
