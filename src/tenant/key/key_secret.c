// SPDX-License-Identifier: Apache-2.0
/* A secret is "clo_" and 40 digits of 160 random bits. Only its SHA-256 is kept. */
#include "base/fd.h"
#include "tenant/key/key_private.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define SECRET_BYTES  20
#define SECRET_DIGITS (SECRET_BYTES * 2)

static void hash_digits(const char *digits, unsigned char hash[32])
{
	if (EVP_Digest(digits, SECRET_DIGITS, hash, NULL, EVP_sha256(), NULL) != 1)
		abort(); /* only on no memory */
}

bool key_hash_secret(const char *secret, unsigned char ret[32])
{
	if (strncmp(secret, "clo_", 4) == 0 || strncmp(secret, "e2b_", 4) == 0)
		secret += 4;
	if (strspn(secret, "0123456789abcdef") != SECRET_DIGITS || secret[SECRET_DIGITS] != '\0')
		return false;
	hash_digits(secret, ret);
	return true;
}

void key_draw_secret(char secret[48], unsigned char hash[32])
{
	unsigned char raw[SECRET_BYTES];
	char *digits = secret + 4;

	random_bytes(raw, sizeof(raw));
	(void)snprintf(secret, 48, "clo_");
	for (size_t i = 0; i < sizeof(raw); i++)
		(void)snprintf(digits + i * 2, 3, "%02x", raw[i]);
	hash_digits(digits, hash);
	OPENSSL_cleanse(raw, sizeof(raw));
}
