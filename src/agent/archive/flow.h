// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An archive on its way from an fd to a tar reader: hashed as it comes, decompressed if it is
 * compressed, hashed again. In constant memory; all of the input is read, also what lies behind the
 * archive's end, since digests are over that too.
 */
#include "base/digest.h"
#include "tar/tar.h"

struct flow_end {
	struct digest raw, plain; /* of the bytes as they came, and as they are decompressed */
	uint64_t raw_bytes;
	uint64_t entries, bytes; /* of the archive */
};

must_check int flow_run(int fd, const struct tar_ops *ops, void *arg,
                        const struct tar_limits *limits, struct flow_end *ret, struct err *err);
/* Of a text that is in memory. */
void flow_digest(const void *data, size_t len, struct digest *ret);
