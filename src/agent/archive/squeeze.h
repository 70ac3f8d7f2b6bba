// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Compression as a stage between bytes and a sink: gzip and zstd, streaming, in constant memory.
 * What is unsqueezed is hostile: a zstd window beyond 128 MiB and an expansion beyond any honest
 * archive's are refused.
 */
#include "base/err.h"

#include <stdbool.h>

enum squeeze_kind { SQUEEZE_NONE, SQUEEZE_GZIP, SQUEEZE_ZSTD };

typedef int (*squeeze_sink)(const void *data, size_t len, void *arg, struct err *err);

struct squeeze;
must_check int squeeze_new(enum squeeze_kind kind, squeeze_sink sink, void *arg,
                           struct squeeze **ret, struct err *err);
must_check int squeeze_feed(struct squeeze *s, const void *data, size_t len, struct err *err);
must_check int squeeze_finish(struct squeeze *s, struct err *err);
void squeeze_free(struct squeeze *s);
DEFINE_FREEP(struct squeeze, squeeze_free)

/* SQUEEZE_NONE looks at the first bytes and takes gzip and zstd as what they are. */
struct unsqueeze;
struct unsqueeze *unsqueeze_new(enum squeeze_kind kind, squeeze_sink sink, void *arg);
must_check int unsqueeze_feed(struct unsqueeze *u, const void *data, size_t len, struct err *err);
must_check int unsqueeze_finish(struct unsqueeze *u, struct err *err);
void unsqueeze_free(struct unsqueeze *u);
DEFINE_FREEP(struct unsqueeze, unsqueeze_free)
