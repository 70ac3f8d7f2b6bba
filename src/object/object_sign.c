// SPDX-License-Identifier: Apache-2.0
#include "object/object_sign.h"

#include "base/digest.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ALGORITHM     "AWS4-HMAC-SHA256"
#define CANONICAL_MAX ((size_t)16 * 1024)
#define DATE_LEN      8

static_assert(OBJECT_HASH_SIZE == DIGEST_HEX, "both are of a SHA-256");

void object_hash(const void *data, size_t len, char ret[OBJECT_HASH_SIZE])
{
	struct digest hash;

	(void)SHA256(data, len, hash.bytes);
	digest_to_hex(&hash, ret);
}

void object_sign_time(uint64_t at_us, char ret[OBJECT_SIGN_TIME_SIZE])
{
	const time_t seconds = (time_t)(at_us / 1000000);
	struct tm tm = {0};

	(void)gmtime_r(&seconds, &tm);
	(void)strftime(ret, OBJECT_SIGN_TIME_SIZE, "%Y%m%dT%H%M%SZ", &tm);
}

static int put_names(struct buf *out, const struct object_sign *s)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n_fields; i++)
		r = buf_printf(out, "%s%s", i > 0 ? ";" : "", s->fields[i].name);
	return r;
}

static int put_canonical(struct buf *out, const struct object_sign *s)
{
	int r = buf_printf(out, "%s\n%s\n%s\n", s->method, s->path, s->query ? s->query : "");

	for (size_t i = 0; r == 0 && i < s->n_fields; i++)
		r = buf_printf(out, "%s:%s\n", s->fields[i].name, s->fields[i].value);
	if (r == 0)
		r = buf_append_str(out, "\n");
	if (r == 0)
		r = put_names(out, s);
	return r == 0 ? buf_printf(out, "\n%s", s->content_hash) : r;
}

static void mac(unsigned char key[SHA256_DIGEST_LENGTH], size_t key_len, const char *text,
                size_t len)
{
	unsigned n = 0;
	unsigned char out[EVP_MAX_MD_SIZE];

	(void)HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, len, out, &n);
	memcpy(key, out, SHA256_DIGEST_LENGTH);
	OPENSSL_cleanse(out, sizeof(out));
}

/* The signing key is of one day, region and service. */
static void sign_text(const struct object_sign *s, const struct buf *text,
                      char ret[OBJECT_HASH_SIZE])
{
	const char *const parts[] = {s->region, s->service, "aws4_request"};
	unsigned char key[256];
	struct digest signature;
	size_t len = (size_t)snprintf((char *)key, sizeof(key), "AWS4%s", s->credentials->secret);

	mac(key, len, s->time, DATE_LEN);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		mac(key, SHA256_DIGEST_LENGTH, parts[i], strlen(parts[i]));
	mac(key, SHA256_DIGEST_LENGTH, text->data, text->len);
	memcpy(signature.bytes, key, sizeof(signature.bytes));
	digest_to_hex(&signature, ret);
	OPENSSL_cleanse(key, sizeof(key));
}

int object_sign(const struct object_sign *s, char ret[OBJECT_SIGN_SIZE])
{
	auto_call(buf_done) struct buf canonical = BUF_INIT(CANONICAL_MAX);
	auto_call(buf_done) struct buf text = BUF_INIT(1024);
	auto_call(buf_done) struct buf value = BUF_INIT(OBJECT_SIGN_SIZE - 1);
	char scope[128], hash[OBJECT_HASH_SIZE], signature[OBJECT_HASH_SIZE];
	int r = put_canonical(&canonical, s);

	if (r < 0)
		return r;
	object_hash(canonical.data, canonical.len, hash);
	(void)snprintf(scope, sizeof(scope), "%.*s/%s/%s/aws4_request", DATE_LEN, s->time,
	               s->region, s->service);
	r = buf_printf(&text, ALGORITHM "\n%s\n%s\n%s", s->time, scope, hash);
	if (r < 0)
		return r;
	sign_text(s, &text, signature);
	r = buf_printf(&value, ALGORITHM " Credential=%s/%s, SignedHeaders=", s->credentials->id,
	               scope);
	if (r == 0)
		r = put_names(&value, s);
	if (r == 0)
		r = buf_printf(&value, ", Signature=%s", signature);
	if (r == 0)
		memcpy(ret, buf_str(&value), value.len + 1);
	return r;
}
