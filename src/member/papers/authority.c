// SPDX-License-Identifier: Apache-2.0
#include "member/papers/authority.h"

#include "base/parse.h"
#include "http/certificate.h"
#include "member/papers/node_certificate.h"
#include "member/papers/node_file.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#define AUTHORITY_S (3650 * (time_t)AUTHORITY_DAY_S)
#define PEM_MAX     16384

DEFINE_FREEP(X509, X509_free)
DEFINE_FREEP(X509_REQ, X509_REQ_free)
DEFINE_FREEP(EVP_PKEY, EVP_PKEY_free)
DEFINE_FREEP(BIO, BIO_free_all)

static int fail(struct err *err, const char *what)
{
	ERR_clear_error();
	return err_set(err, ERR_INTERNAL, 0, "cannot %s", what);
}

static char *text_of(BIO *bio)
{
	char *data = NULL;
	long len = bio ? BIO_get_mem_data(bio, &data) : 0;

	return len > 0 && len < PEM_MAX ? xstrndup(data, (size_t)len) : NULL;
}

static char *key_text(EVP_PKEY *key)
{
	auto_call(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());

	return bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
	               ? text_of(bio)
	               : NULL;
}

static char *certificate_text(const X509 *cert)
{
	char pem[CERTIFICATE_PEM_MAX];

	return certificate_write_pem(cert, pem) ? xstrdup(pem) : NULL;
}

static BIO *open_text(const char *text)
{
	return BIO_new_mem_buf(text, (int)strnlen(text, PEM_MAX));
}

