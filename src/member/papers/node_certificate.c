// SPDX-License-Identifier: Apache-2.0
#include "member/papers/node_certificate.h"

#include "member/papers/authority.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#define PEMS_MAX 65536

DEFINE_FREEP(X509, X509_free)
DEFINE_FREEP(BIO, BIO_free_all)

static BIO *open_text(const char *text)
{
	return BIO_new_mem_buf(text, (int)strnlen(text, PEMS_MAX));
}

X509 *node_certificate_read(const char *pem)
{
	auto_call(BIO_free_allp) BIO *bio = open_text(pem);

	return bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
}

EVP_PKEY *node_certificate_read_key(const char *pem)
{
	auto_call(BIO_free_allp) BIO *bio = open_text(pem);

	return bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
}

bool node_certificate_each(const char *pems, bool (*fn)(X509 *one, void *arg), void *arg)
{
	auto_call(BIO_free_allp) BIO *bio = open_text(pems);
	bool is_good = bio != NULL;
	size_t n = 0;

	while (is_good) {
		auto_call(X509_freep) X509 *one = PEM_read_bio_X509(bio, NULL, NULL, NULL);

		if (!one)
			break;
		is_good = fn(one, arg);
		n++;
	}
	/* At the end there is no line that begins one; else one is damaged. */
	is_good = is_good && n > 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	ERR_clear_error();
	return is_good;
}

struct search {
	const X509 *certificate;
	bool is_found;
};

static bool has_signed(X509 *authority, void *arg)
{
	struct search *s = arg;

	s->is_found |= X509_verify(unconst(s->certificate), X509_get0_pubkey(authority)) == 1;
	return true;
}

bool node_certificate_is_trusted(const char *authorities_pem, const X509 *certificate)
{
	struct search s = {.certificate = certificate};

	return node_certificate_each(authorities_pem, has_signed, &s) && s.is_found;
}

static bool read_uri(const GENERAL_NAME *name, const char *cluster_id, char *ret, size_t size)
{
	const char *text = (const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier);
	const int text_len = ASN1_STRING_length(name->d.uniformResourceIdentifier);
	auto_free char *start = xasprintf("cloche://%s/", cluster_id);
	const size_t start_len = strlen(start);
	size_t len;

	if (text_len < 0 || (size_t)text_len <= start_len || strncmp(text, start, start_len) != 0)
		return false;
	len = (size_t)text_len - start_len;
	if (len >= size || memchr(text + start_len, '\0', len))
		return false;
	memcpy(ret, text + start_len, len);
	ret[len] = '\0';
	return true;
}

int node_certificate_name(const X509 *certificate, const char *cluster_id, char *ret, size_t size)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	int n_uris = 0, r = -EACCES;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		if (name->type == GEN_URI && n_uris++ == 0 && read_uri(name, cluster_id, ret, size))
			r = 0;
	}
	GENERAL_NAMES_free(names);
	return n_uris == 1 ? r : -EACCES;
}

static bool seconds_of(const ASN1_TIME *time, int64_t *ret)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(time, &tm) != 1)
		return false;
	*ret = (int64_t)timegm(&tm);
	return true;
}

bool node_certificate_term(const char *pem, struct certificate_dates *ret)
{
	auto_call(X509_freep) X509 *cert = node_certificate_read(pem);

	if (!cert || !seconds_of(X509_get0_notBefore(cert), &ret->begin_s) ||
	    !seconds_of(X509_get0_notAfter(cert), &ret->end_s))
		return false;
	ret->begin_s += AUTHORITY_EARLIER_S;
	return ret->end_s > ret->begin_s;
}
