// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: a depth-first walk that holds one open directory a level, and at most one
 * open file. mktar_read() first hands out what is pending of a header, then the file's bytes, then
 * its padding, and only then looks for the next entry. A file that changes its size meanwhile is
 * cut, or filled with zeros, at the size that its header has promised.
 */
#include "cli/mktar.h"

#include "base/buf.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BLOCK      512
#define PATH_BYTES 4096
#define DEPTH_MAX  128 /* each level is an open directory */
#define HEADER_MAX (8 * BLOCK + 2 * PATH_BYTES)
#define SIZE_OCTAL UINT64_C(077777777777) /* the most that a size field holds */

#define ENTRIES_MAX (16 * 1024) /* of a directory, read at once */

struct level {
	int fd;
	size_t path_len; /* of its name in path, without the slash */
	char *entries;   /* as getdents64 has filled it */
	size_t at, len;
};

/* As the kernel writes them (getdents64(2)). */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t record_len;
	uint8_t type;
	char name[];
};

struct mktar {
	mktar_skip_fn skip;
	void *skip_arg;
	struct level levels[DEPTH_MAX];
	size_t depth;
	char path[PATH_BYTES]; /* the current entry */
	struct buf header;
	int file_fd;
	uint64_t file_left;
	size_t padding_left;
	bool is_over;
};

static int push_dir(struct mktar *m, int fd, size_t path_len, struct err *err)
{
	if (m->depth == DEPTH_MAX)
		return err_set(err, ERR_FILE_INVALID, 0, "'%s' is nested deeper than %d levels",
		               m->path, DEPTH_MAX);
	m->levels[m->depth++] =
		(struct level){.fd = fd, .path_len = path_len, .entries = xcalloc(1, ENTRIES_MAX)};
	return 0;
}

static void pop_dir(struct mktar *m)
{
	struct level *level = &m->levels[--m->depth];

	(void)close(level->fd);
	free(level->entries);
}

int mktar_new(int dir_fd, mktar_skip_fn skip, void *arg, struct mktar **ret, struct err *err)
{
	auto_call(mktar_freep) struct mktar *m = xnew0(struct mktar);
	int r;

	m->skip = skip;
	m->skip_arg = arg;
	m->file_fd = -1;
	buf_init(&m->header, HEADER_MAX);
	r = push_dir(m, dir_fd, 0, err);
	if (r < 0)
		return r;
	*ret = take_ptr(m);
	return 0;
}

void mktar_free(struct mktar *m)
{
	if (!m)
		return;
	while (m->depth > 0)
		pop_dir(m);
	if (m->file_fd >= 0)
		(void)close(m->file_fd);
	buf_done(&m->header);
	free(m);
}

static void skip_entry(struct mktar *m, const char *why)
{
	if (m->skip)
		m->skip(m->path, why, m->skip_arg);
}

/* As many digits as fit before the NUL. */
static void put_octal(char *field, size_t size, uint64_t value)
{
	field[--size] = '\0';
	while (size > 0) {
		field[--size] = (char)('0' + (value & 7));
		value >>= 3;
	}
}

