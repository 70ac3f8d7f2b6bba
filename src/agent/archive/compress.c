// SPDX-License-Identifier: Apache-2.0
#include "agent/archive/compress.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define CHUNK      (64 * 1024)
#define GZIP_LEVEL 4 /* a sandbox's link is fast: time matters more than the last per cent */
#define ZSTD_LEVEL 3
#define GZIP_BITS  (15 + 16) /* the largest window, gzip's framing */

struct compress {
	enum compress_kind kind;
	compress_sink sink;
	void *arg;
	z_stream gzip;
	ZSTD_CCtx *zstd;
	unsigned char out[CHUNK];
};

int compress_new(enum compress_kind kind, compress_sink sink, void *arg, struct compress **ret,
                 struct err *err)
{
	auto_call(compress_freep) struct compress *s = xnew0(struct compress);

	s->sink = sink;
	s->arg = arg;
	if (kind == COMPRESS_GZIP && deflateInit2(&s->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_BITS, 8,
	                                          Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(err, ERR_INTERNAL, ENOMEM, "cannot start gzip");
	s->kind = kind;
	if (kind == COMPRESS_ZSTD) {
		s->zstd = ZSTD_createCCtx();
		if (!s->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(
					s->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)))
			return err_set(err, ERR_INTERNAL, ENOMEM, "cannot start zstd");
	}
	*ret = take_ptr(s);
	return 0;
}

void compress_free(struct compress *s)
{
	if (!s)
		return;
	if (s->kind == COMPRESS_GZIP)
		(void)deflateEnd(&s->gzip);
	(void)ZSTD_freeCCtx(s->zstd);
	free(s);
}

static int run_gzip(struct compress *s, const void *data, size_t len, bool is_end, struct err *err)
{
	int status;

	s->gzip.next_in = unconst(data);
	s->gzip.avail_in = (uInt)len; /* callers feed pieces far below 4 GiB */
	do {
		int r;

		s->gzip.next_out = s->out;
		s->gzip.avail_out = CHUNK;
		status = deflate(&s->gzip, is_end ? Z_FINISH : Z_NO_FLUSH);
		if (status == Z_STREAM_ERROR)
			return err_set(err, ERR_INTERNAL, EIO, "gzip failed");
		r = s->sink(s->out, CHUNK - s->gzip.avail_out, s->arg, err);
		if (r < 0)
			return r;
	} while (s->gzip.avail_out == 0 && status != Z_STREAM_END);
	return 0;
}

static int run_zstd(struct compress *s, const void *data, size_t len, bool is_end, struct err *err)
{
	ZSTD_inBuffer in = {data, len, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {s->out, CHUNK, 0};
		int r;

		left = ZSTD_compressStream2(s->zstd, &out, &in,
		                            is_end ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return err_set(err, ERR_INTERNAL, EIO, "zstd: %s", ZSTD_getErrorName(left));
		r = s->sink(s->out, out.pos, s->arg, err);
		if (r < 0)
			return r;
	} while (in.pos < in.size || (is_end && left > 0));
	return 0;
}

static int compress_run(struct compress *s, const void *data, size_t len, bool is_end,
                        struct err *err)
{
	switch (s->kind) {
	case COMPRESS_NONE:
		return len > 0 ? s->sink(data, len, s->arg, err) : 0;
	case COMPRESS_GZIP:
		return run_gzip(s, data, len, is_end, err);
	case COMPRESS_ZSTD:
		return run_zstd(s, data, len, is_end, err);
	}
	return -EINVAL;
}

int compress_feed(struct compress *s, const void *data, size_t len, struct err *err)
{
	return len > 0 ? compress_run(s, data, len, /* is_end= */ false, err) : 0;
}

int compress_finish(struct compress *s, struct err *err)
{
	return compress_run(s, NULL, 0, /* is_end= */ true, err);
}
