// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Compression as a stage between bytes and a sink: gzip and zstd, streaming, in constant memory.
 * What is decompressed is hostile: a zstd window beyond 128 MiB and an expansion beyond any honest
 * archive's are refused.
 */
#include "base/err.h"

#include <stdbool.h>

enum compress_kind { COMPRESS_NONE, COMPRESS_GZIP, COMPRESS_ZSTD };

typedef int (*compress_sink)(const void *data, size_t len, void *arg, struct err *err);

struct compress;
must_check int compress_new(enum compress_kind kind, compress_sink sink, void *arg,
                            struct compress **ret, struct err *err);
must_check int compress_feed(struct compress *s, const void *data, size_t len, struct err *err);
must_check int compress_finish(struct compress *s, struct err *err);
void compress_free(struct compress *s);
DEFINE_FREEP(struct compress, compress_free)

/* COMPRESS_NONE looks at the first bytes and takes gzip and zstd as what they are. */
struct decompress;
struct decompress *decompress_new(enum compress_kind kind, compress_sink sink, void *arg);
must_check int decompress_feed(struct decompress *u, const void *data, size_t len, struct err *err);
must_check int decompress_finish(struct decompress *u, struct err *err);
/* Feeds all that fd has, and finishes. see: called with each piece before it is fed; or NULL. */
must_check int decompress_read(struct decompress *u, int fd,
                               void (*see)(const void *data, size_t len, void *arg), void *arg,
                               struct err *err);
void decompress_free(struct decompress *u);
DEFINE_FREEP(struct decompress, decompress_free)
