// SPDX-License-Identifier: Apache-2.0
#include "agent/fileops/files.h"

#include "agent/fileops/place.h"
#include "agent/users/become.h"
#include "agent/users/report.h"
#include "base/fd.h"

#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define RECORD_FD 2

int files_send_record(const struct record *record, struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(RECORD_MAX);
	int r = record_encode(record, &out);

	if (r >= 0)
		r = fd_write_all(RECORD_FD, out.data, out.len);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot pass a record on") : 0;
}

bool files_drop_block(struct buf *b, const char *begin, const char *end)
{
	char *at = b->len > 0 ? memmem(b->data, b->len, begin, strlen(begin)) : NULL;
	char *last = at ? memmem(at, b->len - (size_t)(at - b->data), end, strlen(end)) : NULL;

	if (!last)
		return false;
	last += strlen(end);
	memmove(at, last, b->len - (size_t)(last - b->data));
	buf_truncate(b, b->len - (size_t)(last - at));
	return true;
}

uint64_t files_mtime_us(const struct stat *st)
{
	if (st->st_mtim.tv_sec < 0)
		return 0;
	return (uint64_t)st->st_mtim.tv_sec * 1000000 + (uint64_t)st->st_mtim.tv_nsec / 1000;
}

int files_send_entry(struct file_call *call, const char *path, const struct stat *st,
                     const char *target, struct err *err)
{
	char user[START_NAME_MAX] = "", group[START_NAME_MAX] = "";
	struct record r = {.kind = RECORD_ENTRY,
	                   .path = unconst(path),
	                   .path2 = unconst(target),
	                   .mode = st->st_mode,
	                   .uid = st->st_uid,
	                   .gid = st->st_gid,
	                   .user = user,
	                   .group = group,
	                   .size = (uint64_t)st->st_size,
	                   .inode = st->st_ino,
	                   .links = st->st_nlink,
	                   .mtime_us = files_mtime_us(st)};

	if (!call->names)
		call->names = names_new();
	names_user(call->names, st->st_uid, user, sizeof(user));
	names_group(call->names, st->st_gid, group, sizeof(group));
	if (call->start->flags & FILE_WHOLE)
		return whole_send(call, path, &r, err);
	return files_send_record(&r, err);
}

static int op_stat(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	char target[PATH_MAX] = "";
	struct stat st;
	ssize_t n;

	if (fstatat(AT_FDCWD, s->path, &st, s->flags & FILE_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return result_error(err, errno, "cannot stat", s->path);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(s->path, target, sizeof(target) - 1);
		if (n < 0)
			return result_error(err, errno, "cannot read the link", s->path);
		target[n] = '\0';
	}
	return files_send_entry(call, s->path, &st, target, err);
}

static int op_mkdir(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(place_done) struct place place = PLACE_INIT;
	mode_t mode = s->flags & FILE_MODE ? s->mode : 0777;
	struct stat st;
	int r = place_find(s->path, s->flags & FILE_PARENTS, &place, err);

	if (r < 0)
		return r;
	if (mkdirat(place.dir_fd, place.name, mode) < 0) {
		int errnum = errno;

		/* With parents, as mkdir -p: a directory that is there is fine. */
		if (errnum == EEXIST && s->flags & FILE_PARENTS && !(s->flags & FILE_EXCLUSIVE) &&
		    fstatat(place.dir_fd, place.name, &st, 0) == 0 && S_ISDIR(st.st_mode))
			return 0;
		return result_error(err, errnum, "cannot make the directory", s->path);
	}
	if (s->flags & FILE_MODE && fchmodat(place.dir_fd, place.name, mode, 0) < 0)
		return result_error(err, errno, "cannot set the mode of", s->path);
	return 0;
}

static int op_chmod(struct file_call *call, struct err *err)
{
	if (chmod(call->start->path, call->start->mode) < 0)
		return result_error(err, errno, "cannot change the mode of", call->start->path);
	return 0;
}

static int op_chown(struct file_call *call, struct err *err)
{
	uid_t uid;
	gid_t gid;
	int r = identity_parse_owner(call->start->owner, &uid, &gid, err);

	if (r < 0)
		return r;
	if (lchown(call->start->path, uid, gid) < 0)
		return result_error(err, errno, "cannot change the owner of", call->start->path);
	return 0;
}

static int op_symlink(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_call(place_done) struct place place = PLACE_INIT;
	int r = place_find(s->path, s->flags & FILE_PARENTS, &place, err);

	if (r < 0)
		return r;
	if (symlinkat(s->path2, place.dir_fd, place.name) < 0)
		return result_error(err, errno, "cannot make the link", s->path);
	return 0;
}

/* What is at the path that was made or moved to. */
static int tell_outcome(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	const char *path = s->op == FILE_MOVE ? s->path2 : s->path;
	struct stat st;

	if (!(s->flags & FILE_WHOLE) || (s->op != FILE_MKDIR && s->op != FILE_MOVE))
		return 0;
	if (lstat(path, &st) < 0)
		return result_error(err, errno, "cannot stat", path);
	return files_send_entry(call, path, &st, NULL, err);
}

static int (*const ops[])(struct file_call *call, struct err *err) = {
	[FILE_READ] = op_read,           [FILE_WRITE] = op_write,
	[FILE_STAT] = op_stat,           [FILE_LIST] = op_list,
	[FILE_MKDIR] = op_mkdir,         [FILE_MOVE] = op_move,
	[FILE_COPY] = op_copy,           [FILE_REMOVE] = op_remove,
	[FILE_CHMOD] = op_chmod,         [FILE_CHOWN] = op_chown,
	[FILE_SYMLINK] = op_symlink,     [FILE_TAR_OUT] = op_tar_out,
	[FILE_TAR_IN] = op_tar_in,       [FILE_WATCH] = op_watch,
	[FILE_TRUST] = op_trust,         [FILE_ROOT_IN] = op_image_in,
	[FILE_ROOT_OUT] = op_image_out,  [FILE_DIAL] = op_dial,
	[FILE_COMPARE] = op_compare,     [FILE_BUNDLE_OUT] = op_bundle_out,
	[FILE_BUNDLE_IN] = op_bundle_in, [FILE_USER] = op_user,
	[FILE_SIGNER] = op_signer,
};
static_assert(ARRAY_SIZE(ops) == FILE_OP_COUNT, "an operation has no row");

void files_run(const struct settings *settings, const struct start *s)
{
	struct file_call call = {.start = s};
	struct identity id;
	struct err err;
	int r = identity_find(s->user, &id, &err);

	if (r >= 0)
		r = s->flags & FILE_FOR_USER ? become_root_for(settings, &id, &err)
		                             : become_user(settings, &id, &err);
	if (r >= 0 && s->path[0] == '\0')
		r = err_set(&err, ERR_INVALID_FIELD, EINVAL, "path: is empty");
	/* Relative paths begin at home; a home that is not there makes only them fail. */
	if (r >= 0 && chdir(id.home) < 0 && chdir("/") < 0)
		r = err_set(&err, ERR_INTERNAL, errno, "cannot enter '/'");
	if (r >= 0)
		r = ops[s->op](&call, &err);
	if (r >= 0)
		r = tell_outcome(&call, &err);
	if (r < 0)
		report_failure(&err);
	if (call.exit_flags)
		report_flags(call.exit_flags);
	_exit(0);
}
