// SPDX-License-Identifier: Apache-2.0
/*
 * Of protobuf no more than this is needed: a message is a row of fields, each a number with a kind
 * of content, and what is not looked for is copied as it is.
 */
#include "engine/jail/memory_image.h"

#include "base/buf.h"
#include "base/fd.h"
#include "engine/jail/dir.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_SIZE   8           /* of an image: two words of magic */
#define IMAGE_MAX   (64 << 20)  /* of those that we look into; pages are not among them */
#define AGENT_FILE  0x7ffffff0U /* its number among the files; CRIU counts from 1 */
#define FILE_KIND   1           /* fields of file_entry */
#define FILE_ID     2
#define FILE_REG    3
#define KIND_REG    1
#define MM_EXE      12 /* of mm_entry: the number of the program's file */
#define WIRE_NUMBER 0
#define WIRE_8      1
#define WIRE_BYTES  2
#define WIRE_4      5

struct field {
	unsigned number, wire;
	uint64_t value; /* of a number; of bytes their length */
	const unsigned char *raw;
	size_t raw_len;
};

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

/* 1 and the next field, 0 at the end. */
static int next_field(const unsigned char *data, size_t len, size_t *at, struct field *ret)
{
	const size_t from = *at;
	uint64_t key, skip = 0;
	int r;

	if (*at == len)
		return 0;
	r = get_number(data, len, at, &key);
	if (r < 0)
		return r;
	*ret = (struct field){.number = (unsigned)(key >> 3), .wire = (unsigned)key & 7};
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

static int put_number(struct buf *out, uint64_t value)
{
	unsigned char bytes[10];
	size_t n = 0;

	do
		bytes[n++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
	while ((value >>= 7) > 0);
	return buf_append(out, bytes, n);
}

static int put_field(struct buf *out, unsigned number, uint64_t value)
{
	int r = put_number(out, (uint64_t)number << 3 | WIRE_NUMBER);

	return r < 0 ? r : put_number(out, value);
}

static int put_bytes(struct buf *out, unsigned number, const void *data, size_t len)
{
	int r = put_number(out, (uint64_t)number << 3 | WIRE_BYTES);

	if (r >= 0)
		r = put_number(out, len);
	return r < 0 ? r : buf_append(out, data, len);
}

static int put_message(struct buf *out, const struct buf *message)
{
	const uint32_t len = htole32((uint32_t)message->len);
	int r = buf_append(out, &len, sizeof(len));

	return r < 0 ? r : buf_append(out, message->data, message->len);
}

static int read_image(int dir_fd, const char *name, struct buf *ret)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *room;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	r = st.st_size < HEAD_SIZE || st.st_size > IMAGE_MAX
	            ? -EPROTO
	            : buf_reserve(ret, (size_t)st.st_size, &room);
	if (r >= 0)
		r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r >= 0)
		buf_commit(ret, (size_t)st.st_size);
	return r < 0 ? r : 0;
}

/* 1 and the next message of an image, 0 at the end. */
static int next_message(const struct buf *image, size_t *at, const unsigned char **ret, size_t *len)
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

static int write_image(int dir_fd, const char *name, const struct buf *image)
{
	/* CRIU's children read them as the copy's root; their directory is closed to all others. */
	return fd_replace_file(dir_fd, name, image->data, image->len, 0644, /* sync= */ false);
}

/* Is this number that of a regular file? */
static int is_regular(const struct buf *files, uint64_t id)
{
	const unsigned char *message;
	size_t at = HEAD_SIZE, len;
	int r;

	while ((r = next_message(files, &at, &message, &len)) > 0) {
		uint64_t kind = 0, number = 0;
		size_t in = 0;
		struct field f;

		while ((r = next_field(message, len, &in, &f)) > 0) {
			if (f.number == FILE_KIND)
				kind = f.value;
			else if (f.number == FILE_ID)
				number = f.value;
		}
		if (r < 0 || (kind == KIND_REG && number == id))
			return r < 0 ? r : 1;
	}
	return r;
}

