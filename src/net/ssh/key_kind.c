// SPDX-License-Identifier: Apache-2.0
#include "net/ssh/key_kind.h"

#include <openssl/core_names.h>
#include <openssl/param_build.h>

#define ED_LEN  32
#define RSA_KEY "ssh-rsa"

const struct ssh_key_kind ssh_key_kinds[] = {
	{"ssh-ed25519", NULL, "ED25519", 0, EVP_md_null},
	{RSA_KEY, NULL, "RSA", 0, NULL},
	{"ecdsa-sha2-nistp256", "nistp256", "prime256v1", 256, EVP_sha256},
	{"ecdsa-sha2-nistp384", "nistp384", "secp384r1", 384, EVP_sha384},
	{"ecdsa-sha2-nistp521", "nistp521", "secp521r1", 521, EVP_sha512},
};

const struct ssh_key_kind *ssh_key_kind_named(const struct cursor *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(ssh_key_kinds); i++)
		if (ssh_is_text(name, ssh_key_kinds[i].name))
			return &ssh_key_kinds[i];
	return NULL;
}

const struct ssh_key_kind *ssh_key_kind_of(const EVP_PKEY *pair)
{
	char group[64] = "";
	const bool is_curve = EVP_PKEY_is_a(pair, "EC");

	if (is_curve && EVP_PKEY_get_group_name(pair, group, sizeof(group), NULL) != 1)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(ssh_key_kinds); i++) {
		const struct ssh_key_kind *kind = &ssh_key_kinds[i];

		if (is_curve ? kind->curve && strcmp(kind->group, group) == 0
		             : !kind->curve && EVP_PKEY_is_a(pair, kind->group))
			return kind;
	}
	return NULL;
}

const EVP_MD *ssh_rsa_hash(const struct cursor *name)
{
	if (ssh_is_text(name, "rsa-sha2-256"))
		return EVP_sha256();
	return ssh_is_text(name, "rsa-sha2-512") ? EVP_sha512() : NULL;
}

BIGNUM *ssh_get_number(struct cursor *c)
{
	struct cursor piece = ssh_string(c);

	if (piece.failed || piece.left == 0 || piece.left > SSH_NUMBER_MAX || piece.at[0] & 0x80)
		return NULL;
	return BN_bin2bn(piece.at, (int)piece.left, NULL);
}

int ssh_put_number(struct buf *out, const BIGNUM *n)
{
	uint8_t bytes[SSH_NUMBER_MAX + 1] = {0};
	int len = BN_num_bytes(n);

	if (len <= 0 || len > SSH_NUMBER_MAX || BN_bn2bin(n, bytes + 1) != len)
		return -EINVAL;
	/* A zero before one whose first bit is set: it is not negative. */
	return bytes[1] & 0x80 ? ssh_put_string(out, bytes, (size_t)len + 1)
	                       : ssh_put_string(out, bytes + 1, (size_t)len);
}

static int put_rsa(struct buf *out, EVP_PKEY *pair)
{
	BIGNUM *n = NULL, *e = NULL;
	int r = EVP_PKEY_get_bn_param(pair, OSSL_PKEY_PARAM_RSA_N, &n) == 1 &&
	                        EVP_PKEY_get_bn_param(pair, OSSL_PKEY_PARAM_RSA_E, &e) == 1
	                ? ssh_put_number(out, e)
	                : -EINVAL;

	if (r == 0)
		r = ssh_put_number(out, n);
	BN_free(n);
	BN_free(e);
	return r;
}

static int put_point(struct buf *out, const struct ssh_key_kind *kind, EVP_PKEY *pair)
{
	unsigned char *point = NULL;
	size_t len = EVP_PKEY_get1_encoded_public_key(pair, &point);
	int r = len == ssh_point_len(kind) ? ssh_put_text(out, kind->curve) : -EINVAL;

	if (r == 0)
		r = ssh_put_string(out, point, len);
	OPENSSL_free(point);
	return r;
}

