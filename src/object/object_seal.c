// SPDX-License-Identifier: Apache-2.0
#include "object/object_seal.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

void object_seal_make(const uint8_t key[OBJECT_SEAL_KEY], const struct object_claim *claim,
                      struct digest *ret)
{
	struct {
		char what[16];
		uint64_t kind, size, generation;
		struct digest digest, class;
	} text = {.what = "cloche seal 1",
	          .kind = htole64((uint64_t)claim->kind),
	          .size = htole64(claim->size),
	          .generation = htole64(claim->generation),
	          .digest = claim->digest,
	          .class = claim->class};
	unsigned len = DIGEST_LEN;

	if (!HMAC(EVP_sha256(), key, OBJECT_SEAL_KEY, (const unsigned char *)&text, sizeof(text),
	          ret->bytes, &len))
		abort(); /* no memory */
}

/* Another length than that of a seal's text, so that none is another's. */
void object_seal_derive(const uint8_t key[OBJECT_SEAL_KEY], const char *what,
                        uint8_t ret[OBJECT_SEAL_KEY])
{
	struct {
		char tag[16], what[48];
	} text = {.tag = "cloche key 1"};
	unsigned len = OBJECT_SEAL_KEY;

	(void)snprintf(text.what, sizeof(text.what), "%s", what);
	if (!HMAC(EVP_sha256(), key, OBJECT_SEAL_KEY, (const unsigned char *)&text, sizeof(text),
	          ret, &len))
		abort(); /* no memory */
}

bool object_seal_fits(const uint8_t key[OBJECT_SEAL_KEY], const struct object_claim *claim,
                      const struct digest *seal)
{
	struct digest has;

	object_seal_make(key, claim, &has);
	return CRYPTO_memcmp(has.bytes, seal->bytes, DIGEST_LEN) == 0;
}
