// SPDX-License-Identifier: Apache-2.0
/*
 * mktar_read() first hands out what is pending of a header, then the file's bytes, then its
 * padding, and only then takes the next step of the walk. A file that changes its size meanwhile is
 * cut, or filled with zeros, at the size that its header has promised.
 */
#include "cli/copy/mktar.h"

#include "base/fs/walk.h"
#include "tar/tar.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

struct mktar {
	mktar_skip_fn skip;
	void *skip_arg;
	struct walk *walk;
	struct walk_entry at; /* where the walk stands */
	struct buf head;
	int file_fd;
	uint64_t file_left;
	size_t padding_left;
	bool is_over;
	bool keeps_owners;
	const struct ignore *ignore; /* or NULL */
};

int mktar_new(int dir_fd, mktar_skip_fn skip, void *arg, struct mktar **ret, struct err *err)
{
	auto_call(mktar_freep) struct mktar *m = xnew0(struct mktar);
	int r;

	m->skip = skip;
	m->skip_arg = arg;
	m->file_fd = -1;
	buf_init(&m->head, TAR_HEAD_MAX);
	r = walk_new(dir_fd, /* is_lenient= */ false, &m->walk, err);
	if (r < 0)
		return r;
	*ret = take_ptr(m);
	return 0;
}

void mktar_free(struct mktar *m)
{
	if (!m)
		return;
	walk_free(m->walk);
	if (m->file_fd >= 0)
		(void)close(m->file_fd);
	buf_done(&m->head);
	free(m);
}

static void skip_entry(const struct mktar *m, const char *why)
{
	if (m->skip)
		m->skip(m->at.path, why, m->skip_arg);
}

void mktar_keep_owners(struct mktar *m)
{
	m->keeps_owners = true;
}

void mktar_ignore(struct mktar *m, const struct ignore *ignore)
{
	m->ignore = ignore;
}

/* Without owners whoever unpacks it owns it. */
static int put_head(struct mktar *m, enum tar_kind kind, const char *target, const struct stat *st,
                    struct err *err)
{
	const struct tar_entry e = {
		.kind = kind,
		.path = m->at.path,
		.target = target,
		.mode = st->st_mode & (m->keeps_owners ? 07777 : 0777),
		.uid = m->keeps_owners ? st->st_uid : 0,
		.gid = m->keeps_owners ? st->st_gid : 0,
		.size = (uint64_t)st->st_size,
		.mtime_s = (uint64_t)MAX(st->st_mtim.tv_sec, (time_t)0),
	};
	int r = tar_put_head(&m->head, &e);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot describe '%.200s'", e.path) : 0;
}

static int add_file(struct mktar *m, struct err *err)
{
	auto_fd int fd =
		openat(m->at.dir_fd, m->at.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read '%.200s'", m->at.path);
	if (!S_ISREG(st.st_mode)) {
		skip_entry(m, "it changed while it was looked at");
		return 0;
	}
	r = put_head(m, TAR_FILE, NULL, &st, err);
	if (r < 0)
		return r;
	m->file_fd = take_fd(&fd);
	m->file_left = (uint64_t)st.st_size;
	m->padding_left = tar_padding(m->file_left);
	return 0;
}

static int add_link(struct mktar *m, struct err *err)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(m->at.dir_fd, m->at.name, target, sizeof(target) - 1);

	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the link '%.200s'",
		               m->at.path);
	target[n] = '\0';
	return put_head(m, TAR_SYMLINK, target, &m->at.st, err);
}

static int add_entry(struct mktar *m, struct err *err)
{
	mode_t mode = m->at.st.st_mode;

	if (m->at.is_leaving)
		return 0;
	if (ignore_has(m->ignore, m->at.path)) {
		if (S_ISDIR(mode) && !ignore_has_exceptions(m->ignore))
			walk_prune(m->walk);
		return 0;
	}
	if (S_ISREG(mode))
		return add_file(m, err);
	if (S_ISDIR(mode))
		return put_head(m, TAR_DIR, NULL, &m->at.st, err);
	if (S_ISLNK(mode))
		return add_link(m, err);
	skip_entry(m, "neither file, directory nor link");
	return 0;
}

static int next_entry(struct mktar *m, struct err *err)
{
	int r = walk_next(m->walk, &m->at, err);

	if (r < 0)
		return r;
	if (r > 0)
		return add_entry(m, err);
	m->is_over = true;
	r = tar_put_end(&m->head);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot close the archive") : 0;
}

static ssize_t read_file(struct mktar *m, char *data, size_t room, struct err *err)
{
	size_t want = (size_t)MIN((uint64_t)room, m->file_left);
	ssize_t n;

	do
		n = read(m->file_fd, data, want);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read '%.200s'", m->at.path);
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
		if (m->head.len > 0) {
			n = MIN(room, m->head.len);
			memcpy(data, m->head.data, n);
			buf_consume(&m->head, n);
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
