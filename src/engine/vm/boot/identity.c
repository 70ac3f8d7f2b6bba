// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/boot/identity.h"

#include "base/fd.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#define CHUNK 65536

/* A reinstalled package has another time, and another version has another size. */
static int add_stat(EVP_MD_CTX *ctx, const struct stat *st)
{
	const uint64_t words[] = {(uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
	                          (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ino,
	                          (uint64_t)st->st_dev};

	return EVP_DigestUpdate(ctx, words, sizeof(words)) == 1 ? 0 : -EIO;
}

static int add_content(EVP_MD_CTX *ctx, int fd)
{
	char chunk[CHUNK];
	ssize_t n;
	off_t at = 0;

	while ((n = pread(fd, chunk, sizeof(chunk), at)) > 0) {
		if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
			return -EIO;
		at += n;
	}
	return n < 0 ? -errno : 0;
}

static int add_processor(EVP_MD_CTX *ctx)
{
	static const char *const keys[] = {"model name", "flags", "Features", "CPU part"};
	auto_free char *text = xcalloc(1, CHUNK);
	int r = fd_read_file(AT_FDCWD, "/proc/cpuinfo", text, CHUNK);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *line = strstr(text, keys[i]);

		if (line && EVP_DigestUpdate(ctx, line, strcspn(line, "\n")) != 1)
			return -EIO;
	}
	return 0;
}

static int finish(EVP_MD_CTX *ctx, struct digest *ret)
{
	return EVP_DigestFinal_ex(ctx, ret->bytes, NULL) == 1 ? 0 : -EIO;
}

static int begin(EVP_MD_CTX *ctx)
{
	return ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

int identity_of_file(int fd, struct digest *ret)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	struct stat st;
	int r = begin(ctx);

	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r == 0)
		r = add_stat(ctx, &st);
	if (r == 0)
		r = finish(ctx, ret);
	EVP_MD_CTX_free(ctx);
	return r;
}

static int read_qemu(EVP_MD_CTX *ctx, const char *qemu, bool is_kvm, struct digest *ret)
{
	struct stat st;
	int r = begin(ctx);

	if (r == 0 && stat(qemu, &st) < 0)
		r = -errno;
	if (r == 0)
		r = add_stat(ctx, &st);
	if (r == 0 && is_kvm)
		r = add_processor(ctx);
	return r == 0 ? finish(ctx, ret) : r;
}

int identity_read(const char *qemu, bool is_kvm, const int *own_fds, size_t n_own,
                  struct identity *ret, struct err *err)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int r = read_qemu(ctx, qemu, is_kvm, &ret->qemu);

	if (r == 0)
		r = begin(ctx);
	for (size_t i = 0; r == 0 && i < n_own; i++)
		r = add_content(ctx, own_fds[i]);
	if (r == 0)
		r = finish(ctx, &ret->cloche);
	EVP_MD_CTX_free(ctx);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot read what machines run on") : 0;
}
