// SPDX-License-Identifier: Apache-2.0
#include "member/papers/renewal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/units.h"
#include "member/papers/node_certificate.h"
#include "member/papers/node_file.h"
#include "member/papers/trouble.h"

#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string.h>

#define NOTE_MAX      512
#define SIGNATURE_MAX 256

DEFINE_FREEP(X509, X509_free)
DEFINE_FREEP(EVP_PKEY, EVP_PKEY_free)
DEFINE_FREEP(EVP_MD_CTX, EVP_MD_CTX_free)

/* What the key of the older certificate signs. */
static char *statement(const char *cluster_id, uint64_t at_s, const char *request)
{
	return xasprintf("cloche renewal of a certificate\n%s\n%" PRIu64 "\n%s", cluster_id, at_s,
	                 request);
}

int renewal_write(const struct renewal_ask *ask, char **ret, struct err *err)
{
	auto_free char *text = statement(ask->cluster_id, ask->at_s, ask->request);
	auto_call(EVP_PKEY_freep) EVP_PKEY *key = node_certificate_read_key(ask->key);
	auto_call(EVP_MD_CTX_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char bytes[SIGNATURE_MAX];
	char signature[base64_size(SIGNATURE_MAX)];
	size_t len = sizeof(bytes);
	auto_json json_t *all = NULL;

	if (!key || !md || EVP_DigestSignInit(md, NULL, EVP_sha256(), NULL, key) != 1 ||
	    EVP_DigestSign(md, bytes, &len, (const unsigned char *)text, strlen(text)) != 1)
		return err_set(err, ERR_INTERNAL, 0, "cannot sign by the node's own key");
	(void)base64_encode(bytes, len, signature);
	all = json_pack("{ss ss sI ss}", "certificate", ask->certificate, "request", ask->request,
	                "at_s", (json_int_t)ask->at_s, "signature", signature);
	*ret = json_dumps(all, JSON_COMPACT);
	return *ret ? 0 : err_set(err, ERR_INTERNAL, ENOMEM, "cannot write the request");
}

struct asked {
	const char *certificate, *request, *signature;
	uint64_t at_s;
};

static int read_text(const char *text, json_t **ret_all, struct asked *ret, struct err *err)
{
	const struct json_field fields[] = {
		{"certificate", JSON_FIELD_STRING, &ret->certificate, true},
		{"request", JSON_FIELD_STRING, &ret->request, true},
		{"at_s", JSON_FIELD_U64, &ret->at_s, true, .max = INT64_MAX},
		{"signature", JSON_FIELD_STRING, &ret->signature, true},
	};
	int r = json_parse(text, strlen(text), ret_all, err);

	return r < 0 ? r : json_read(*ret_all, "", fields, ARRAY_SIZE(fields), err);
}

static int check_signature(const char *cluster_id, const struct asked *asked, const X509 *before,
                           struct err *err)
{
	auto_free char *text = statement(cluster_id, asked->at_s, asked->request);
	auto_call(EVP_MD_CTX_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	size_t n_letters = strlen(asked->signature);
	char bytes[base64_size(SIGNATURE_MAX)];
	ssize_t len = n_letters < sizeof(bytes) ? base64_decode(asked->signature, n_letters, bytes)
	                                        : -E2BIG;

	if (len <= 0 || !md ||
	    EVP_DigestVerifyInit(md, NULL, EVP_sha256(), NULL, X509_get0_pubkey(before)) != 1 ||
	    EVP_DigestVerify(md, (const unsigned char *)bytes, (size_t)len,
	                     (const unsigned char *)text, strlen(text)) != 1)
		return trouble_set(err, TROUBLE_UNRENEWED,
		                   "it is not signed by the key of the certificate that it shows");
	return 0;
}

/* Who asks: by a certificate that is good today. */
static int check_certificate(const struct authority_pems *authority, const char *cluster_id,
                             const char *name, const X509 *before, struct err *err)
{
	char has[NODE_NAME_MAX + 1];

	if (!before || !node_certificate_is_trusted(authority->certificate, before) ||
	    node_certificate_name(before, cluster_id, has, sizeof(has)) < 0)
		return trouble_set(err, TROUBLE_UNRENEWED,
		                   "the certificate that it shows is not of this cluster");
	if (strcmp(has, name) != 0)
		return trouble_set(err, TROUBLE_UNRENEWED,
		                   "the certificate that it shows is of '%s', not of '%.80s'", has,
		                   name);
	if (X509_cmp_current_time(X509_get0_notAfter(before)) <= 0)
		return trouble_set(err, TROUBLE_ENDED, "the certificate that it shows has ended");
	return 0;
}

struct renewal_keys { /* of the keys of a node */
	struct digest newest, before;
};

static int read_note(const char *path, struct renewal_keys *ret, struct err *err)
{
	char text[NOTE_MAX];
	auto_json json_t *all = NULL;
	const char *newest = NULL, *before = NULL;
	const struct json_field fields[] = {
		{"newest", JSON_FIELD_STRING, &newest, true},
		{"before", JSON_FIELD_STRING, &before, true},
	};
	int len = fd_read_file(AT_FDCWD, path, text, sizeof(text));

	if (len == -ENOENT)
		return -ENOENT;
	if (len < 0 || json_parse(text, (size_t)len, &all, err) < 0 ||
	    json_read(all, "", fields, ARRAY_SIZE(fields), err) < 0 ||
	    digest_parse(newest, &ret->newest) < 0 || digest_parse(before, &ret->before) < 0) {
		(void)err_set(err, ERR_INTERNAL, 0, "the note '%s' cannot be read", path);
		return -EAGAIN;
	}
	return 0;
}

static int write_note(const char *path, const struct renewal_keys *note, struct err *err)
{
	char newest[DIGEST_HEX], before[DIGEST_HEX];
	auto_free char *text = NULL;
	int r;

	digest_to_hex(&note->newest, newest);
	digest_to_hex(&note->before, before);
	text = xasprintf("{\"newest\":\"%s\",\"before\":\"%s\"}", newest, before);
	r = fd_replace_file(AT_FDCWD, path, text, strlen(text), 0600, /* sync= */ true);
	if (r < 0) {
		(void)err_set(err, ERR_INTERNAL, -r, "cannot write the note '%s'", path);
		return -EAGAIN;
	}
	return 0;
}

/* On disk before anybody has the certificate. */
static int note_key(const char *path, const struct renewal_keys *wanted, struct err *err)
{
	struct renewal_keys has;
	int r = read_note(path, &has, err);

	if (r == -ENOENT)
		return write_note(path, wanted, err);
	if (r < 0)
		return r;
	if (digest_equal(&has.newest, &wanted->newest) &&
	    digest_equal(&has.before, &wanted->before))
		return 0; /* once more */
	if (!digest_equal(&has.newest, &wanted->before))
		return trouble_set(err, TROUBLE_SUPERSEDED,
		                   "a newer certificate than the one that it shows was signed for "
		                   "this node already");
	return write_note(path, wanted, err);
}

/* This node may have signed for other clusters, too. */
static char *note_path(const char *dir, const char *cluster_id, const char *name)
{
	return xasprintf("%s/%s.%s", dir, cluster_id, name);
}

int renewal_note_first(const char *cluster_id, const char *dir, const char *name,
                       const char *request, struct err *err)
{
	auto_free char *path = note_path(dir, cluster_id, name);
	struct renewal_keys note = {0};
	int r = authority_request_key(request, &note.newest, err);

	return r < 0 ? r : write_note(path, &note, err);
}

int renewal_sign(const struct authority_pems *authority, const char *cluster_id, const char *dir,
                 const char *name, const char *text, char **ret_certificate, struct err *err)
{
	auto_json json_t *all = NULL;
	auto_call(X509_freep) X509 *before = NULL;
	struct asked asked = {0};
	auto_free char *path = note_path(dir, cluster_id, name);
	struct renewal_keys note;
	int r = read_text(text, &all, &asked, err);

	if (r < 0)
		return r;
	before = node_certificate_read(asked.certificate);
	r = check_certificate(authority, cluster_id, name, before, err);
	if (r == 0)
		r = check_signature(cluster_id, &asked, before, err);
	if (r == 0)
		r = authority_key_digest(X509_get0_pubkey(before), &note.before, err);
	if (r == 0 && authority_request_key(asked.request, &note.newest, err) < 0)
		r = trouble_set(err, TROUBLE_UNRENEWED, "its request cannot be read");
	if (r == 0 && digest_equal(&note.newest, &note.before))
		r = trouble_set(err, TROUBLE_UNRENEWED, "the new key is the old one");
	if (r == 0)
		r = note_key(path, &note, err);
	return r < 0 ? r
	             : authority_sign_next(authority, asked.request, name, before, ret_certificate,
	                                   err);
}
