// SPDX-License-Identifier: Apache-2.0
/* SHA-256 is OpenSSL's own function and not EVP's: a static program would carry all of libcrypto
 * for that. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "agent/archive/archive_reader.h"

#include "agent/archive/compress.h"

#include <openssl/sha.h>
#include <unistd.h>

#define CHUNK (128 * 1024)

struct flow {
	struct tar_reader *reader;
	SHA256_CTX raw, plain;
};

static int on_plain(const void *data, size_t len, void *arg, struct err *err)
{
	struct flow *f = arg;

	(void)SHA256_Update(&f->plain, data, len);
	return tar_reader_feed(f->reader, data, len, err);
}

static int pump(struct flow *f, int fd, struct archive_reader *ret, struct err *err)
{
	auto_call(decompress_freep) struct decompress *in =
		decompress_new(COMPRESS_NONE, on_plain, f);
	auto_free char *chunk = xcalloc(1, CHUNK);
	int r;

	for (;;) {
		ssize_t n = read(fd, chunk, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the archive");
		if (n == 0)
			break;
		(void)SHA256_Update(&f->raw, chunk, (size_t)n);
		ret->raw_bytes += (uint64_t)n;
		r = decompress_feed(in, chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
	r = decompress_finish(in, err);
	return r < 0 ? r : tar_reader_finish(f->reader, err);
}

int archive_reader_run(int fd, const struct tar_ops *ops, void *arg,
                       const struct tar_limits *limits, struct archive_reader *ret, struct err *err)
{
	auto_call(tar_reader_freep) struct tar_reader *reader = tar_reader_new(ops, arg, limits);
	struct flow f = {.reader = reader};
	struct archive_reader end = {0};
	int r;

	(void)SHA256_Init(&f.raw);
	(void)SHA256_Init(&f.plain);
	r = pump(&f, fd, &end, err);
	if (r < 0)
		return r;
	(void)SHA256_Final(end.raw.bytes, &f.raw);
	(void)SHA256_Final(end.plain.bytes, &f.plain);
	end.entries = tar_reader_entries(reader);
	end.bytes = tar_reader_bytes(reader);
	*ret = end;
	return 0;
}

void archive_reader_digest(const void *data, size_t len, struct digest *ret)
{
	SHA256_CTX ctx;

	(void)SHA256_Init(&ctx);
	(void)SHA256_Update(&ctx, data, len);
	(void)SHA256_Final(ret->bytes, &ctx);
}
