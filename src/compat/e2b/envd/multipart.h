// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Parses multipart/form-data (RFC 7578) as a stream: bytes are put into `in`, and steps come out.
 * No I/O. Strict: a part's head is bounded, and a malformed part ends the parsing. Data is returned
 * without a copy; the caller consumes it from `in`.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_NAME_MAX     4096 /* as long as a path */
#define MULTIPART_HEAD_MAX     (16 * 1024)

enum multipart_step {
	MULTIPART_MORE, /* needs more bytes */
	MULTIPART_PART, /* one begins: name and filename are set */
	MULTIPART_DATA, /* *data, *len: the caller consumes some or all of it from in */
	MULTIPART_PART_END,
	MULTIPART_END, /* of all; what follows has no meaning */
};

struct multipart {
	char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
	size_t delimiter_len;
	unsigned state;
	char name[64];                         /* "" = none */
	char filename[MULTIPART_NAME_MAX + 1]; /* with its directories; "" = none */
};

/* By the Content-Type field. */
must_check int multipart_init(struct multipart *m, const char *type, struct err *err);
/* A multipart_step, or < 0 for malformed input. */
must_check int multipart_next(struct multipart *m, struct buf *in, const char **data, size_t *len,
                              struct err *err);
