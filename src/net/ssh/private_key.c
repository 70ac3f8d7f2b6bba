// SPDX-License-Identifier: Apache-2.0
#include "net/ssh/private_key.h"

#include "net/ssh/key_kind.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#define BEGIN         "-----BEGIN OPENSSH PRIVATE KEY-----"
#define END           "-----END OPENSSH PRIVATE KEY-----"
#define MAGIC         "openssh-key-v1" /* with its NUL */
#define FILE_MAX      ((size_t)16 * 1024)
#define SIGN_BITS_MAX 4096
#define SEED_LEN      32

struct ssh_private_key {
	const struct ssh_key_kind *kind;
	EVP_PKEY *pair;
	struct buf public;
};

void ssh_private_key_free(struct ssh_private_key *key)
{
	if (!key)
		return;
	EVP_PKEY_free(key->pair); /* which wipes it */
	buf_done(&key->public);
	free(key);
}
DEFINE_FREEP(struct ssh_private_key, ssh_private_key_free)

static void wipe(struct buf *b)
{
	if (b->mem)
		OPENSSL_cleanse(b->mem, b->mem_size);
	buf_done(b);
}

/* n, e, d, 1/q mod p, p, q: as the file has them, and as OpenSSL wants them too. */
enum rsa_number {
	RSA_N,
	RSA_E,
	RSA_D,
	RSA_IQMP,
	RSA_P,
	RSA_Q,
	RSA_DMP1,
	RSA_DMQ1,
	RSA_NUMBERS,
};

static bool complete_rsa(BIGNUM *n[RSA_NUMBERS])
{
	BN_CTX *ctx = BN_CTX_secure_new();
	BIGNUM *product = BN_new(), *less = BN_secure_new();
	bool is_fine = ctx && product && less && BN_mul(product, n[RSA_P], n[RSA_Q], ctx) == 1 &&
	               BN_cmp(product, n[RSA_N]) == 0;

	n[RSA_DMP1] = BN_secure_new();
	n[RSA_DMQ1] = BN_secure_new();
	is_fine = is_fine && n[RSA_DMP1] && n[RSA_DMQ1] && BN_sub(less, n[RSA_P], BN_value_one()) &&
	          !BN_is_zero(less) && BN_mod(n[RSA_DMP1], n[RSA_D], less, ctx) == 1 &&
	          BN_sub(less, n[RSA_Q], BN_value_one()) && !BN_is_zero(less) &&
	          BN_mod(n[RSA_DMQ1], n[RSA_D], less, ctx) == 1;
	BN_free(product);
	BN_clear_free(less);
	BN_CTX_free(ctx);
	return is_fine;
}

static EVP_PKEY *make_rsa(BIGNUM *n[RSA_NUMBERS])
{
	static const char *const names[RSA_NUMBERS] = {
		[RSA_N] = OSSL_PKEY_PARAM_RSA_N,
		[RSA_E] = OSSL_PKEY_PARAM_RSA_E,
		[RSA_D] = OSSL_PKEY_PARAM_RSA_D,
		[RSA_IQMP] = OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
		[RSA_P] = OSSL_PKEY_PARAM_RSA_FACTOR1,
		[RSA_Q] = OSSL_PKEY_PARAM_RSA_FACTOR2,
		[RSA_DMP1] = OSSL_PKEY_PARAM_RSA_EXPONENT1,
		[RSA_DMQ1] = OSSL_PKEY_PARAM_RSA_EXPONENT2,
	};
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
	bool is_fine = build && ctx;
	OSSL_PARAM *params;
	EVP_PKEY *pair = NULL;

	for (size_t i = 0; is_fine && i < RSA_NUMBERS; i++)
		is_fine = OSSL_PARAM_BLD_push_BN(build, names[i], n[i]) == 1;
	params = is_fine ? OSSL_PARAM_BLD_to_param(build) : NULL;
	if (!params || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &pair, EVP_PKEY_KEYPAIR, params) != 1)
		pair = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	EVP_PKEY_CTX_free(ctx);
	return pair;
}