int ssh_put_public(struct buf *out, const struct ssh_key_kind *kind, EVP_PKEY *pair)
{
	uint8_t raw[ED_LEN];
	size_t len = sizeof(raw);
	int r = ssh_put_text(out, kind->name);

	if (r < 0)
		return r;
	if (ssh_key_kind_is_rsa(kind))
		return put_rsa(out, pair);
	if (kind->curve)
		return put_point(out, kind, pair);
	if (EVP_PKEY_get_raw_public_key(pair, raw, &len) != 1 || len != sizeof(raw))
		return -EINVAL;
	return ssh_put_string(out, raw, len);
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *build, int selection)
{
	OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
	EVP_PKEY *pair = NULL;

	if (!params || !ctx || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &pair, selection, params) != 1)
		pair = NULL;
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_free(params);
	return pair;
}

static EVP_PKEY *get_rsa(struct cursor *c)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	BIGNUM *e = ssh_get_number(c), *n = ssh_get_number(c);
	const bool is_fine = build && e && n && BN_is_odd(n) && BN_is_odd(e) &&
	                     BN_num_bits(n) >= SSH_RSA_BITS_MIN &&
	                     BN_num_bits(n) <= SSH_RSA_BITS_MAX && BN_num_bits(e) <= 64 &&
	                     OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
	                     OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1;
	EVP_PKEY *pair = is_fine ? from_params("RSA", build, EVP_PKEY_PUBLIC_KEY) : NULL;

	OSSL_PARAM_BLD_free(build);
	BN_free(e);
	BN_free(n);
	return pair;
}

EVP_PKEY *ssh_make_curve_key(const struct ssh_key_kind *kind, const struct cursor *point,
                             const BIGNUM *secret)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	const bool is_fine =
		build && !point->failed && point->left == ssh_point_len(kind) &&
		OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, kind->group,
	                                        0) == 1 &&
		OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point->at,
	                                         point->left) == 1 &&
		(!secret || OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, secret) == 1);
	EVP_PKEY *pair =
		is_fine ? from_params("EC", build, secret ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY)
			: NULL;
	EVP_PKEY_CTX *ctx = pair ? EVP_PKEY_CTX_new(pair, NULL) : NULL;

	OSSL_PARAM_BLD_free(build);
	if (!ctx || (secret ? EVP_PKEY_pairwise_check(ctx) : EVP_PKEY_public_check(ctx)) != 1) {
		EVP_PKEY_free(pair);
		pair = NULL;
	}
	EVP_PKEY_CTX_free(ctx);
	return pair;
}

EVP_PKEY *ssh_get_public(struct cursor *c, const struct ssh_key_kind *kind)
{
	struct cursor piece;

	if (ssh_key_kind_is_rsa(kind))
		return get_rsa(c);
	piece = ssh_string(c);
	if (!kind->curve)
		return !piece.failed && piece.left == ED_LEN
		               ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, piece.at,
		                                             piece.left)
		               : NULL;
	if (!ssh_is_text(&piece, kind->curve))
		return NULL;
	piece = ssh_string(c);
	return ssh_make_curve_key(kind, &piece, NULL);
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* By hand: OpenSSL's decoder takes blanks and lost ends. */
int ssh_decode_base64(const char *text, size_t len, struct buf *out)
{
	unsigned bits = 0, n_bits = 0;
	size_t n_letters = 0, n_pads = 0;
	int r = 0;

	for (size_t i = 0; i < len && r == 0; i++) {
		int value = value_of(text[i]);

		if (text[i] == '\n' || text[i] == '\r')
			continue;
		n_letters++;
		if (text[i] == '=') {
			n_pads++;
			continue;
		}
		if (value < 0 || n_pads > 0)
			return -EINVAL;
		bits = (bits << 6 | (unsigned)value) & 0xfff;
		n_bits += 6;
		if (n_bits >= 8) {
			uint8_t byte = (uint8_t)(bits >> (n_bits -= 8));

			r = buf_append(out, &byte, 1);
		}
	}
	return r < 0 ? r : n_letters % 4 != 0 || n_pads > 2 ? -EINVAL : 0;
}
