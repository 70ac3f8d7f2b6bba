// SPDX-License-Identifier: Apache-2.0
#include "agent/archive/compress.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define CHUNK       (64 * 1024)
#define READ_CHUNK  (128 * 1024)
#define GZIP_BITS   (15 + 16)
#define ZSTD_WINDOW 27                 /* log2: the decoder holds the window in memory */
#define RATIO_MAX   250                /* text compresses 10 to 1, logs perhaps 100 to 1 */
#define RATIO_FREE  (64 * 1024 * 1024) /* below this much output the ratio does not matter */
#define MAGIC_SIZE  4

struct decompress {
	enum compress_kind kind;
	compress_sink sink;
	void *arg;
	unsigned char magic[MAGIC_SIZE]; /* the first bytes, until they have decided */
	size_t have;
	bool is_decided, is_told; /* told: the caller named the kind */
	bool is_between;          /* at the end of a gzip member or zstd frame, or at the start */
	uint64_t in_bytes, out_bytes;
	z_stream gzip;
	ZSTD_DCtx *zstd;
	unsigned char out[CHUNK];
};

struct decompress *decompress_new(enum compress_kind kind, compress_sink sink, void *arg)
{
	struct decompress *u = xnew0(struct decompress);

	u->kind = kind;
	u->is_told = kind != COMPRESS_NONE;
	u->is_between = true;
	u->sink = sink;
	u->arg = arg;
	return u;
}

void decompress_free(struct decompress *u)
{
	if (!u)
		return;
	if (u->is_decided && u->kind == COMPRESS_GZIP)
		(void)inflateEnd(&u->gzip);
	(void)ZSTD_freeDCtx(u->zstd);
	free(u);
}

static int refuse(struct err *err, int errnum, const char *why)
{
	(void)err_set(err, ERR_FILE_INVALID, 0, "archive: %s", why);
	if (err)
		err->errnum = errnum;
	return -errnum;
}

static int pass_on(struct decompress *u, const void *data, size_t len, struct err *err)
{
	u->out_bytes += len;
	if (u->out_bytes > RATIO_FREE && u->out_bytes / RATIO_MAX > u->in_bytes)
		return refuse(err, EFBIG, "expands beyond reason");
	return len > 0 ? u->sink(data, len, u->arg, err) : 0;
}

static int feed_gzip(struct decompress *u, const void *data, size_t len, struct err *err)
{
	u->gzip.next_in = unconst(data);
	u->gzip.avail_in = (uInt)len;
	do {
		int status, r;

		if (u->is_between && u->gzip.avail_in > 0) { /* members may follow each other */
			(void)inflateReset(&u->gzip);
			u->is_between = false;
		}
		u->gzip.next_out = u->out;
		u->gzip.avail_out = CHUNK;
		status = inflate(&u->gzip, Z_NO_FLUSH);
		if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
			return refuse(err, EINVAL, "the gzip data is damaged");
		u->is_between = status == Z_STREAM_END;
		r = pass_on(u, u->out, CHUNK - u->gzip.avail_out, err);
		if (r < 0)
			return r;
	} while (u->gzip.avail_in > 0 || (u->gzip.avail_out == 0 && !u->is_between));
	return 0;
}

static int feed_zstd(struct decompress *u, const void *data, size_t len, struct err *err)
{
	ZSTD_inBuffer in = {data, len, 0};
	ZSTD_outBuffer out;

	do {
		size_t status;
		int r;

		out = (ZSTD_outBuffer){u->out, CHUNK, 0};
		status = ZSTD_decompressStream(u->zstd, &out, &in);
		if (ZSTD_isError(status))
			return refuse(err, EINVAL,
			              "the zstd data is damaged or needs too much memory");
		u->is_between = status == 0;
		r = pass_on(u, u->out, out.pos, err);
		if (r < 0)
			return r;
	} while (in.pos < in.size || out.pos == CHUNK);
	return 0;
}

static enum compress_kind kind_by_magic(const unsigned char *magic, size_t len)
{
	if (len >= 2 && magic[0] == 0x1f && magic[1] == 0x8b)
		return COMPRESS_GZIP;
	if (len >= 4 && memcmp(magic, "\x28\xb5\x2f\xfd", 4) == 0)
		return COMPRESS_ZSTD;
	return COMPRESS_NONE;
}

static int decide(struct decompress *u, struct err *err)
{
	enum compress_kind found = kind_by_magic(u->magic, u->have);

	if (u->is_told && found != u->kind)
		return refuse(err, EINVAL,
		              u->kind == COMPRESS_GZIP ? "is not gzip" : "is not zstd");
	u->kind = found;
	if (found == COMPRESS_GZIP && inflateInit2(&u->gzip, GZIP_BITS) != Z_OK)
		return err_set(err, ERR_INTERNAL, ENOMEM, "cannot start gzip");
	if (found == COMPRESS_ZSTD) {
		u->zstd = ZSTD_createDCtx();
		if (!u->zstd ||
		    ZSTD_isError(ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW)))
			return err_set(err, ERR_INTERNAL, ENOMEM, "cannot start zstd");
	}
	u->is_decided = true;
	return 0;
}

static int feed(struct decompress *u, const void *data, size_t len, struct err *err)
{
	u->in_bytes += len;
	switch (u->kind) {
	case COMPRESS_NONE:
		return len > 0 ? u->sink(data, len, u->arg, err) : 0;
	case COMPRESS_GZIP:
		return feed_gzip(u, data, len, err);
	case COMPRESS_ZSTD:
		return feed_zstd(u, data, len, err);
	}
	return -EINVAL;
}

static int decide_and_feed(struct decompress *u, struct err *err)
{
	int r = decide(u, err);

	return r < 0 ? r : feed(u, u->magic, u->have, err);
}

int decompress_feed(struct decompress *u, const void *data, size_t len, struct err *err)
{
	const unsigned char *at = data;

	if (!u->is_decided) {
		size_t n = MIN(len, MAGIC_SIZE - u->have);
		int r;

		memcpy(u->magic + u->have, at, n);
		u->have += n;
		at += n;
		len -= n;
		if (u->have < MAGIC_SIZE)
			return 0;
		r = decide_and_feed(u, err);
		if (r < 0)
			return r;
	}
	return len > 0 ? feed(u, at, len, err) : 0;
}

int decompress_finish(struct decompress *u, struct err *err)
{
	int r = u->is_decided ? 0 : decide_and_feed(u, err);

	if (r < 0)
		return r;
	if (!u->is_between && u->kind != COMPRESS_NONE)
		return refuse(err, EINVAL, "ends in the middle");
	return 0;
}

int decompress_read(struct decompress *u, int fd,
                    void (*see)(const void *data, size_t len, void *arg), void *arg,
                    struct err *err)
{
	auto_free char *chunk = xcalloc(1, READ_CHUNK);
	int r;

	for (;;) {
		ssize_t n = read(fd, chunk, READ_CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the archive");
		if (n == 0)
			return decompress_finish(u, err);
		if (see)
			see(chunk, (size_t)n, arg);
		r = decompress_feed(u, chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
}
