// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/memory_image.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "criu/mapping_marks.h"
#include "engine/jail/memory/criu_image.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define AGENT_FILE     0x7ffffff0U /* its number among the files; CRIU counts from 1 */
#define FILE_KIND      1           /* fields of file_entry */
#define FILE_ID        2
#define FILE_REG       3
#define KIND_REG       1
#define MM_EXE         12 /* fields of mm_entry: the number of the program's file */
#define MM_MAPPING     14
#define MAPPING_FLAGS  6 /* fields of vma_entry: of mmap() */
#define MAPPING_ADVICE 9

static int write_image(int dir_fd, const char *name, const struct buf *image)
{
	/* CRIU's children read them as the copy's root; nobody else can enter their directory. */
	return fd_replace_file(dir_fd, name, image->data, image->len, 0644, /* sync= */ false);
}

/* Whether this is the number of a regular file. */
static int is_regular(const struct buf *files, uint64_t id)
{
	const unsigned char *message;
	size_t at = CRIU_HEAD_SIZE, len;
	int r;

	while ((r = criu_image_message(files, &at, &message, &len)) > 0) {
		uint64_t kind = 0, number = 0;
		size_t in = 0;
		struct criu_field f;

		while ((r = criu_image_field(message, len, &in, &f)) > 0) {
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

struct mapping {
	uint64_t flags, advice;
};

static int read_mapping(const unsigned char *message, size_t len, struct mapping *ret)
{
	size_t at = 0;
	struct criu_field f;
	int r;

	*ret = (struct mapping){0};
	while ((r = criu_image_field(message, len, &at, &f)) > 0) {
		if (f.number == MAPPING_FLAGS)
			ret->flags = f.value;
		else if (f.number == MAPPING_ADVICE)
			ret->advice = f.value;
	}
	return r;
}

/* Copies a mapping, with what its marks stand for (mapping_marks.h). */
static int put_mapping(const unsigned char *message, size_t len, struct buf *out)
{
	struct mapping m;
	size_t at = 0;
	struct criu_field f;
	int r = read_mapping(message, len, &m);

	if (r < 0)
		return r;
	if ((m.advice & MARK_DROPPABLE) == MARK_DROPPABLE) {
		m.advice &= ~MARK_DROPPABLE;
		m.flags = (m.flags & ~(uint64_t)MAP_TYPE) | MAP_DROPPABLE;
	}
	if ((m.advice & MARK_WIPED) == MARK_WIPED)
		m.advice = (m.advice & ~MARK_WIPED) | ADVICE(MADV_WIPEONFORK);
	while ((r = criu_image_field(message, len, &at, &f)) > 0) {
		if (f.number == MAPPING_FLAGS)
			r = criu_image_put_number(out, MAPPING_FLAGS, m.flags);
		else if (f.number == MAPPING_ADVICE)
			r = criu_image_put_number(out, MAPPING_ADVICE, m.advice);
		else
			r = buf_append(out, f.raw, f.raw_len);
		if (r < 0)
			return r;
	}
	return r;
}

/* Copies the message of a process with its mappings put right; exe is its program. */
static int put_mm(const unsigned char *message, size_t len, uint64_t exe, struct buf *out)
{
	auto_call(buf_done) struct buf mapping = BUF_INIT(CRIU_IMAGE_MAX);
	size_t at = 0;
	struct criu_field f;
	int r;

	while ((r = criu_image_field(message, len, &at, &f)) > 0) {
		if (f.number == MM_EXE) {
			r = criu_image_put_number(out, MM_EXE, exe);
		} else if (f.number == MM_MAPPING && criu_image_bytes(&f)) {
			buf_truncate(&mapping, 0);
			r = put_mapping(criu_image_bytes(&f), (size_t)f.value, &mapping);
			if (r >= 0)
				r = criu_image_put_bytes(out, MM_MAPPING, mapping.data,
				                         mapping.len);
		} else {
			r = buf_append(out, f.raw, f.raw_len);
		}
		if (r < 0)
			return r;
	}
	return r;
}

static int find_exe(const unsigned char *message, size_t len, uint64_t *ret)
{
	size_t at = 0;
	struct criu_field f;
	int r;

	*ret = 0;
	while ((r = criu_image_field(message, len, &at, &f)) > 0)
		if (f.number == MM_EXE)
			*ret = f.value;
	return r;
}

struct repair {
	int dir_fd;
	struct buf files;
	uint64_t agent; /* the number of its program's file */
};

/* Makes a process whose program is the agent's memfd take the external file instead, and gives
 * mappings back what CRIU does not save. */
static int repair_mm(const struct repair *repair, const char *name, struct err *err)
{
	auto_call(buf_done) struct buf image = BUF_INIT(CRIU_IMAGE_MAX),
				       changed = BUF_INIT(CRIU_IMAGE_MAX),
				       out = BUF_INIT(CRIU_IMAGE_MAX);
	const unsigned char *message = NULL;
	size_t at = CRIU_HEAD_SIZE, len = 0;
	uint64_t exe = 0;
	int r = criu_image_read(repair->dir_fd, name, &image);

	if (r == 0)
		r = criu_image_message(&image, &at, &message, &len) == 1 ? 0 : -EPROTO;
	if (r == 0)
		r = find_exe(message, len, &exe);
	if (r == 0)
		r = exe == AGENT_FILE ? 1 : is_regular(&repair->files, exe);
	if (r == 0 && exe != repair->agent) {
		(void)err_set(err, ERR_CONFLICT, ENOEXEC,
		              "a program runs that is in no file (memfd), which cannot be saved");
		return err_hint(err, "end it, or take a snapshot without memory");
	}
	if (r >= 0) /* 1: as it should be, or put right when the directory was read before */
		r = put_mm(message, len, r == 1 ? exe : AGENT_FILE, &changed);
	if (r >= 0 && changed.len == len && memcmp(changed.data, message, len) == 0)
		return 0;
	if (r >= 0)
		r = buf_append(&out, image.data, CRIU_HEAD_SIZE);
	if (r >= 0)
		r = criu_image_put_message(&out, &changed);
	if (r >= 0)
		r = write_image(repair->dir_fd, name, &out);
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot put image '%s' right", name)
	             : 0;
}

static int put_agent_file(struct buf *files)
{
	auto_call(buf_done) struct buf owner = BUF_INIT(64), reg = BUF_INIT(256),
				       entry = BUF_INIT(512);
	int r = 0;

	for (unsigned i = 1; r >= 0 && i <= 5; i++) /* fown_entry: nobody's */
		r = criu_image_put_number(&owner, i, 0);
	if (r >= 0)
		r = criu_image_put_number(&reg, 1, AGENT_FILE);
	if (r >= 0)
		r = criu_image_put_number(&reg, 2, O_RDONLY);
	if (r >= 0)
		r = criu_image_put_number(&reg, 3, 0);
	if (r >= 0)
		r = criu_image_put_bytes(&reg, 5, owner.data, owner.len);
	if (r >= 0)
		r = criu_image_put_bytes(&reg, 6, MEMORY_AGENT, strlen(MEMORY_AGENT));
	if (r >= 0)
		r = criu_image_put_number(&reg, 9, 1); /* from outside */
	if (r >= 0)
		r = criu_image_put_number(&entry, FILE_KIND, KIND_REG);
	if (r >= 0)
		r = criu_image_put_number(&entry, FILE_ID, AGENT_FILE);
	if (r >= 0)
		r = criu_image_put_bytes(&entry, FILE_REG, reg.data, reg.len);
	return r < 0 ? r : criu_image_put_message(files, &entry);
}

static int read_agent_exe(struct repair *repair)
{
	auto_call(buf_done) struct buf image = BUF_INIT(CRIU_IMAGE_MAX);
	const unsigned char *message = NULL;
	size_t at = CRIU_HEAD_SIZE, len = 0;
	int r = criu_image_read(repair->dir_fd, "mm-1.img", &image);

	if (r == 0)
		r = criu_image_message(&image, &at, &message, &len) == 1 ? 0 : -EPROTO;
	return r < 0 ? r : find_exe(message, len, &repair->agent);
}

int memory_image_repair(int dir_fd, struct err *err)
{
	auto_dir struct dir_reader names = {.fd = -1};
	struct repair repair = {.dir_fd = dir_fd, .files = BUF_INIT(CRIU_IMAGE_MAX)};
	const char *name;
	int r = criu_image_read(dir_fd, "files.img", &repair.files);

	if (r == 0)
		r = read_agent_exe(&repair);
	if (r == 0)
		r = dir_open(&names, dir_fd, ".");
	if (r < 0)
		(void)err_set(err, ERR_INTERNAL, -r, "the images cannot be read");
	while (r == 0 && (name = dir_next(&names)))
		if (strncmp(name, "mm-", 3) == 0 && strlen(name) < 64)
			r = repair_mm(&repair, name, err);
	if (r == 0 && names.error < 0)
		r = err_set(err, ERR_INTERNAL, -names.error, "the images cannot be listed");
	if (r == 0) {
		r = put_agent_file(&repair.files);
		if (r >= 0)
			r = write_image(dir_fd, "files.img", &repair.files);
		if (r < 0)
			(void)err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
			              "cannot put the images right");
	}
	buf_done(&repair.files);
	return r;
}

/* The image whose name has this prefix. */
static int find_image(int dir_fd, const char *prefix, char ret[64])
{
	auto_dir struct dir_reader names = {.fd = -1};
	const char *name;
	int r = dir_open(&names, dir_fd, ".");

	ret[0] = '\0';
	while (r == 0 && (name = dir_next(&names)))
		if (strncmp(name, prefix, strlen(prefix)) == 0)
			(void)snprintf(ret, 64, "%.63s", name);
	if (r == 0)
		r = names.error;
	return r < 0 ? r : ret[0] ? 0 : -ENOENT;
}

static int replace_image(int dir_fd, int to_fd, const char *prefix, const struct buf *message)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4096), old = BUF_INIT(CRIU_IMAGE_MAX);
	char name[64];
	int r = find_image(dir_fd, prefix, name);

	if (r == 0)
		r = criu_image_read(dir_fd, name, &old);
	if (r == 0)
		r = buf_append(&out, old.data, CRIU_HEAD_SIZE);
	if (r >= 0)
		r = criu_image_put_message(&out, message);
	return r < 0 ? r : write_image(to_fd, name, &out);
}

static int adapt_ids(int dir_fd, int to_fd, uint32_t first_id, uint32_t n_ids)
{
	auto_call(buf_done) struct buf extent = BUF_INIT(64), message = BUF_INIT(256);
	int r = criu_image_put_number(&extent, 1, 0);

	if (r >= 0)
		r = criu_image_put_number(&extent, 2, first_id);
	if (r >= 0)
		r = criu_image_put_number(&extent, 3, n_ids);
	for (unsigned i = 1; r >= 0 && i <= 2; i++) /* of users, of groups */
		r = criu_image_put_bytes(&message, i, extent.data, extent.len);
	return r < 0 ? r : replace_image(dir_fd, to_fd, "userns-", &message);
}

static int adapt_names(int dir_fd, int to_fd, const char *hostname)
{
	auto_call(buf_done) struct buf message = BUF_INIT(256);
	int r = criu_image_put_bytes(&message, 1, hostname, strlen(hostname));

	if (r >= 0)
		r = criu_image_put_bytes(&message, 2, "(none)", strlen("(none)"));
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
