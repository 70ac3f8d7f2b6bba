// SPDX-License-Identifier: Apache-2.0
#include "certificate-check.h"
#include "test.h"
#include "wall/transport/issuer.h"

#include <string.h>

#define SANDBOX "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"

static const uint8_t secret[ISSUER_SECRET_SIZE] = "a secret that a test may have..";

static struct issuer *make(const uint8_t *from, const char *id)
{
	struct issuer *i = NULL;

	CHECK_INT(issuer_new(from, id, &i), 0);
	return i;
}

static X509 *certificate_of(const struct issuer *i)
{
	BIO *bio = BIO_new_mem_buf(issuer_pem(i), -1);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

	CHECK(cert);
	BIO_free(bio);
	return cert;
}

static struct host host_of(const char *text)
{
	struct host host;

	CHECK_INT(host_parse(text, strlen(text), &host, NULL), 0);
	return host;
}

static int verify(const struct issuer *trusted, X509 *cert, const char *name)
{
	return certificate_check(issuer_pem(trusted), cert, name, time(NULL));
}

TEST(a_wall_that_follows_another_has_the_same_issuers)
{
	struct issuer *first = make(secret, SANDBOX), *next = make(secret, SANDBOX);
	X509 *a = certificate_of(first), *b = certificate_of(next);
	struct host host = host_of("api.example.com");
	EVP_PKEY *key;
	X509 *leaf;

	CHECK(EVP_PKEY_eq(X509_get0_pubkey(a), X509_get0_pubkey(b)) == 1);
	CHECK(X509_NAME_cmp(X509_get_subject_name(a), X509_get_subject_name(b)) == 0);
	CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)) == 0);
	CHECK_INT(issuer_certify(next, &host, &leaf, &key), 0);
	CHECK_INT(verify(first, leaf, "api.example.com"), X509_V_OK);
	X509_free(a);
	X509_free(b);
	issuer_free(first);
	issuer_free(next);
}

TEST(an_issuer_is_good_for_its_own_sandbox_and_the_name_that_was_asked_for)
{
	struct issuer *own = make(secret, SANDBOX);
	struct issuer *other = make(secret, "sb_bbbbbbbbbbbbbbbbbbbbbbbbbb");
	struct host host = host_of("api.example.com");
	EVP_PKEY *key;
	X509 *leaf;

	CHECK_INT(issuer_certify(own, &host, &leaf, &key), 0);
	CHECK_INT(X509_check_private_key(leaf, key), 1);
	CHECK_INT(verify(own, leaf, "api.example.com"), X509_V_OK);
	CHECK_INT(verify(own, leaf, "www.example.com"), X509_V_ERR_HOSTNAME_MISMATCH);
	CHECK(verify(other, leaf, "api.example.com") != X509_V_OK);
	issuer_free(own);
	issuer_free(other);
}

TEST(an_address_is_certified_as_one)
{
	static const char *const rows[] = {"192.0.2.1", "[2001:db8::1]"};
	struct issuer *i = make(secret, SANDBOX);

	for (size_t k = 0; k < ARRAY_SIZE(rows); k++) {
		struct host host = host_of(rows[k]);
		char text[ADDRESS_SIZE];
		EVP_PKEY *key;
		X509 *leaf;

		address_format(&host.address, text);
		CHECK_INT(issuer_certify(i, &host, &leaf, &key), 0);
		CHECK_INT(X509_check_ip_asc(leaf, text, 0), 1);
	}
	issuer_free(i);
}

TEST(the_issuer_of_refusals_shows_nobody_what_another_has_tried_to_reach)
{
	struct host host = host_of("api.example.com");
	struct issuer *refusals = NULL, *own = make(secret, SANDBOX);
	ASN1_INTEGER *serial;
	EVP_PKEY *key;
	X509 *leaf;

	CHECK_INT(issuer_new_of_refusals(secret, &refusals), 0);
	CHECK_INT(issuer_certify(refusals, &host, &leaf, &key), 0);
	CHECK_INT(verify(refusals, leaf, "api.example.com"), X509_V_OK);
	CHECK(verify(own, leaf, "api.example.com") != X509_V_OK);
	serial = ASN1_INTEGER_dup(X509_get0_serialNumber(leaf));
	CHECK_INT(issuer_certify(refusals, &host, &leaf, &key), 0);
	CHECK(ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(leaf)) != 0);
	ASN1_INTEGER_free(serial);
	issuer_free(refusals);
	issuer_free(own);
}

TEST(certificates_are_kept_and_those_not_used_for_longest_are_made_anew)
{
	struct issuer *i = make(secret, SANDBOX);
	struct host often = host_of("often.example.com");
	X509 *first, *again;
	EVP_PKEY *key;
	long serial;

	CHECK_INT(issuer_certify(i, &often, &first, &key), 0);
	serial = (long)X509_issuer_and_serial_hash(first);
	for (int k = 0; k < 300; k++) {
		char name[64];
		struct host host;

		(void)snprintf(name, sizeof(name), "h%d.example.com", k);
		host = host_of(name);
		CHECK_INT(issuer_certify(i, &host, &again, &key), 0);
		CHECK_INT(X509_check_host(again, name, 0, 0, NULL), 1);
		CHECK_INT(issuer_certify(i, &often, &again, &key), 0);
	}
	CHECK((long)X509_issuer_and_serial_hash(again) == serial);
	issuer_free(i);
}
