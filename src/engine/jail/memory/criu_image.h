// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Parses CRIU's images: 8 bytes of magic, then protobuf messages, each after its length. Little of
 * protobuf is needed: a message is a list of fields, each with a number and a type, and unknown
 * fields are copied unchanged.
 */
#include "base/buf.h"
#include "base/err.h"

#define CRIU_HEAD_SIZE 8          /* of an image: two words of magic */
#define CRIU_IMAGE_MAX (64 << 20) /* of those that we read; pages are not */

struct criu_field {
	unsigned number, wire;
	uint64_t value; /* of a number; of bytes their length */
	const unsigned char *raw;
	size_t raw_len;
};

/* 1 and the next message of an image, 0 at the end; *at begins at CRIU_HEAD_SIZE. */
must_check int criu_image_message(const struct buf *image, size_t *at, const unsigned char **ret,
                                  size_t *len);
/* 1 and the next field of a message, 0 at the end. */
must_check int criu_image_field(const unsigned char *data, size_t len, size_t *at,
                                struct criu_field *ret);
/* The bytes of a field, or NULL if it is of another type. */
const unsigned char *criu_image_bytes(const struct criu_field *f);
must_check int criu_image_read(int dir_fd, const char *name, struct buf *ret);

must_check int criu_image_put_number(struct buf *out, unsigned number, uint64_t value);
must_check int criu_image_put_bytes(struct buf *out, unsigned number, const void *data, size_t len);
must_check int criu_image_put_message(struct buf *out, const struct buf *message);
