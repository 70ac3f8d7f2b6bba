// SPDX-License-Identifier: Apache-2.0
#include "net/ssh/host_key.h"

#include "net/ssh/key_kind.h"

#include <openssl/ec.h>

struct ssh_host_key {
	const struct ssh_key_kind *kind;
	EVP_PKEY *pair; /* its public half */
	struct buf blob;
	char *text;
};

void ssh_host_key_free(struct ssh_host_key *key)
{
	if (!key)
		return;
	EVP_PKEY_free(key->pair);
	buf_done(&key->blob);
	free(key->text);
	free(key);
}
DEFINE_FREEP(struct ssh_host_key, ssh_host_key_free)

static int read_blob(struct ssh_host_key *key)
{
	struct cursor c = {(const uint8_t *)key->blob.data, key->blob.len, false};
	struct cursor name = ssh_string(&c);

	key->kind = ssh_key_kind_named(&name);
	if (!key->kind)
		return -ENOTSUP;
	key->pair = ssh_get_public(&c, key->kind);
	return key->pair && ssh_is_over(&c) ? 0 : -EINVAL;
}

int ssh_host_key_read(const char *text, struct ssh_host_key **ret, const char **why)
{
	auto_call(ssh_host_key_freep) struct ssh_host_key *key = xnew0(struct ssh_host_key);
	const size_t name_len = strcspn(text, " ");
	const char *base64 = text + name_len + strspn(text + name_len, " ");
	const size_t base64_len = strcspn(base64, " ");
	const struct cursor name = {(const uint8_t *)text, name_len, false};
	int r;

	buf_init(&key->blob, SSH_BLOB_MAX);
	*why = "is no host key: write its kind and base64, as ssh-keyscan does";
	if (base64_len == 0 || memchr(base64, '\n', base64_len) ||
	    ssh_decode_base64(base64, base64_len, &key->blob) < 0)
		return -EINVAL;
	r = read_blob(key);
	if (r == -ENOTSUP || !ssh_key_kind_named(&name))
		*why = "is of a kind that is not taken: use ssh-ed25519, ecdsa-sha2-nistp256, "
		       "-384, -521 or ssh-rsa";
	else if (r < 0)
		*why = "is broken, or weak: RSA needs 2048 to 8192 bits";
	else if (!ssh_is_text(&name, key->kind->name))
		*why = "says another kind than its base64";
	else
		*why = NULL;
	if (*why)
		return -EINVAL;
	key->text = xasprintf("%s %.*s", key->kind->name, (int)base64_len, base64);
	*ret = take_ptr(key);
	return 0;
}

const char *ssh_host_key_text(const struct ssh_host_key *key)
{
	return key->text;
}

bool ssh_host_key_is(const struct ssh_host_key *key, const void *blob, size_t len)
{
	return key->blob.len == len && memcmp(key->blob.data, blob, len) == 0;
}

static bool verify(EVP_PKEY *pair, const EVP_MD *hash, const void *signature, size_t signature_len,
                   const void *data, size_t len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	const bool is_good = ctx && EVP_DigestVerifyInit(ctx, NULL, hash, NULL, pair) == 1 &&
	                     EVP_DigestVerify(ctx, signature, signature_len, data, len) == 1;

	EVP_MD_CTX_free(ctx);
	return is_good;
}

/* Two numbers in SSH, a sequence of them in OpenSSL. */
static bool verify_curve(const struct ssh_host_key *key, struct cursor signature, const void *data,
                         size_t len)
{
	ECDSA_SIG *both = ECDSA_SIG_new();
	BIGNUM *r = ssh_get_number(&signature), *s = ssh_get_number(&signature);
	unsigned char *der = NULL;
	bool is_good = false;
	int n;

	if (both && r && s && ssh_is_over(&signature) && ECDSA_SIG_set0(both, r, s) == 1) {
		r = s = NULL;
		n = i2d_ECDSA_SIG(both, &der);
		is_good = n > 0 && verify(key->pair, key->kind->hash(), der, (size_t)n, data, len);
	}
	BN_free(r);
	BN_free(s);
	ECDSA_SIG_free(both);
	OPENSSL_free(der);
	return is_good;
}

bool ssh_host_key_has_signed(const struct ssh_host_key *key, const void *signature,
                             size_t signature_len, const void *data, size_t len)
{
	struct cursor c = {signature, signature_len, false};
	const struct cursor name = ssh_string(&c), bytes = ssh_string(&c);
	const EVP_MD *hash = NULL;

	if (!ssh_is_over(&c))
		return false;
	if (ssh_key_kind_is_rsa(key->kind)) {
		hash = ssh_rsa_hash(&name);
		return hash && verify(key->pair, hash, bytes.at, bytes.left, data, len);
	}
	if (!ssh_is_text(&name, key->kind->name))
		return false;
	if (key->kind->curve)
		return verify_curve(key, bytes, data, len);
	return verify(key->pair, NULL, bytes.at, bytes.left, data, len);
}