static bool fill_authority(X509 *cert, EVP_PKEY *key, const char *cluster_id)
{
	time_t now = time(NULL);

	return X509_set_version(cert, X509_VERSION_3) == 1 && certificate_set_random_serial(cert) &&
	       certificate_add_name(X509_get_subject_name(cert), "O", "cloche") &&
	       certificate_add_name(X509_get_subject_name(cert), "CN", cluster_id) &&
	       X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
	       certificate_set_dates(cert, now - AUTHORITY_EARLIER_S, now + AUTHORITY_S) &&
	       X509_set_pubkey(cert, key) == 1 &&
	       certificate_add_extension(cert, cert, NID_basic_constraints,
	                                 "critical,CA:TRUE,pathlen:0") &&
	       certificate_add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
	       certificate_add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

int authority_make(const char *cluster_id, struct authority_pems *ret, struct err *err)
{
	auto_call(EVP_PKEY_freep) EVP_PKEY *key = EVP_EC_gen(CERTIFICATE_CURVE);
	auto_call(X509_freep) X509 *cert = X509_new();

	if (!key || !cert || !fill_authority(cert, key, cluster_id))
		return fail(err, "make the cluster's authority");
	ret->key = key_text(key);
	ret->certificate = certificate_text(cert);
	return ret->key && ret->certificate ? 0 : fail(err, "write the cluster's authority");
}

int authority_digest(const char *certificate_pem, struct digest *ret, struct err *err)
{
	auto_call(X509_freep) X509 *cert = node_certificate_read(certificate_pem);
	unsigned len = DIGEST_LEN;

	if (!cert || X509_digest(cert, EVP_sha256(), ret->bytes, &len) != 1)
		return fail(err, "read the certificate of the cluster's authority");
	return 0;
}

int authority_make_request(const char *name, char **ret_key, char **ret_request, struct err *err)
{
	auto_call(EVP_PKEY_freep) EVP_PKEY *key = EVP_EC_gen(CERTIFICATE_CURVE);
	auto_call(X509_REQ_freep) X509_REQ *request = X509_REQ_new();
	auto_call(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
	auto_free char *key_pem = NULL, *request_pem = NULL;

	if (!key || !request || !bio ||
	    !certificate_add_name(X509_REQ_get_subject_name(request), "CN", name) ||
	    X509_REQ_set_pubkey(request, key) != 1 ||
	    X509_REQ_sign(request, key, EVP_sha256()) <= 0 ||
	    PEM_write_bio_X509_REQ(bio, request) != 1)
		return fail(err, "make a request for a certificate");
	key_pem = key_text(key);
	request_pem = text_of(bio);
	if (!key_pem || !request_pem)
		return fail(err, "write a request for a certificate");
	*ret_key = take_ptr(key_pem);
	*ret_request = take_ptr(request_pem);
	return 0;
}

static size_t host_len(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon ? (size_t)(colon - address) : 0;
}

int node_check(const char *name, const char *address, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	static const char of_hosts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789.-";
	const size_t len = strlen(name), n_host = host_len(address);
	uint64_t port;

	if (len == 0 || len > NODE_NAME_MAX || strspn(name, letters) != len || name[0] == '-' ||
	    name[len - 1] == '-') {
		(void)err_field(err, "name",
		                "'%.80s' must be 1 to %d of a-z, 0-9 and -, not - at an end", name,
		                NODE_NAME_MAX);
		return err_hint(err, "give one with --name NAME");
	}
	if (n_host == 0 || n_host > 200 || strspn(address, of_hosts) < n_host ||
	    parse_u64(address + n_host + 1, 65535, &port) < 0 || port == 0) {
		(void)err_field(err, "address",
		                "'%.80s' is not HOST:PORT, where other nodes reach this one",
		                address);
		return err_hint(err, "set `address` under [cluster] in the settings file, or give "
		                     "--address HOST:PORT");
	}
	return 0;
}

/* Of a subject whose letters were checked. */
static char *names_of(const struct authority_subject *s)
{
	auto_free char *host = xstrndup(s->address, host_len(s->address));
	uint8_t ip[4];

	return xasprintf("URI:cloche://%s/%s,%s:%s", s->cluster_id, s->name,
	                 inet_pton(AF_INET, host, ip) == 1 ? "IP" : "DNS", host);
}

/* All but the names by which others know it. */
static bool fill_node(X509 *cert, X509 *issuer, EVP_PKEY *key, const char *name, time_t lifetime_s)
{
	time_t now = time(NULL);

	return X509_set_version(cert, X509_VERSION_3) == 1 && certificate_set_random_serial(cert) &&
	       certificate_add_name(X509_get_subject_name(cert), "O", "cloche") &&
	       certificate_add_name(X509_get_subject_name(cert), "CN", name) &&
	       X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1 &&
	       certificate_set_dates(cert, now - AUTHORITY_EARLIER_S, now + lifetime_s) &&
	       X509_set_pubkey(cert, key) == 1 &&
	       certificate_add_extension(cert, issuer, NID_basic_constraints,
	                                 "critical,CA:FALSE") &&
	       certificate_add_extension(cert, issuer, NID_key_usage,
	                                 "critical,digitalSignature") &&
	       certificate_add_extension(cert, issuer, NID_ext_key_usage,
	                                 "serverAuth,clientAuth") &&
	       certificate_add_extension(cert, issuer, NID_subject_key_identifier, "hash") &&
	       certificate_add_extension(cert, issuer, NID_authority_key_identifier,
	                                 "keyid:always");
}

/* Those of the certificate before it, as they are. */
static bool copy_names(X509 *to, const X509 *from)
{
	int at = X509_get_ext_by_NID(from, NID_subject_alt_name, -1);

	return at >= 0 && X509_add_ext(to, X509_get_ext(from, at), -1) == 1;
}

/* The public key of a request that its owner has signed; it belongs to the request. */
static EVP_PKEY *key_of(X509_REQ *request)
{
	EVP_PKEY *key = request ? X509_REQ_get0_pubkey(request) : NULL;

	return key && X509_REQ_verify(request, key) == 1 &&
	                       EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
	                       EVP_PKEY_get_bits(key) == 256
	               ? key
	               : NULL;
}

static X509_REQ *read_request(const char *pem)
{
	auto_call(BIO_free_allp) BIO *bio = open_text(pem);

	return bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
}

/* One of names and before is NULL. */
static int sign(const struct authority_pems *authority, const char *request_pem, const char *name,
                const char *names, const X509 *before, char **ret_certificate, struct err *err)
{
	auto_call(X509_freep) X509 *issuer = node_certificate_read(authority->certificate);
	auto_call(EVP_PKEY_freep) EVP_PKEY *issuer_key = node_certificate_read_key(authority->key);
	auto_call(X509_REQ_freep) X509_REQ *request = read_request(request_pem);
	auto_call(X509_freep) X509 *cert = X509_new();
	EVP_PKEY *key = key_of(request);

	if (!issuer || !issuer_key || !cert || X509_check_private_key(issuer, issuer_key) != 1)
		return fail(err, "read the cluster's authority");
	if (!key)
		return fail(err, "read the request for a certificate");
	if (!fill_node(cert, issuer, key, name,
	               authority->lifetime_s ? (time_t)authority->lifetime_s
	                                     : AUTHORITY_NODE_DAYS * (time_t)AUTHORITY_DAY_S) ||
	    !(names ? certificate_add_extension(cert, issuer, NID_subject_alt_name, names)
	            : copy_names(cert, before)) ||
	    X509_sign(cert, issuer_key, EVP_sha256()) <= 0)
		return fail(err, "sign the certificate");
	*ret_certificate = certificate_text(cert);
	return *ret_certificate ? 0 : fail(err, "write the certificate");
}

int authority_sign(const struct authority_pems *authority, const char *request_pem,
                   const struct authority_subject *subject, char **ret_certificate, struct err *err)
{
	auto_free char *names = names_of(subject);

	return sign(authority, request_pem, subject->name, names, NULL, ret_certificate, err);
}

int authority_sign_next(const struct authority_pems *authority, const char *request_pem,
                        const char *name, const struct x509_st *before, char **ret_certificate,
                        struct err *err)
{
	return sign(authority, request_pem, name, NULL, before, ret_certificate, err);
}

int authority_request_key(const char *request_pem, struct digest *ret, struct err *err)
{
	auto_call(X509_REQ_freep) X509_REQ *request = read_request(request_pem);
	EVP_PKEY *key = key_of(request);

	return key ? authority_key_digest(key, ret, err)
	           : fail(err, "read the request for a certificate");
}

int authority_key_digest(const struct evp_pkey_st *key, struct digest *ret, struct err *err)
{
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(key, &der);
	unsigned digest_len = DIGEST_LEN;
	int r = len > 0 && EVP_Digest(der, (size_t)len, ret->bytes, &digest_len, EVP_sha256(),
	                              NULL) == 1
	                ? 0
	                : fail(err, "read a key");

	OPENSSL_free(der);
	return r;
}

int authority_check(const char *authority_pem, const char *certificate_pem, const char *key_pem,
                    const char *name, struct err *err)
{
	auto_call(X509_freep) X509 *cert = node_certificate_read(certificate_pem);
	auto_call(EVP_PKEY_freep) EVP_PKEY *key = node_certificate_read_key(key_pem);
	char has[NODE_NAME_MAX + 2] = "";

	if (!cert || !key || !node_certificate_is_trusted(authority_pem, cert) ||
	    X509_check_private_key(cert, key) != 1 ||
	    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, has,
	                              sizeof(has)) < 0 ||
	    strcmp(has, name) != 0)
		return fail(err, "take the certificate: the cluster's authority has not signed it "
		                 "for this node");
	return 0;
}

bool authority_is_of_first(const char *authority_pem, const char *certificate_pem)
{
	auto_call(X509_freep) X509 *first = node_certificate_read(authority_pem);
	auto_call(X509_freep) X509 *cert = node_certificate_read(certificate_pem);
	bool is_of_first = first && cert && X509_verify(cert, X509_get0_pubkey(first)) == 1;

	ERR_clear_error();
	return is_of_first;
}