/* In a copy of the message the program is another. */
static int change_exe(const unsigned char *message, size_t len, struct buf *out)
{
	size_t at = 0;
	struct field f;
	int r;

	while ((r = next_field(message, len, &at, &f)) > 0) {
		r = f.number == MM_EXE ? put_field(out, MM_EXE, AGENT_FILE)
		                       : buf_append(out, f.raw, f.raw_len);
		if (r < 0)
			return r;
	}
	return r;
}

static int find_exe(const unsigned char *message, size_t len, uint64_t *ret)
{
	size_t at = 0;
	struct field f;
	int r;

	*ret = 0;
	while ((r = next_field(message, len, &at, &f)) > 0)
		if (f.number == MM_EXE)
			*ret = f.value;
	return r;
}

struct repair {
	int dir_fd;
	struct buf files;
	uint64_t agent; /* the number of its program's file */
};

/* A process whose program is the agent's memfd gets the file from outside. */
static int repair_mm(const struct repair *repair, const char *name, struct err *err)
{
	auto_call(buf_done) struct buf image = BUF_INIT(IMAGE_MAX), changed = BUF_INIT(IMAGE_MAX),
				       out = BUF_INIT(IMAGE_MAX);
	const unsigned char *message = NULL;
	size_t at = HEAD_SIZE, len = 0;
	uint64_t exe = 0;
	int r = read_image(repair->dir_fd, name, &image);

	if (r == 0)
		r = next_message(&image, &at, &message, &len) == 1 ? 0 : -EPROTO;
	if (r == 0)
		r = find_exe(message, len, &exe);
	if (r == 0)
		r = exe == AGENT_FILE ? 1 : is_regular(&repair->files, exe);
	if (r == 1) /* as it should be, or put right when the directory was read before */
		return 0;
	if (r == 0 && exe != repair->agent) {
		(void)err_set(err, ERR_CONFLICT, ENOEXEC,
		              "a program runs that is in no file (memfd), which cannot be saved");
		return err_hint(err, "end it, or take a snapshot without memory");
	}
	if (r == 0)
		r = change_exe(message, len, &changed);
	if (r == 0)
		r = buf_append(&out, image.data, HEAD_SIZE);
	if (r >= 0)
		r = put_message(&out, &changed);
	if (r >= 0)
		r = write_image(repair->dir_fd, name, &out);
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot put image '%s' right", name)
	             : 0;
}

static int put_agent_file(struct buf *files)
{
	auto_call(buf_done) struct buf owner = BUF_INIT(64), reg = BUF_INIT(256),
				       entry = BUF_INIT(512);
	int r = 0;

	for (unsigned i = 1; r >= 0 && i <= 5; i++) /* fown_entry: nobody's */
		r = put_field(&owner, i, 0);
	if (r >= 0)
		r = put_field(&reg, 1, AGENT_FILE);
	if (r >= 0)
		r = put_field(&reg, 2, O_RDONLY);
	if (r >= 0)
		r = put_field(&reg, 3, 0);
	if (r >= 0)
		r = put_bytes(&reg, 5, owner.data, owner.len);
	if (r >= 0)
		r = put_bytes(&reg, 6, MEMORY_AGENT, strlen(MEMORY_AGENT));
	if (r >= 0)
		r = put_field(&reg, 9, 1); /* from outside */
	if (r >= 0)
		r = put_field(&entry, FILE_KIND, KIND_REG);
	if (r >= 0)
		r = put_field(&entry, FILE_ID, AGENT_FILE);
	if (r >= 0)
		r = put_bytes(&entry, FILE_REG, reg.data, reg.len);
	return r < 0 ? r : put_message(files, &entry);
}

