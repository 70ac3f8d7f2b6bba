// SPDX-License-Identifier: Apache-2.0
/* SHA-256 is OpenSSL's own function and not EVP's: a static program would carry all of libcrypto
 * for that. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "agent/archive/archive_reader.h"

#include "agent/archive/compress.h"

#include <openssl/sha.h>

struct flow {
	struct tar_reader *reader;
	SHA256_CTX raw, plain;
	uint64_t raw_bytes;
};

static void on_raw(const void *data, size_t len, void *arg)
{
	struct flow *f = arg;

	(void)SHA256_Update(&f->raw, data, len);
	f->raw_bytes += len;
}

static int on_plain(const void *data, size_t len, void *arg, struct err *err)
{
	struct flow *f = arg;

	(void)SHA256_Update(&f->plain, data, len);
	return tar_reader_feed(f->reader, data, len, err);
}

static int pump(struct flow *f, int fd, struct err *err)
{
	auto_call(decompress_freep) struct decompress *in =
		decompress_new(COMPRESS_NONE, on_plain, f);
	int r = decompress_read(in, fd, on_raw, f, err);

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
	r = pump(&f, fd, err);
	if (r < 0)
		return r;
	end.raw_bytes = f.raw_bytes;
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