static EVP_PKEY *get_rsa(struct cursor *c)
{
	BIGNUM *n[RSA_NUMBERS] = {0};
	bool is_whole = true;
	EVP_PKEY *pair = NULL;

	for (size_t i = RSA_N; i <= RSA_Q; i++) {
		n[i] = ssh_get_number(c);
		is_whole = is_whole && n[i];
	}
	if (is_whole && complete_rsa(n))
		pair = make_rsa(n);
	for (size_t i = 0; i < RSA_NUMBERS; i++)
		BN_clear_free(n[i]);
	return pair;
}

static EVP_PKEY *get_curve(struct cursor *c, const struct ssh_key_kind *kind)
{
	const struct cursor curve = ssh_string(c), point = ssh_string(c);
	BIGNUM *secret = ssh_get_number(c);
	EVP_PKEY *pair = NULL;

	if (secret && ssh_is_text(&curve, kind->curve))
		pair = ssh_make_curve_key(kind, &point, secret);
	BN_clear_free(secret);
	return pair;
}

/* The public half, and then the seed with the public half again. */
static EVP_PKEY *get_ed25519(struct cursor *c)
{
	const struct cursor public = ssh_string(c), both = ssh_string(c);

	if (public.failed || both.failed || public.left != SEED_LEN || both.left != 2 * SEED_LEN ||
	    memcmp(both.at + SEED_LEN, public.at, SEED_LEN) != 0)
		return NULL;
	return EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, both.at, SEED_LEN);
}

static EVP_PKEY *get_private(struct cursor *c, const char **why)
{
	struct cursor name;
	const struct ssh_key_kind *kind;

	if (cursor_u32(c) != cursor_u32(c))
		return NULL;
	name = ssh_string(c);
	kind = ssh_key_kind_named(&name);
	if (!kind) {
		*why = "is of a kind that is not taken: use ed25519, ecdsa or rsa";
		return NULL;
	}
	if (ssh_key_kind_is_rsa(kind))
		return get_rsa(c);
	return kind->curve ? get_curve(c, kind) : get_ed25519(c);
}

/* OpenSSH's own form (PROTOCOL.key there). */
static EVP_PKEY *read_openssh(const char *text, const char **why)
{
	auto_call(wipe) struct buf bytes = BUF_INIT(FILE_MAX);
	const char *from = strstr(text, BEGIN) + strlen(BEGIN), *to = strstr(from, END);
	struct cursor c, cipher, inner;
	const uint8_t *magic;
	char *room;

	/* Room at once, so that no copy of it is left behind by growing. */
	if (!to || buf_reserve(&bytes, FILE_MAX, &room) < 0 ||
	    ssh_decode_base64(from, (size_t)(to - from), &bytes) < 0)
		return NULL;
	c = (struct cursor){(const uint8_t *)bytes.data, bytes.len, false};
	magic = cursor_bytes(&c, sizeof(MAGIC));
	if (!magic || memcmp(magic, MAGIC, sizeof(MAGIC)) != 0)
		return NULL;
	cipher = ssh_string(&c);
	(void)ssh_string(&c); /* how a passphrase becomes a key */
	(void)ssh_string(&c);
	if (!cipher.failed && !ssh_is_text(&cipher, "none")) {
		*why = "has a passphrase: remove it by ssh-keygen -p";
		return NULL;
	}
	if (cursor_u32(&c) != 1)
		return NULL;
	(void)ssh_string(&c); /* the public half: found again from the private one */
	inner = ssh_string(&c);
	return ssh_is_over(&c) ? get_private(&inner, why) : NULL;
}

static int on_passphrase(char *room, int size, int is_write, void *arg)
{
	(void)room;
	(void)size;
	(void)is_write;
	*(bool *)arg = true;
	return -1;
}

