// SPDX-License-Identifier: Apache-2.0
#include "http/certificate.h"

#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

bool certificate_add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX ctx;
	bool ok;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = extension && X509_add_ext(cert, extension, -1) == 1;
	X509_EXTENSION_free(extension);
	return ok;
}

bool certificate_set_serial(X509 *cert, uint8_t serial[CERTIFICATE_SERIAL_SIZE])
{
	ASN1_INTEGER *number;
	BIGNUM *n;
	bool ok;

	serial[0] = (serial[0] & 0x3f) | 0x40;
	n = BN_bin2bn(serial, CERTIFICATE_SERIAL_SIZE, NULL);
	number = n ? BN_to_ASN1_INTEGER(n, NULL) : NULL;
	ok = number && X509_set_serialNumber(cert, number) == 1;
	ASN1_INTEGER_free(number);
	BN_free(n);
	return ok;
}

bool certificate_set_random_serial(X509 *cert)
{
	uint8_t serial[CERTIFICATE_SERIAL_SIZE];

	return RAND_bytes(serial, sizeof(serial)) == 1 && certificate_set_serial(cert, serial);
}

bool certificate_add_name(X509_NAME *name, const char *field, const char *text)
{
	return X509_NAME_add_entry_by_txt(name, field, MBSTRING_ASC, (const unsigned char *)text,
	                                  -1, -1, 0) == 1;
}

bool certificate_set_dates(X509 *cert, time_t from_s, time_t until_s)
{
	return ASN1_TIME_set(X509_getm_notBefore(cert), from_s) &&
	       ASN1_TIME_set(X509_getm_notAfter(cert), until_s);
}

bool certificate_write_pem(const X509 *cert, char ret[CERTIFICATE_PEM_MAX])
{
	BIO *bio = BIO_new(BIO_s_mem());
	int n = bio && PEM_write_bio_X509(bio, cert) == 1
	                ? BIO_read(bio, ret, (int)CERTIFICATE_PEM_MAX - 1)
	                : 0;

	BIO_free(bio);
	if (n <= 0 || n >= (int)CERTIFICATE_PEM_MAX - 1)
		return false;
	ret[n] = '\0';
	return true;
}

static bool fill_leaf(X509 *cert, const struct certificate_leaf *leaf)
{
	return X509_set_version(cert, X509_VERSION_3) == 1 && certificate_set_random_serial(cert) &&
	       certificate_add_name(X509_get_subject_name(cert), "O", "cloche") &&
	       X509_set_issuer_name(cert, X509_get_subject_name(leaf->issuer)) == 1 &&
	       certificate_set_dates(cert, leaf->from_s, leaf->until_s) &&
	       X509_set_pubkey(cert, leaf->key) == 1 &&
	       certificate_add_extension(cert, leaf->issuer, NID_basic_constraints,
	                                 "critical,CA:FALSE") &&
	       certificate_add_extension(cert, leaf->issuer, NID_key_usage,
	                                 "critical,digitalSignature") &&
	       certificate_add_extension(cert, leaf->issuer, NID_ext_key_usage, "serverAuth") &&
	       certificate_add_extension(cert, leaf->issuer, NID_subject_key_identifier, "hash") &&
	       certificate_add_extension(cert, leaf->issuer, NID_authority_key_identifier,
	                                 "keyid:always") &&
	       certificate_add_extension(cert, leaf->issuer, NID_subject_alt_name, leaf->names) &&
	       X509_sign(cert, leaf->issuer_key, EVP_sha256()) > 0;
}

X509 *certificate_sign_leaf(const struct certificate_leaf *leaf)
{
	X509 *cert = X509_new();

	if (cert && fill_leaf(cert, leaf))
		return cert;
	X509_free(cert);
	return NULL;
}
