// SPDX-License-Identifier: Apache-2.0
/*
 * A key set, a zero byte, and a token. Whatever they are, nothing is taken that no key has signed:
 * a token that is good with these keys is not with none.
 */
#include "oidc/id_token.h"
#include "oidc/jws.h"
#include "oidc/provider_documents.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_token(const char *text, size_t len, const struct jwks *keys)
{
	static const struct id_token_rules rules = {
		.issuer = "https://id.example", .client_id = "cloche", .now_s = 1700000000};
	struct id_token token;
	struct jwks *none = NULL;
	struct jws jws;
	int r;

	if (jws_parse(text, len, &jws, NULL) < 0)
		return;
	r = jws_verify(&jws, text, keys, NULL);
	assert(r == 0 || r == -ENOKEY || r == -EBADMSG);
	r = jwks_parse("{\"keys\":[]}", 11, &none, NULL);
	assert(r == 0 && jws_verify(&jws, text, none, NULL) == -ENOKEY);
	(void)id_token_check(jws.payload, jws.type, &rules, &token);
	(void)logout_token_check(jws.payload, jws.type, &rules, &token);
	jwks_free(none);
	jws_done(&jws);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *cut = size ? memchr(data, 0, size) : NULL;
	size_t len = cut ? (size_t)(cut - text) : size;
	struct provider_metadata metadata = {0};
	struct jwks *keys = NULL;

	if (provider_metadata_parse(text, len, "https://id.example", &metadata, NULL) == 0)
		provider_metadata_done(&metadata);
	if (jwks_parse(text, len, &keys, NULL) < 0)
		return 0;
	assert(jwks_count(keys) <= JWKS_KEYS_MAX);
	if (cut)
		try_token(cut + 1, size - len - 1, keys);
	jwks_free(keys);
	return 0;
}
