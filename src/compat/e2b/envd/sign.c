// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/envd/sign.h"

#include "base/buf.h"
#include "base/parse.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#define TEXT_MAX   (64 * 1024)
#define PREFIX     "v1_"
#define BASE64_LEN 43 /* of 32 bytes, without padding */

bool signature_is_by(const struct signature *s, const char *token)
{
	auto_call(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char wanted[base64_size(SHA256_DIGEST_LENGTH)];
	int r = buf_printf(&text, "%s:%s:%s:%s", s->path, s->op, s->username, token);

	if (r == 0 && s->expiration)
		r = buf_printf(&text, ":%s", s->expiration);
	if (r < 0 || strncmp(s->text, PREFIX, strlen(PREFIX)) != 0 ||
	    strlen(s->text) != strlen(PREFIX) + BASE64_LEN)
		return false;
	(void)SHA256((const unsigned char *)text.data, text.len, hash);
	(void)base64_encode(hash, sizeof(hash), wanted);
	return CRYPTO_memcmp(wanted, s->text + strlen(PREFIX), BASE64_LEN) == 0;
}

bool signature_has_expired(const struct signature *s, uint64_t now_s)
{
	uint64_t at;

	return s->expiration && (parse_u64(s->expiration, UINT64_MAX, &at) < 0 || at < now_s);
}
