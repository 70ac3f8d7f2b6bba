// SPDX-License-Identifier: Apache-2.0
#include "preview/authority.h"

#include "certificate-check.h"
#include "test.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DAY_S   ((time_t)24 * 3600)
#define START_S ((time_t)1800000000)
#define FILE    "/box.test.pem"

static char *make_dir(void)
{
	char *dir = xstrdup("/tmp/test-authority-XXXXXX");

	CHECK(mkdtemp(dir));
	return dir;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void remove_dir(char **dir)
{
	CHECK_INT(nftw(*dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	free(*dir);
}

static struct authority *open_at(const char *dir, const char *domain, time_t now_s)
{
	struct authority *a = NULL;
	struct err err = {0};

	CHECK_INT(authority_open(dir, domain, now_s, &a, &err), 0);
	return a;
}

static X509 *certify(struct authority *a, const char *name, time_t now_s)
{
	EVP_PKEY *key;
	X509 *leaf;

	CHECK_INT(authority_certify(a, name, now_s, &leaf, &key), 0);
	CHECK_INT(X509_check_private_key(leaf, key), 1);
	return leaf;
}

TEST(one_certificate_is_good_for_all_names_below_the_domain_and_for_no_other)
{
	auto_call(remove_dir) char *dir = make_dir();
	struct authority *a = open_at(dir, "Box.Test", START_S);
	const char *pem = authority_pem(a);
	X509 *leaf = certify(a, "3000-abc.box.test", START_S);

	CHECK_INT(certificate_check(pem, leaf, "3000-abc.box.test", START_S), X509_V_OK);
	CHECK_INT(certificate_check(pem, leaf, "api.box.test", START_S), X509_V_OK);
	CHECK_INT(certificate_check(pem, leaf, "box.test", START_S), X509_V_OK);
	CHECK_INT(certificate_check(pem, leaf, "example.com", START_S),
	          X509_V_ERR_HOSTNAME_MISMATCH);
	CHECK_INT(certificate_check(pem, leaf, "a.b.box.test", START_S),
	          X509_V_ERR_HOSTNAME_MISMATCH);
	CHECK(certify(a, "evil.example", START_S) == leaf); /* the client sees that it is not */
	authority_free(a);
}

TEST(below_a_domain_of_one_label_each_name_has_a_certificate_of_its_own)
{
	auto_call(remove_dir) char *dir = make_dir();
	struct authority *a = open_at(dir, "localhost", START_S);
	const char *name = "3000-abc.localhost", *odd = "x.localhost,DNS:example.com";

	CHECK_INT(certificate_check(authority_pem(a), certify(a, NULL, START_S), name, START_S),
	          X509_V_ERR_HOSTNAME_MISMATCH); /* why it needs one */
	CHECK_INT(certificate_check(authority_pem(a), certify(a, name, START_S), name, START_S),
	          X509_V_OK);
	CHECK_INT(certificate_check(authority_pem(a), certify(a, odd, START_S), "example.com",
	                            START_S),
	          X509_V_ERR_HOSTNAME_MISMATCH);
	authority_free(a);
}

TEST(a_certificate_is_renewed_before_it_expires_without_a_restart)
{
	auto_call(remove_dir) char *dir = make_dir();
	struct authority *a = open_at(dir, "box.test", START_S);
	X509 *first = X509_dup(certify(a, NULL, START_S));
	const time_t kept_s = START_S + AUTHORITY_RENEW_DAYS * DAY_S - 1;

	CHECK_INT(X509_cmp(certify(a, NULL, kept_s), first), 0);
	CHECK(X509_cmp(certify(a, NULL, kept_s + 1), first) != 0);
	CHECK_INT(certificate_check(authority_pem(a), first, "box.test", kept_s + 1), X509_V_OK);
	CHECK_INT(certificate_check(authority_pem(a), first, "box.test",
	                            START_S + AUTHORITY_LEAF_DAYS * DAY_S + 1),
	          X509_V_ERR_CERT_HAS_EXPIRED);
	for (int day = 0; day < AUTHORITY_DAYS; day += 61)
		CHECK_INT(certificate_check(authority_pem(a),
		                            certify(a, NULL, START_S + day * DAY_S), "api.box.test",
		                            START_S + day * DAY_S),
		          X509_V_OK);
	X509_free(first);
	authority_free(a);
}

TEST(a_restart_finds_the_same_authority)
{
	auto_call(remove_dir) char *dir = make_dir();
	auto_free char *path = xasprintf("%s" FILE, dir);
	struct authority *first = open_at(dir, "box.test", START_S),
			 *next = open_at(dir, "box.test", START_S + DAY_S),
			 *other = open_at(dir, "other.test", START_S);
	struct stat st;

	CHECK_STR(authority_pem(first), authority_pem(next));
	CHECK_STR(authority_fingerprint(first, 0), authority_fingerprint(next, 0));
	CHECK(strcmp(authority_pem(first), authority_pem(other)) != 0);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
	authority_free(first);
	authority_free(next);
	authority_free(other);
}

/* A client that asked once in the last two years of the old authority sees no change at its end. */
TEST(an_authority_is_followed_by_the_next_before_it_expires)
{
	auto_call(remove_dir) char *dir = make_dir();
	const time_t end_s = START_S + AUTHORITY_DAYS * DAY_S;
	struct authority *a = open_at(dir, "box.test", START_S);
	auto_free char *old = xstrdup(authority_pem(a)), *both = NULL;

	authority_free(a);
	a = open_at(dir, "box.test", end_s - (AUTHORITY_SUCCEED_DAYS + 1) * DAY_S);
	CHECK_INT(authority_count(a), 1);
	authority_free(a);
	a = open_at(dir, "box.test", end_s - 100 * DAY_S);
	CHECK_INT(authority_count(a), 2);
	both = xstrdup(authority_pem(a));
	CHECK_INT(certificate_check(old, certify(a, NULL, end_s - 99 * DAY_S), "box.test",
	                            end_s - 99 * DAY_S),
	          X509_V_OK);
	CHECK_INT(
		certificate_check(both, certify(a, NULL, end_s + DAY_S), "box.test", end_s + DAY_S),
		X509_V_OK);
	CHECK(certificate_check(old, certify(a, NULL, end_s + DAY_S), "box.test", end_s + DAY_S) !=
	      X509_V_OK);
	authority_free(a);
	a = open_at(dir, "box.test", end_s + DAY_S); /* the old one is dropped */
	CHECK_INT(authority_count(a), 1);
	CHECK_INT(
		certificate_check(both, certify(a, NULL, end_s + DAY_S), "box.test", end_s + DAY_S),
		X509_V_OK);
	authority_free(a);
}

static void refuses(const char *dir, const char *domain, const char *why)
{
	struct authority *a = NULL;
	struct err err = {0};

	CHECK(authority_open(dir, domain, START_S, &a, &err) < 0);
	CHECK(!a && strstr(err.message, why));
}

TEST(a_file_that_cannot_be_trusted_is_refused_and_left_as_it_is)
{
	auto_call(remove_dir) char *dir = make_dir();
	auto_free char *path = xasprintf("%s" FILE, dir), *other = xasprintf("%s/a.test.pem", dir);

	authority_free(open_at(dir, "box.test", START_S));
	CHECK_INT(chmod(path, 0640), 0);
	refuses(dir, "box.test", "by others than its owner");
	CHECK_INT(chmod(path, 0600), 0);
	CHECK_INT(rename(path, other), 0);
	refuses(dir, "a.test", "for this domain");
	CHECK_INT(truncate(other, 40), 0);
	refuses(dir, "a.test", "is not a key with its certificate");
	CHECK_INT(truncate(other, 0), 0);
	refuses(dir, "a.test", "is empty");
	CHECK_INT(symlink(other, path), 0);
	refuses(dir, "box.test", "cannot read");
	refuses(dir, "box.test/../x", "is not a host name");
}
