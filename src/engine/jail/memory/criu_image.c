// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/criu_image.h"

#include "base/fd.h"

#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define WIRE_NUMBER 0
#define WIRE_8      1
#define WIRE_BYTES  2
#define WIRE_4      5

static int get_number(const unsigned char *data, size_t len, size_t *at, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < len && shift < 64; shift += 7) {
		unsigned char byte = data[(*at)++];

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = value;
			return 0;
		}
	}
	return -EPROTO;
}

int criu_image_field(const unsigned char *data, size_t len, size_t *at, struct criu_field *ret)
{
	const size_t from = *at;
	uint64_t key, skip = 0;
	int r;

	if (*at == len)
		return 0;
	r = get_number(data, len, at, &key);
	if (r < 0)
		return r;
	*ret = (struct criu_field){.number = (unsigned)(key >> 3), .wire = (unsigned)key & 7};
	if (ret->wire == WIRE_NUMBER || ret->wire == WIRE_BYTES)
		r = get_number(data, len, at, &ret->value);
	if (ret->wire == WIRE_BYTES)
		skip = ret->value;
	else if (ret->wire == WIRE_4 || ret->wire == WIRE_8)
		skip = ret->wire == WIRE_4 ? 4 : 8;
	else if (ret->wire != WIRE_NUMBER)
		r = -EPROTO;
	if (r < 0 || skip > len - *at)
		return -EPROTO;
	*at += skip;
	ret->raw = data + from;
	ret->raw_len = *at - from;
	return 1;
}

const unsigned char *criu_image_bytes(const struct criu_field *f)
{
	return f->wire == WIRE_BYTES ? f->raw + (f->raw_len - f->value) : NULL;
}

static int put_number(struct buf *out, uint64_t value)
{
	unsigned char bytes[10];
	size_t n = 0;

	do
		bytes[n++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
	while ((value >>= 7) > 0);
	return buf_append(out, bytes, n);
}

int criu_image_put_number(struct buf *out, unsigned number, uint64_t value)
{
	int r = put_number(out, (uint64_t)number << 3 | WIRE_NUMBER);

	return r < 0 ? r : put_number(out, value);
}

int criu_image_put_bytes(struct buf *out, unsigned number, const void *data, size_t len)
{
	int r = put_number(out, (uint64_t)number << 3 | WIRE_BYTES);

	if (r >= 0)
		r = put_number(out, len);
	return r < 0 ? r : buf_append(out, data, len);
}

int criu_image_put_message(struct buf *out, const struct buf *message)
{
	const uint32_t len = htole32((uint32_t)message->len);
	int r = buf_append(out, &len, sizeof(len));

	return r < 0 ? r : buf_append(out, message->data, message->len);
}

int criu_image_read(int dir_fd, const char *name, struct buf *ret)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *room;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = st.st_size < CRIU_HEAD_SIZE || st.st_size > CRIU_IMAGE_MAX
	            ? -EPROTO
	            : buf_reserve(ret, (size_t)st.st_size, &room);
	if (r >= 0)
		r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r >= 0)
		buf_commit(ret, (size_t)st.st_size);
	return r < 0 ? r : 0;
}

int criu_image_message(const struct buf *image, size_t *at, const unsigned char **ret, size_t *len)
{
	uint32_t size;

	if (*at == image->len)
		return 0;
	if (image->len - *at < sizeof(size))
		return -EPROTO;
	memcpy(&size, image->data + *at, sizeof(size));
	*len = le32toh(size);
	*at += sizeof(size);
	if (*len > image->len - *at)
		return -EPROTO;
	*ret = (const unsigned char *)image->data + *at;
	*at += *len;
	return 1;
}
