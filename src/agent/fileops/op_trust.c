// SPDX-License-Identifier: Apache-2.0
/*
 * A certificate that all programs are to trust, added to the bundle that they read and kept by
 * itself beside. This is one operation, and not a read and two writes by the host, because each of
 * those would be a child of its own, and a create waits for them.
 *
 * Nothing is assumed of the bundle, because the guest may write it. Its size is bounded. A block
 * that was added earlier is found by the line before it, and replaced. If there is no bundle, the
 * bundle of another kind of system is taken as its beginning. Without a certificate the block and
 * the file are removed, so that a copy of a sandbox does not trust the certificate of the original.
 */
#include "agent/fileops/files.h"
#include "base/fd.h"

#include <string.h>
#include <unistd.h>

#define BUNDLE_MAX      ((size_t)2 * 1024 * 1024)
#define CERTIFICATE_MAX ((size_t)64 * 1024)
#define MARK            "# The issuer of cloche's network wall, for this sandbox\n"
#define BLOCK_END       "-----END CERTIFICATE-----\n"

/* Where systems keep all certificates in one file. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
	"/etc/ssl/ca-bundle.pem",             /* openSUSE */
	"/etc/ssl/cert.pem",
};

/* ret_bundle stays empty where nothing is found. */
static int read_bundle(const char *path, struct buf *ret_bundle, struct err *err)
{
	auto_fd int fd = -1;
	struct stat st;
	int r = files_open(path, &fd, &st, err);

	for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(bundles); i++)
		r = files_open(bundles[i], &fd, &st, err);
	if (r == -ENOENT)
		return 0;
	if (r == 0 && (r = files_read_all(fd, ret_bundle)) < 0)
		return result_error(err, -r, "cannot read", path);
	return r;
}

static int add_block(struct buf *bundle, const struct buf *certificate)
{
	int r = 0;

	(void)files_drop_block(bundle, MARK, BLOCK_END);
	if (bundle->len > 0 && bundle->data[bundle->len - 1] != '\n')
		r = buf_append_str(bundle, "\n");
	return r == 0 ? buf_printf(bundle, "%s%s", MARK, buf_str(certificate)) : r;
}

static int trust_nobody(const struct start *s, struct buf *bundle, struct err *err)
{
	if (unlink(s->path2) < 0 && errno != ENOENT && errno != ENOTDIR)
		return result_error(err, errno, "cannot remove", s->path2);
	return files_drop_block(bundle, MARK, BLOCK_END)
	               ? files_put(s, bundle->data, bundle->len, err)
	               : 0;
}

int op_trust(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	const struct start own = {.path = s->path2, .flags = s->flags, .mode = s->mode};
	auto_call(buf_done) struct buf certificate = BUF_INIT(CERTIFICATE_MAX);
	auto_call(buf_done) struct buf bundle = BUF_INIT(BUNDLE_MAX);
	int r = files_read_all(STDIN_FILENO, &certificate);

	if (r < 0)
		return result_error(err, -r, "cannot read the data for", s->path2);
	r = read_bundle(s->path, &bundle, err);
	if (r == 0 && certificate.len == 0)
		return trust_nobody(s, &bundle, err);
	if (r == 0 && add_block(&bundle, &certificate) < 0)
		r = result_error(err, EFBIG, "there is no room in", s->path);
	if (r == 0)
		r = files_put(s, bundle.data, bundle.len, err);
	if (r == 0)
		r = files_put(&own, certificate.data, certificate.len, err);
	return r;
}