/* name and target are cut to their fields: a longer one stands in a pax record before. */
static int put_block(struct mktar *m, char type, const char *name, const char *target,
                     const struct stat *st, uint64_t size)
{
	char h[BLOCK] = {0};
	unsigned sum = 0;

	memcpy(h, name, strnlen(name, 100));
	put_octal(h + 100, 8, st->st_mode & 0777);
	put_octal(h + 108, 8, 0); /* whoever unpacks it owns it */
	put_octal(h + 116, 8, 0);
	put_octal(h + 124, 12, MIN(size, SIZE_OCTAL));
	put_octal(h + 136, 12, st->st_mtime > 0 ? (uint64_t)st->st_mtime & SIZE_OCTAL : 0);
	memset(h + 148, ' ', 8);
	h[156] = type;
	memcpy(h + 157, target, strnlen(target, 100));
	memcpy(h + 257, "ustar\00000", 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	put_octal(h + 148, 7, sum);
	return buf_append(&m->header, h, BLOCK);
}

static int put_record(struct buf *records, const char *key, const char *value)
{
	size_t body = strlen(key) + strlen(value) + 3; /* ' ', '=', '\n' */
	size_t len = body;
	char digits[24];

	/* The length counts its own digits: look for the number that agrees with itself. */
	for (;;) {
		size_t with = body + (size_t)snprintf(digits, sizeof(digits), "%zu", len);

		if (with == len)
			break;
		len = with;
	}
	return buf_printf(records, "%zu %s=%s\n", len, key, value);
}

static int put_pax(struct mktar *m, const char *name, const char *target, const struct stat *st,
                   uint64_t size)
{
	static const char zeros[BLOCK];
	struct buf records = BUF_INIT(HEADER_MAX);
	char text[24];
	int r = 0;

	(void)snprintf(text, sizeof(text), "%" PRIu64, size);
	if (strlen(name) > 100)
		r = put_record(&records, "path", name);
	if (r == 0 && strlen(target) > 100)
		r = put_record(&records, "linkpath", target);
	if (r == 0 && size > SIZE_OCTAL)
		r = put_record(&records, "size", text);
	if (r == 0 && records.len > 0) {
		r = put_block(m, 'x', "pax", "", st, records.len);
		if (r == 0)
			r = buf_append(&m->header, records.data, records.len);
		if (r == 0)
			r = buf_append(&m->header, zeros, -records.len & (BLOCK - 1));
	}
	buf_done(&records);
	return r;
}

static int put_header(struct mktar *m, char type, const char *target, const struct stat *st,
                      uint64_t size, struct err *err)
{
	int r = put_pax(m, m->path, target, st, size);

	if (r == 0)
		r = put_block(m, type, m->path, target, st, size);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot describe '%s'", m->path) : 0;
}

static int add_file(struct mktar *m, int dir_fd, const char *leaf, struct err *err)
{
	auto_fd int fd = openat(dir_fd, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read '%s'", m->path);
	if (!S_ISREG(st.st_mode)) {
		skip_entry(m, "it changed while it was looked at");
		return 0;
	}
	r = put_header(m, '0', "", &st, (uint64_t)st.st_size, err);
	if (r < 0)
		return r;
	m->file_fd = take_fd(&fd);
	m->file_left = (uint64_t)st.st_size;
	m->padding_left = (size_t)(-m->file_left & (BLOCK - 1));
	return 0;
}

static int add_dir(struct mktar *m, int dir_fd, const char *leaf, const struct stat *st,
                   struct err *err)
{
	size_t len = strlen(m->path);
	int fd = openat(dir_fd, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the directory '%s'", m->path);
	r = put_header(m, '5', "", st, 0, err);
	if (r == 0)
		r = push_dir(m, fd, len, err);
	if (r < 0)
		(void)close(fd);
	return r;
}

static int add_link(struct mktar *m, int dir_fd, const char *leaf, const struct stat *st,
                    struct err *err)
{
	char target[PATH_BYTES];
	ssize_t n = readlinkat(dir_fd, leaf, target, sizeof(target) - 1);

	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the link '%s'", m->path);
	target[n] = '\0';
	return put_header(m, '2', target, st, 0, err);
}

static int add_entry(struct mktar *m, const struct level *level, const char *leaf, struct err *err)
{
	int dir_fd = level->fd;
	struct stat st;
	int len = snprintf(m->path + level->path_len, sizeof(m->path) - level->path_len, "%s%s",
	                   level->path_len ? "/" : "", leaf);

	if ((size_t)len >= sizeof(m->path) - level->path_len)
		return err_set(err, ERR_FILE_INVALID, ENAMETOOLONG, "cannot pack '%s'", leaf);
	if (fstatat(dir_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot look at '%s'", m->path);
	if (S_ISREG(st.st_mode))
		return add_file(m, dir_fd, leaf, err);
	if (S_ISDIR(st.st_mode))
		return add_dir(m, dir_fd, leaf, &st, err);
	if (S_ISLNK(st.st_mode))
		return add_link(m, dir_fd, leaf, &st, err);
	skip_entry(m, "neither file, directory nor link");
	return 0;
}

/* Two empty blocks close an archive. */
static int put_end(struct mktar *m, struct err *err)
{
	static const char zeros[2 * BLOCK];

	m->is_over = true;
	if (buf_append(&m->header, zeros, sizeof(zeros)) < 0)
		return err_set(err, ERR_INTERNAL, 0, "cannot close the archive");
	return 0;
}

/* 1: *ret is the next name in the directory; 0: there is none left. */
static int next_name(struct level *level, const char **ret)
{
	const struct entry *e;

	if (level->at == level->len) {
		long n = syscall(SYS_getdents64, level->fd, level->entries, ENTRIES_MAX);

		if (n <= 0)
			return n < 0 ? -errno : 0;
		level->at = 0;
		level->len = (size_t)n;
	}
	e = (const struct entry *)(const void *)(level->entries + level->at);
	level->at += e->record_len;
	*ret = e->name;
	return 1;
}

static int next_entry(struct mktar *m, struct err *err)
{
	while (m->depth > 0) {
		struct level *level = &m->levels[m->depth - 1];
		const char *name = NULL;
		int r = next_name(level, &name);

		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot read a directory");
		if (r == 0)
			pop_dir(m);
		else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
			return add_entry(m, level, name, err);
	}
	return put_end(m, err);
}

static ssize_t read_file(struct mktar *m, char *data, size_t room, struct err *err)
{
	size_t want = (size_t)MIN((uint64_t)room, m->file_left);
	ssize_t n;

	do
		n = read(m->file_fd, data, want);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read '%s'", m->path);
	if (n == 0) { /* it shrank: keep the promise of its header */
		memset(data, 0, want);
		n = (ssize_t)want;
	}
	m->file_left -= (uint64_t)n;
	return n;
}

ssize_t mktar_read(struct mktar *m, void *data, size_t room, struct err *err)
{
	size_t n;
	int r;

	for (;;) {
		if (m->header.len > 0) {
			n = MIN(room, m->header.len);
			memcpy(data, m->header.data, n);
			buf_consume(&m->header, n);
			return (ssize_t)n;
		}
		if (m->file_left > 0)
			return read_file(m, data, room, err);
		if (m->file_fd >= 0)
			(void)close(take_fd(&m->file_fd));
		if (m->padding_left > 0) {
			n = MIN(room, m->padding_left);
			memset(data, 0, n);
			m->padding_left -= n;
			return (ssize_t)n;
		}
		if (m->is_over)
			return 0;
		r = next_entry(m, err);
		if (r < 0)
			return r;
	}
}