static int read_agent_exe(struct repair *repair)
{
	auto_call(buf_done) struct buf image = BUF_INIT(IMAGE_MAX);
	const unsigned char *message = NULL;
	size_t at = HEAD_SIZE, len = 0;
	int r = read_image(repair->dir_fd, "mm-1.img", &image);

	if (r == 0)
		r = next_message(&image, &at, &message, &len) == 1 ? 0 : -EPROTO;
	return r < 0 ? r : find_exe(message, len, &repair->agent);
}

int memory_image_repair(int dir_fd, struct err *err)
{
	auto_dir struct dir_reader names = {.fd = -1};
	struct repair repair = {.dir_fd = dir_fd, .files = BUF_INIT(IMAGE_MAX)};
	const char *name;
	int r = read_image(dir_fd, "files.img", &repair.files);

	if (r == 0)
		r = read_agent_exe(&repair);
	if (r == 0)
		r = dir_open(&names, dir_fd, ".");
	if (r < 0)
		(void)err_set(err, ERR_INTERNAL, -r, "the images cannot be read");
	while (r == 0 && (name = dir_next(&names)))
		if (strncmp(name, "mm-", 3) == 0 && strlen(name) < 64)
			r = repair_mm(&repair, name, err);
	if (r == 0) {
		r = put_agent_file(&repair.files);
		if (r >= 0)
			r = write_image(dir_fd, "files.img", &repair.files);
		if (r < 0)
			(void)err_set(err, r == -ENOSPC ? ERR_DISK_FULL : ERR_INTERNAL, -r,
			              "cannot put the images right");
	}
	buf_done(&repair.files);
	return r;
}

/* The one image whose name begins so. */
static int find_image(int dir_fd, const char *prefix, char ret[64])
{
	auto_dir struct dir_reader names = {.fd = -1};
	const char *name;
	int r = dir_open(&names, dir_fd, ".");

	ret[0] = '\0';
	while (r == 0 && (name = dir_next(&names)))
		if (strncmp(name, prefix, strlen(prefix)) == 0)
			(void)snprintf(ret, 64, "%.63s", name);
	return r < 0 ? r : ret[0] ? 0 : -ENOENT;
}

static int replace_image(int dir_fd, int to_fd, const char *prefix, const struct buf *message)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4096), old = BUF_INIT(IMAGE_MAX);
	char name[64];
	int r = find_image(dir_fd, prefix, name);

	if (r == 0)
		r = read_image(dir_fd, name, &old);
	if (r == 0)
		r = buf_append(&out, old.data, HEAD_SIZE);
	if (r >= 0)
		r = put_message(&out, message);
	return r < 0 ? r : write_image(to_fd, name, &out);
}

static int adapt_ids(int dir_fd, int to_fd, uint32_t first_id, uint32_t n_ids)
{
	auto_call(buf_done) struct buf extent = BUF_INIT(64), message = BUF_INIT(256);
	int r = put_field(&extent, 1, 0);

	if (r >= 0)
		r = put_field(&extent, 2, first_id);
	if (r >= 0)
		r = put_field(&extent, 3, n_ids);
	for (unsigned i = 1; r >= 0 && i <= 2; i++) /* of users, of groups */
		r = put_bytes(&message, i, extent.data, extent.len);
	return r < 0 ? r : replace_image(dir_fd, to_fd, "userns-", &message);
}

static int adapt_names(int dir_fd, int to_fd, const char *hostname)
{
	auto_call(buf_done) struct buf message = BUF_INIT(256);
	int r = put_bytes(&message, 1, hostname, strlen(hostname));

	if (r >= 0)
		r = put_bytes(&message, 2, "(none)", strlen("(none)"));
	return r < 0 ? r : replace_image(dir_fd, to_fd, "utsns-", &message);
}

int memory_image_adapt(int dir_fd, int to_fd, uint32_t first_id, uint32_t n_ids,
                       const char *hostname, struct err *err)
{
	int r = adapt_ids(dir_fd, to_fd, first_id, n_ids);

	if (r >= 0)
		r = adapt_names(dir_fd, to_fd, hostname);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot make the copy's own images") : 0;
}
