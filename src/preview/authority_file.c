// SPDX-License-Identifier: Apache-2.0
/*
 * The file of an authority: for each one its key and then its certificate, as PEM. It is replaced
 * as a whole, and has its name only when it is on disk: a kill at any moment leaves the old one or
 * the new one. A file that cannot be used is an error and not replaced, since clients trust what is
 * in it.
 */
#include "base/fd.h"
#include "base/log.h"
#include "preview/authority_private.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)16 * 1024)

static int refuse(const char *path, const char *why, struct err *err)
{
	(void)err_set(err, ERR_INTERNAL, 0, "the authority '%s' %s", path, why);
	return err_hint(err, "put it back from a copy, or remove it: a new one is made then, which "
	                     "clients have to be told of (cloche trust)");
}

/* Whether the constraint of the certificate is this domain. */
static bool is_of(const X509 *cert, const struct hostname *domain)
{
	NAME_CONSTRAINTS *names = X509_get_ext_d2i(cert, NID_name_constraints, NULL, NULL);
	const GENERAL_SUBTREE *tree = NULL;
	bool is_same = false;

	if (names && sk_GENERAL_SUBTREE_num(names->permittedSubtrees) == 1)
		tree = sk_GENERAL_SUBTREE_value(names->permittedSubtrees, 0);
	if (tree && tree->base->type == GEN_DNS)
		is_same = ASN1_STRING_length(tree->base->d.dNSName) == domain->len &&
		          memcmp(ASN1_STRING_get0_data(tree->base->d.dNSName), domain->text,
		                 domain->len) == 0;
	NAME_CONSTRAINTS_free(names);
	return is_same;
}

static int read_roots(struct authority *a, BIO *bio, const char *path, struct err *err)
{
	int r = 0;

	while (r == 0 && !BIO_eof(bio) && a->n_roots < AUTHORITY_MAX) {
		EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
		X509 *cert = key ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;

		if (cert && X509_check_private_key(cert, key) == 1 && is_of(cert, &a->domain)) {
			r = authority_take_root(a, key, cert, err);
			continue;
		}
		EVP_PKEY_free(key);
		X509_free(cert);
		r = refuse(path, "is not a key with its certificate for this domain", err);
	}
	return r == 0 && a->n_roots == 0 ? refuse(path, "is empty", err) : r;
}

int authority_read(struct authority *a, const char *path, struct err *err)
{
	char text[FILE_BYTES_MAX];
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;
	BIO *bio;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0
		                       : err_set(err, ERR_INTERNAL, errno,
		                                 "cannot read the authority '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return refuse(path, "is not a file", err);
	if ((st.st_mode & 077) || st.st_uid != geteuid())
		return refuse(path, "can be read or written by others than its owner, root", err);
	n = read(fd, text, sizeof(text));
	if (n < 0 || n == (ssize_t)sizeof(text))
		return refuse(path, "cannot be read, or is too long", err);
	bio = BIO_new_mem_buf(text, (int)n);
	r = bio ? read_roots(a, bio, path, err) : refuse(path, "cannot be read", err);
	BIO_free(bio);
	OPENSSL_cleanse(text, sizeof(text));
	return r;
}

int authority_write(const struct authority *a, const char *dir, const char *path, struct err *err)
{
	BIO *bio = BIO_new(BIO_s_secmem());
	char *text = NULL;
	bool ok = bio != NULL;
	long n;
	int r;

	for (size_t i = 0; ok && i < a->n_roots; i++)
		ok = PEM_write_bio_PKCS8PrivateKey(bio, a->roots[i].key, NULL, NULL, 0, NULL,
		                                   NULL) == 1 &&
		     PEM_write_bio_X509(bio, a->roots[i].cert) == 1;
	n = ok ? BIO_get_mem_data(bio, &text) : 0;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		r = err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", dir);
	else if (n <= 0)
		r = err_set(err, ERR_INTERNAL, 0, "cannot write the authority '%s'", path);
	else
		r = fd_replace_file(AT_FDCWD, path, text, (size_t)n, 0600, true);
	if (r < 0 && (!err || !err->code))
		r = err_set(err, ERR_INTERNAL, -r, "cannot write the authority '%s'", path);
	BIO_free(bio);
	return r;
}

/* Drops what has expired, and makes what is missing. Returns whether anything has changed. */
static int bring_up_to_date(struct authority *a, time_t now_s, struct err *err)
{
	bool is_changed = false;
	int r = 0;

	while (a->n_roots > 0 && a->roots[0].until_s <= now_s) {
		authority_drop_first(a);
		is_changed = true;
	}
	if (a->n_roots == 0 ||
	    (a->n_roots < AUTHORITY_MAX &&
	     authority_expires_s(a) - now_s < AUTHORITY_SUCCEED_DAYS * AUTHORITY_DAY_S)) {
		r = authority_add_root(a, now_s, err);
		is_changed = true;
	}
	return r < 0 ? r : is_changed;
}

int authority_open(const char *dir, const char *domain, time_t now_s, struct authority **ret,
                   struct err *err)
{
	struct authority *a = xnew0(struct authority);
	auto_free char *path = NULL;
	const char *why;
	int r;

	if (hostname_parse(domain, strlen(domain), &a->domain, &why) < 0) {
		authority_free(a);
		return err_field(err, "preview.domain", "is not a host name: %s", why);
	}
	path = xasprintf("%s/%s.pem", dir, a->domain.text);
	r = authority_read(a, path, err);
	if (r == 0)
		r = bring_up_to_date(a, now_s, err);
	if (r > 0) {
		r = authority_write(a, dir, path, err);
		if (r == 0)
			log_info("preview.authority_made", "file='%s' fingerprint=%s", path,
			         a->roots[a->n_roots - 1].fingerprint);
	}
	if (r < 0) {
		authority_free(a);
		return r;
	}
	*ret = a;
	return 0;
}
