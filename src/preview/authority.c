// SPDX-License-Identifier: Apache-2.0
/*
 * The certificates. Each handshake asks for the current one, and the first that comes after its
 * twenty days makes the next: there is no timer, and none to be late after a sleep of the machine.
 *
 * Clients do not take a wildcard directly below a name of one label, such as *.localhost, and some
 * refuse a certificate that has one. Where the domain is one, each client that asks for a name gets
 * a certificate with this very name instead.
 */
#include "preview/authority.h"

#include "http/tls.h"
#include "preview/authority_private.h"

#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#define NO_ADDRESS "excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0"
#define NAMES_SIZE (4 * (HOSTNAME_SIZE + 16))

/* The name has a random part, so that an authority and its successor differ in it. */
static bool put_root_name(X509 *cert)
{
	X509_NAME *name = X509_get_subject_name(cert);
	uint8_t bytes[4];
	char text[40];

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	(void)snprintf(text, sizeof(text), "preview authority %02x%02x%02x%02x", bytes[0], bytes[1],
	               bytes[2], bytes[3]);
	return certificate_add_name(name, "O", "cloche") &&
	       certificate_add_name(name, "CN", text) && X509_set_issuer_name(cert, name) == 1;
}

static bool fill_root(X509 *cert, EVP_PKEY *key, const struct hostname *domain, time_t now_s)
{
	char names[HOSTNAME_SIZE + sizeof(NO_ADDRESS) + 32];

	(void)snprintf(names, sizeof(names), "critical,permitted;DNS:%s,%s", domain->text,
	               NO_ADDRESS);
	return X509_set_version(cert, X509_VERSION_3) == 1 && certificate_set_random_serial(cert) &&
	       put_root_name(cert) &&
	       certificate_set_dates(cert, now_s - AUTHORITY_DAY_S,
	                             now_s + AUTHORITY_DAYS * AUTHORITY_DAY_S) &&
	       X509_set_pubkey(cert, key) == 1 &&
	       certificate_add_extension(cert, cert, NID_basic_constraints,
	                                 "critical,CA:TRUE,pathlen:0") &&
	       certificate_add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
	       certificate_add_extension(cert, cert, NID_ext_key_usage, "serverAuth") &&
	       certificate_add_extension(cert, cert, NID_name_constraints, names) &&
	       certificate_add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

static bool put_fingerprint(struct authority_root *root)
{
	uint8_t hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (X509_digest(root->cert, EVP_sha256(), hash, &n) != 1 ||
	    3 * (size_t)n != sizeof(root->fingerprint))
		return false;
	for (unsigned i = 0; i < n; i++)
		(void)snprintf(root->fingerprint + (size_t)3 * i, 4, "%02X%s", hash[i],
		               i + 1 < n ? ":" : "");
	return true;
}

static time_t seconds_of(const ASN1_TIME *when)
{
	struct tm tm;

	return ASN1_TIME_to_tm(when, &tm) == 1 ? timegm(&tm) : 0;
}

static int write_pem(struct authority *a)
{
	size_t at = 0;

	for (size_t i = 0; i < a->n_roots; i++) {
		if (!certificate_write_pem(a->roots[i].cert, a->pem + at))
			return -EINVAL;
		at += strlen(a->pem + at);
	}
	return 0;
}

int authority_take_root(struct authority *a, EVP_PKEY *key, X509 *cert, struct err *err)
{
	struct authority_root *root = &a->roots[a->n_roots];

	*root = (struct authority_root){.key = key, .cert = cert};
	if (key && cert) {
		a->n_roots++;
		root->until_s = seconds_of(X509_get0_notAfter(cert));
		if (put_fingerprint(root) && write_pem(a) == 0)
			return 0;
		return err_set(err, ERR_INTERNAL, 0, "cannot describe the authority");
	}
	EVP_PKEY_free(key);
	X509_free(cert);
	return err_set(err, ERR_INTERNAL, 0, "cannot make an authority for '%s'", a->domain.text);
}

int authority_add_root(struct authority *a, time_t now_s, struct err *err)
{
	EVP_PKEY *key = EVP_EC_gen(CERTIFICATE_CURVE);
	X509 *cert = key ? X509_new() : NULL;

	if (cert && !fill_root(cert, key, &a->domain, now_s)) {
		X509_free(cert);
		cert = NULL;
	}
	return authority_take_root(a, key, cert, err);
}

static void free_root(struct authority_root *root)
{
	EVP_PKEY_free(root->key);
	X509_free(root->cert);
	*root = (struct authority_root){0};
}

void authority_drop_first(struct authority *a)
{
	free_root(&a->roots[0]);
	memmove(a->roots, a->roots + 1, (AUTHORITY_MAX - 1) * sizeof(a->roots[0]));
	a->roots[AUTHORITY_MAX - 1] = (struct authority_root){0};
	a->n_roots--;
	a->pem[0] = '\0';
	(void)write_pem(a); /* it could write all of them before */
}

void authority_free(struct authority *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_roots; i++)
		free_root(&a->roots[i]);
	EVP_PKEY_free(a->leaf_key);
	X509_free(a->leaf);
	free(a);
}

