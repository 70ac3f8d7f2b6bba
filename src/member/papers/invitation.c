// SPDX-License-Identifier: Apache-2.0
#include "member/papers/invitation.h"

#include "base/json/json.h"
#include "base/parse.h"
#include "member/papers/trouble.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define PREFIX    "cloche-join-"
#define TOKEN_MAX 4096

void invitation_done(struct invitation *i)
{
	free(i->cluster_id);
	free(i->user);
	free(i->password);
	explicit_bzero(i, sizeof(*i));
}

static void hmac(const void *key, size_t n_key, const char *text, struct digest *ret)
{
	unsigned len = DIGEST_LEN;

	if (!HMAC(EVP_sha256(), key, (int)n_key, (const unsigned char *)text, strlen(text),
	          ret->bytes, &len))
		abort(); /* no memory */
}

static void part_of(const struct invitation *i, const char *what, struct digest *ret)
{
	hmac(i->key, sizeof(i->key), what, ret);
}

void invitation_door_key(const struct invitation *i, char ret[DIGEST_HEX])
{
	struct digest d;

	part_of(i, "cloche invitation: door", &d);
	digest_to_hex(&d, ret);
}

void invitation_door_hash(const struct invitation *i, char ret[DIGEST_HEX])
{
	char key[DIGEST_HEX];
	struct digest d;
	unsigned len = DIGEST_LEN;

	invitation_door_key(i, key);
	if (EVP_Digest(key, strlen(key), d.bytes, &len, EVP_sha256(), NULL) != 1)
		abort();
	digest_to_hex(&d, ret);
}

void invitation_proof_key(const struct invitation *i, struct digest *ret)
{
	part_of(i, "cloche invitation: proof", ret);
}

void invitation_parcel_key(const struct invitation *i, struct digest *ret)
{
	part_of(i, "cloche invitation: parcel", ret);
}

void invitation_prove(const struct digest *proof_key, const char *name, const char *address,
                      const char *request, struct digest *ret)
{
	auto_free char *text = xasprintf("%s\n%s\n%s", name, address, request);

	hmac(proof_key->bytes, sizeof(proof_key->bytes), text, ret);
}

char *invitation_write(const struct invitation *i)
{
	char authority[DIGEST_HEX], key[base64_size(INVITATION_KEY)];
	auto_json json_t *all = NULL;
	auto_free char *text = NULL, *encoded = NULL;

	digest_to_hex(&i->authority, authority);
	(void)base64_encode(i->key, sizeof(i->key), key);
	all = json_pack("{sI ss ss ss ss ss ss sI}", "version", (json_int_t)1, "id", i->id,
	                "cluster_id", i->cluster_id, "user", i->user, "password", i->password,
	                "authority", authority, "key", key, "expires_s", (json_int_t)i->expires_s);
	text = json_dumps(all, JSON_COMPACT);
	if (!text)
		abort(); /* no memory */
	encoded = xcalloc(1, base64_size(strlen(text)));
	(void)base64url_encode(text, strlen(text), encoded);
	return xasprintf(PREFIX "%s", encoded);
}

/* The alphabet for URLs without padding, back to the usual one. */
static ssize_t decode(const char *token, char *ret)
{
	size_t len = strlen(token);
	auto_free char *usual = xcalloc(1, len + 4);

	for (size_t i = 0; i < len; i++)
		usual[i] = token[i] == '-' ? '+' : token[i] == '_' ? '/' : token[i];
	while (len % 4)
		usual[len++] = '=';
	return base64_decode(usual, len, ret);
}

static int read_fields(const json_t *all, struct invitation *ret, struct err *err)
{
	const char *id = NULL, *cluster = NULL, *user = NULL, *password = NULL;
	const char *authority = NULL, *key = NULL;
	uint64_t version = 0;
	char bytes[INVITATION_KEY + 1];
	const struct json_field fields[] = {
		{"version", JSON_FIELD_U64, &version, true, .min = 1, .max = 1},
		{"id", JSON_FIELD_STRING, &id, true},
		{"cluster_id", JSON_FIELD_STRING, &cluster, true},
		{"user", JSON_FIELD_STRING, &user, true},
		{"password", JSON_FIELD_STRING, &password, true},
		{"authority", JSON_FIELD_STRING, &authority, true},
		{"key", JSON_FIELD_STRING, &key, true},
		{"expires_s", JSON_FIELD_U64, &ret->expires_s, true, .max = INT64_MAX},
	};
	int r = json_read(all, "", fields, ARRAY_SIZE(fields), err);

	if (r < 0)
		return r;
	if (!id_is_valid(id, "inv") || !id_is_valid(cluster, "cl") ||
	    digest_parse(authority, &ret->authority) < 0 ||
	    strlen(key) != base64_size(INVITATION_KEY) - 1 ||
	    base64_decode(key, strlen(key), bytes) != INVITATION_KEY)
		return -EINVAL;
	memcpy(ret->key, bytes, sizeof(ret->key));
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
	ret->cluster_id = xstrdup(cluster);
	ret->user = xstrdup(user);
	ret->password = xstrdup(password);
	return 0;
}

int invitation_parse(const char *token, struct invitation *ret, struct err *err)
{
	auto_free char *text = NULL;
	auto_json json_t *all = NULL;
	ssize_t len = -EINVAL;

	if (strncmp(token, PREFIX, strlen(PREFIX)) == 0 && strlen(token) < TOKEN_MAX) {
		text = xcalloc(1, TOKEN_MAX);
		len = decode(token + strlen(PREFIX), text);
	}
	if (len < 0 || json_parse(text, (size_t)len, &all, err) < 0 ||
	    read_fields(all, ret, err) < 0) {
		(void)err_field(err, "token", "is not an invitation, or a part of one");
		return err_hint(err, "copy all of what `cloche cluster invite` has printed: it "
		                     "begins with " PREFIX);
	}
	return 0;
}
