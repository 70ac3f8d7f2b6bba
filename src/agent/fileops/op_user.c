// SPDX-License-Identifier: Apache-2.0
/*
 * A further name of the sandbox's default user, for programs that were written where it is called
 * otherwise. This is one operation, as op_trust.c is, because a create waits for it.
 *
 * The files are the guest's to fill, so their size is bounded. passwd is written last: a group
 * without its user harms nobody, and whoever does this again finds nothing done.
 */
#include "agent/fileops/files.h"
#include "base/fd.h"

#include <stdio.h>
#include <string.h>

#define TABLE_MAX ((size_t)1024 * 1024)

/* Empty where there is none. */
static int read_table(const char *path, struct buf *ret, struct err *err)
{
	auto_fd int fd = -1;
	struct stat st;
	int r = files_open(path, &fd, &st, err);

	if (r == -ENOENT)
		return 0;
	if (r == 0 && (r = files_read_all(fd, ret)) < 0)
		return result_error(err, -r, "cannot read", path);
	return r;
}

/* It goes into lines of fields. */
static bool is_field(const char *text)
{
	return text[0] != '\0' && !strpbrk(text, ":,\n");
}

int op_user(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(buf_done) struct buf passwd = BUF_INIT(TABLE_MAX), group = BUF_INIT(TABLE_MAX);
	char paths[2][START_PATH_MAX + 8];
	struct start put = {.flags = 0};
	size_t before;
	int r;

	if (!is_field(s->owner) || !is_field(s->path2))
		return err_set(err, ERR_INVALID_FIELD, EINVAL, "owner, path2: must be fields");
	(void)snprintf(paths[0], sizeof(paths[0]), "%s/group", s->path);
	(void)snprintf(paths[1], sizeof(paths[1]), "%s/passwd", s->path);
	r = read_table(paths[0], &group, err);
	if (r == 0)
		r = read_table(paths[1], &passwd, err);
	before = passwd.len;
	if (r == 0 && (r = names_add(&passwd, &group, s->owner, s->path2)) < 0)
		r = result_error(err, -r, "cannot name the default user in", s->path);
	if (r < 0 || passwd.len == before)
		return r;
	put.path = paths[0];
	r = files_put(&put, group.data, group.len, err);
	put.path = paths[1];
	return r < 0 ? r : files_put(&put, passwd.data, passwd.len, err);
}
