// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An archive on its way from an fd to a tar reader: hashed as it comes, decompressed if it is
 * compressed, hashed again. It needs constant memory. All of the input is read, also what lies
 * behind the archive's end, because the digests cover that, too.
 */
#include "base/digest.h"
#include "tar/tar.h"

struct archive_reader {
	struct digest raw, plain; /* of the bytes as they came, and as they are decompressed */
	uint64_t raw_bytes;
	uint64_t entries, bytes; /* of the archive */
};

must_check int archive_reader_run(int fd, const struct tar_ops *ops, void *arg,
                                  const struct tar_limits *limits, struct archive_reader *ret,
                                  struct err *err);
/* Of a text that is in memory. */
void archive_reader_digest(const void *data, size_t len, struct digest *ret);