const char *authority_pem(const struct authority *a)
{
	return a->pem;
}

size_t authority_count(const struct authority *a)
{
	return a->n_roots;
}

const char *authority_fingerprint(const struct authority *a, size_t i)
{
	return a->roots[i].fingerprint;
}

time_t authority_expires_s(const struct authority *a)
{
	return a->roots[a->n_roots - 1].until_s;
}

/* The oldest one that outlives what it signs: more clients know it. */
static const struct authority_root *find_signer(const struct authority *a, time_t now_s)
{
	for (size_t i = 0; i < a->n_roots; i++)
		if (a->roots[i].until_s - now_s >= AUTHORITY_LEAF_DAYS * AUTHORITY_DAY_S)
			return &a->roots[i];
	return &a->roots[a->n_roots - 1];
}

/* server_name: "", or one that is in the certificate beside the usual three. */
static X509 *sign_leaf(const struct authority_root *root, EVP_PKEY *key, const char *domain,
                       const char *server_name, time_t now_s)
{
	const time_t until_s = now_s + AUTHORITY_LEAF_DAYS * AUTHORITY_DAY_S;
	char names[NAMES_SIZE], wildcard[HOSTNAME_SIZE + 2];

	(void)snprintf(wildcard, sizeof(wildcard), "%s%s", strchr(domain, '.') ? "*." : "", domain);
	(void)snprintf(names, sizeof(names), "DNS:%s,DNS:api.%s,DNS:%s", domain, domain,
	               *server_name ? server_name : wildcard);
	return certificate_sign_leaf(&(struct certificate_leaf){
		.issuer = root->cert,
		.issuer_key = root->key,
		.key = key,
		.names = names,
		.from_s = now_s - AUTHORITY_DAY_S,
		.until_s = MIN(until_s, root->until_s),
	});
}

static int make_leaf(struct authority *a, const char *server_name, time_t now_s)
{
	EVP_PKEY *key = EVP_EC_gen(CERTIFICATE_CURVE);
	X509 *cert = key ? sign_leaf(find_signer(a, now_s), key, a->domain.text, server_name, now_s)
	                 : NULL;

	if (!cert) {
		EVP_PKEY_free(key);
		return -EINVAL;
	}
	X509_free(a->leaf);
	EVP_PKEY_free(a->leaf_key);
	a->leaf = cert;
	a->leaf_key = key;
	a->leaf_made_s = now_s;
	a->is_leaf_for_all = !*server_name;
	return 0;
}

/* Whether it is a name directly below a domain of one label, for which no wildcard is taken. */
static bool needs_own(const struct authority *a, const char *server_name, struct hostname *ret)
{
	const char *why;
	size_t label;

	if (!server_name || strchr(a->domain.text, '.') ||
	    hostname_parse(server_name, strlen(server_name), ret, &why) < 0)
		return false;
	label = strcspn(ret->text, ".");
	if (strncmp(ret->text, "api.", 4) == 0)
		return false; /* every certificate has it */
	return ret->text[label] && strcmp(ret->text + label + 1, a->domain.text) == 0;
}

int authority_certify(struct authority *a, const char *server_name, time_t now_s, X509 **ret_cert,
                      EVP_PKEY **ret_key)
{
	struct hostname own = {0};
	int r = 0;

	if (needs_own(a, server_name, &own))
		r = make_leaf(a, own.text, now_s);
	else if (!a->leaf || !a->is_leaf_for_all || now_s < a->leaf_made_s ||
	         now_s - a->leaf_made_s >= AUTHORITY_RENEW_DAYS * AUTHORITY_DAY_S)
		r = make_leaf(a, "", now_s);
	*ret_cert = a->leaf;
	*ret_key = a->leaf_key;
	return r;
}

static int on_handshake(SSL *ssl, void *arg)
{
	struct authority *a = arg;
	X509 *cert;
	EVP_PKEY *key;

	return authority_certify(a, SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), time(NULL),
	                         &cert, &key) == 0 &&
	       SSL_use_cert_and_key(ssl, cert, key, NULL, 1) == 1;
}

void authority_serve(struct authority *a, struct tls_context *tls)
{
	SSL_CTX_set_cert_cb(tls_context_ssl(tls), on_handshake, a);
}
