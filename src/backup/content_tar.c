// SPDX-License-Identifier: Apache-2.0
/*
 * Content in one file: a tar that is appended to and gets its name when it is complete. For
 * reading, the places of its entries are found once. Only heads that we write (content.h) are
 * accepted.
 */
#include "backup/content_private.h"

#include "base/fd.h"
#include "tar/format.h"
#include "tar/tar.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PARTIAL "%s.partial"

static struct tar_place *find(const struct content *c, const char *path)
{
	struct tar_place *p = NULL;

	HASH_FIND_STR(c->places, path, p);
	return p;
}

static void add_place(struct content *c, const char *path, uint64_t at, uint64_t len)
{
	struct tar_place *p;

	if (find(c, path))
		return;
	p = xnew0(struct tar_place);
	(void)snprintf(p->path, sizeof(p->path), "%s", path);
	p->at = at;
	p->len = len;
	HASH_ADD_STR(c->places, path, p);
}

static int has(const struct content *c, const char *path)
{
	return find(c, path) != NULL;
}

static int add(struct content *c, const char *path, const void *data, size_t len, struct err *err)
{
	static const char zeros[TAR_BLOCK];
	const struct tar_entry entry = {.kind = TAR_FILE, .path = path, .mode = 0600, .size = len};
	auto_call(buf_done) struct buf head = BUF_INIT(TAR_HEAD_MAX);
	int r = tar_put_head(&head, &entry);

	if (r == 0)
		r = fd_write_all(c->fd, head.data, head.len);
	if (r == 0)
		r = fd_write_all(c->fd, data, len);
	if (r == 0)
		r = fd_write_all(c->fd, zeros, tar_padding(len));
	if (r < 0)
		return content_failed(c, -r, "write to", err);
	add_place(c, path, c->end + head.len, len);
	c->end += head.len + len + tar_padding(len);
	return 0;
}

static int read_entry(struct content *c, const char *path, struct buf *out, struct err *err)
{
	const struct tar_place *p = find(c, path);
	char *room;
	int r = !p ? -ENOENT : buf_reserve(out, p->len, &room);

	for (size_t done = 0; r == 0 && done < p->len;) {
		ssize_t n = pread(c->fd, room + done, p->len - done, (off_t)(p->at + done));

		if (n <= 0)
			r = n < 0 ? -errno : -ENODATA;
		else
			done += (size_t)n;
	}
	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r,
		               "the backup '%s' is damaged: '%s' is missing", c->path, path);
	buf_commit(out, p->len);
	return 0;
}

static int commit(struct content *c, const char *path, const void *data, size_t len,
                  struct err *err)
{
	auto_free char *partial = xasprintf(PARTIAL, c->path);
	auto_call(buf_done) struct buf end = BUF_INIT(2 * TAR_BLOCK);
	int r = add(c, path, data, len, err);

	if (r == 0)
		r = tar_put_end(&end);
	if (r == 0)
		r = fd_write_all(c->fd, end.data, end.len);
	if (r == 0 && fsync(c->fd) < 0)
		r = -errno;
	if (r == 0 && renameat2(AT_FDCWD, partial, AT_FDCWD, c->path, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r < 0)
		return content_failed(c, -r, "finish the backup", err);
	c->is_new = false;
	return 0;
}

static int list(struct content *c, void (*fn)(const char *name, void *arg), void *arg,
                struct err *err)
{
	(void)err;
	for (const struct tar_place *p = c->places; p; p = p->hh.next)
		if (strncmp(p->path, "backups/", 8) == 0)
			fn(p->path + 8, arg);
	return 0;
}

static void close_tar(struct content *c)
{
	auto_free char *partial = xasprintf(PARTIAL, c->path);
	struct tar_place *p, *next;

	if (c->is_new && c->fd >= 0)
		(void)unlink(partial);
	if (c->fd >= 0)
		(void)close(c->fd);
	HASH_ITER (hh, c->places, p, next) {
		HASH_DEL(c->places, p);
		free(p);
	}
}

const struct content_ops content_tar = {.has = has,
                                        .add = add,
                                        .read = read_entry,
                                        .commit = commit,
                                        .list = list,
                                        .close = close_tar};

static int refuse(const struct content *c, const char *why, struct err *err)
{
	return err_set(err, ERR_FILE_INVALID, 0, "'%s' is no whole backup: %s", c->path, why);
}

static bool parse_octal(const char *field, size_t size, uint64_t *ret)
{
	*ret = 0;
	for (size_t i = 0; i < size && field[i] != '\0' && field[i] != ' '; i++) {
		if (field[i] < '0' || field[i] > '7')
			return false;
		*ret = *ret * 8 + (uint64_t)(field[i] - '0');
	}
	return true;
}

/* Returns 1 for another entry, 0 at the end. */
static int read_head(struct content *c, uint64_t *at, struct err *err)
{
	struct tar_head head;
	char path[sizeof(head.name) + 1];
	uint64_t len;

	if (pread(c->fd, &head, sizeof(head), (off_t)*at) != sizeof(head))
		return refuse(c, "it was cut", err);
	if (head.name[0] == '\0')
		return 0;
	(void)snprintf(path, sizeof(path), "%.*s", (int)sizeof(head.name), head.name);
	if (memcmp(head.magic, "ustar", 5) != 0 || head.type != '0' ||
	    !parse_octal(head.size, sizeof(head.size), &len))
		return refuse(c, "it holds something else", err);
	*at += sizeof(head);
	add_place(c, path, *at, len);
	*at += len + tar_padding(len);
	return 1;
}

static int open_new(struct content *c, struct err *err)
{
	auto_free char *partial = xasprintf(PARTIAL, c->path);

	if (access(c->path, F_OK) == 0) {
		(void)err_set(err, ERR_CONFLICT, EEXIST, "'%s' exists", c->path);
		return err_hint(err,
		                "choose another name, or a directory, which holds any number of "
		                "backups");
	}
	c->fd = open(partial, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	c->is_new = true;
	return c->fd < 0 ? content_failed(c, errno, "make", err) : 0;
}

int content_tar_open(struct content *c, bool is_new, struct err *err)
{
	uint64_t at = 0;
	int r;

	c->ops = &content_tar;
	if (is_new)
		return open_new(c, err);
	c->fd = open(c->path, O_RDONLY | O_CLOEXEC);
	if (c->fd < 0)
		return content_failed(c, errno, "open", err);
	while ((r = read_head(c, &at, err)) == 1)
		;
	return r;
}
