// SPDX-License-Identifier: Apache-2.0
#include "hook/sign.h"

#include "base/buf.h"
#include "base/id.h"
#include "base/parse.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define PREFIX           "whsec_"
#define SECRET_BYTES_MIN 24 /* as the standard has it */
#define SECRET_BYTES_MAX 64

static_assert(sizeof(PREFIX) + base64_size(HOOK_SECRET_BYTES) <= HOOK_SECRET_SIZE, "no room");
static_assert(3 + base64_size(32) <= HOOK_SIGN_SIZE, "no room");

void hook_secret_make(char ret[HOOK_SECRET_SIZE])
{
	unsigned char bytes[HOOK_SECRET_BYTES];
	char text[base64_size(HOOK_SECRET_BYTES)];

	random_bytes(bytes, sizeof(bytes));
	(void)base64_encode(bytes, sizeof(bytes), text);
	(void)snprintf(ret, HOOK_SECRET_SIZE, PREFIX "%s", text);
	OPENSSL_cleanse(bytes, sizeof(bytes));
	OPENSSL_cleanse(text, sizeof(text));
}

/* The number of its bytes. */
static int read_secret(const char *text, unsigned char ret[HOOK_SECRET_SIZE])
{
	size_t len = strlen(text);
	ssize_t n;

	if (strncmp(text, PREFIX, strlen(PREFIX)) != 0 || len >= HOOK_SECRET_SIZE)
		return -EINVAL;
	n = base64_decode(text + strlen(PREFIX), len - strlen(PREFIX), ret);
	return n < SECRET_BYTES_MIN || n > SECRET_BYTES_MAX ? -EINVAL : (int)n;
}

bool hook_secret_is_valid(const char *secret)
{
	unsigned char bytes[HOOK_SECRET_SIZE];
	int r = read_secret(secret, bytes);

	OPENSSL_cleanse(bytes, sizeof(bytes));
	return r > 0;
}

int hook_sign(const char *secret, const char *id, uint64_t seconds, const char *body, size_t len,
              char ret[HOOK_SIGN_SIZE])
{
	auto_call(buf_done) struct buf text = BUF_INIT(len + 256);
	unsigned char key[HOOK_SECRET_SIZE], mac[EVP_MAX_MD_SIZE];
	char encoded[base64_size(EVP_MAX_MD_SIZE)];
	unsigned mac_len = 0;
	int key_len = read_secret(secret, key);
	int r = MIN(key_len, 0);

	if (r == 0)
		r = buf_printf(&text, "%s.%" PRIu64 ".", id, seconds);
	if (r == 0)
		r = buf_append(&text, body, len);
	if (r == 0 && !HMAC(EVP_sha256(), key, key_len, (const unsigned char *)text.data, text.len,
	                    mac, &mac_len))
		r = -ENOMEM;
	OPENSSL_cleanse(key, sizeof(key));
	if (r < 0)
		return r;
	(void)base64_encode(mac, mac_len, encoded);
	(void)snprintf(ret, HOOK_SIGN_SIZE, "v1,%.*s", HOOK_SIGN_SIZE - 4, encoded);
	return 0;
}