static EVP_PKEY *read_pem(const char *text, const char **why)
{
	BIO *bio = BIO_new_mem_buf(text, -1);
	bool is_asked = false;
	EVP_PKEY *pair = bio ? PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, &is_asked) : NULL;

	if (!pair && is_asked)
		*why = "has a passphrase: remove it by ssh-keygen -p";
	BIO_free(bio);
	return pair;
}

int ssh_private_key_read(const char *text, struct ssh_private_key **ret, const char **why)
{
	auto_call(ssh_private_key_freep) struct ssh_private_key *key =
		xnew0(struct ssh_private_key);

	*why = "is no private key as ssh-keygen writes it";
	key->pair = strstr(text, BEGIN) ? read_openssh(text, why) : read_pem(text, why);
	ERR_clear_error();
	if (!key->pair)
		return -EINVAL;
	buf_init(&key->public, SSH_BLOB_MAX);
	key->kind = ssh_key_kind_of(key->pair);
	if (!key->kind) {
		*why = "is of a kind that is not taken: use ed25519, ecdsa or rsa";
		return -EINVAL;
	}
	if (ssh_key_kind_is_rsa(key->kind) && (EVP_PKEY_get_bits(key->pair) < SSH_RSA_BITS_MIN ||
	                                       EVP_PKEY_get_bits(key->pair) > SIGN_BITS_MAX)) {
		*why = "is of RSA, and has not 2048 to 4096 bits";
		return -EINVAL;
	}
	if (ssh_put_public(&key->public, key->kind, key->pair) < 0)
		return -EINVAL;
	*ret = take_ptr(key);
	return 0;
}

const struct buf *ssh_private_key_public(const struct ssh_private_key *key)
{
	return &key->public;
}

static int sign(const struct ssh_private_key *key, const EVP_MD *hash, const void *data, size_t len,
                uint8_t bytes[SSH_BLOB_MAX], size_t *ret_len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int r = -EINVAL;

	*ret_len = SSH_BLOB_MAX;
	if (ctx && EVP_DigestSignInit(ctx, NULL, hash, NULL, key->pair) == 1 &&
	    EVP_DigestSign(ctx, bytes, ret_len, data, len) == 1)
		r = 0;
	EVP_MD_CTX_free(ctx);
	return r;
}

static int put_curve(struct buf *out, const uint8_t *der, size_t len)
{
	auto_call(buf_done) struct buf both = BUF_INIT(SSH_BLOB_MAX);
	ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &der, (long)len);
	int r = numbers ? ssh_put_number(&both, ECDSA_SIG_get0_r(numbers)) : -EINVAL;

	if (r == 0)
		r = ssh_put_number(&both, ECDSA_SIG_get0_s(numbers));
	if (r == 0)
		r = ssh_put_string(out, both.data, both.len);
	ECDSA_SIG_free(numbers);
	return r;
}

int ssh_private_key_sign(const struct ssh_private_key *key, const char *algorithm,
                         size_t algorithm_len, const void *data, size_t len, struct buf *out)
{
	const struct cursor name = {(const uint8_t *)algorithm, algorithm_len, false};
	const bool is_rsa = ssh_key_kind_is_rsa(key->kind);
	const EVP_MD *hash = is_rsa             ? ssh_rsa_hash(&name)
	                     : key->kind->curve ? key->kind->hash()
	                                        : NULL;
	uint8_t bytes[SSH_BLOB_MAX];
	size_t n;
	int r;

	if (is_rsa ? !hash : !ssh_is_text(&name, key->kind->name))
		return -ENOTSUP;
	r = sign(key, hash, data, len, bytes, &n);
	if (r == 0)
		r = ssh_put_string(out, algorithm, algorithm_len);
	if (r == 0)
		r = key->kind->curve ? put_curve(out, bytes, n) : ssh_put_string(out, bytes, n);
	ERR_clear_error();
	return r;
}
