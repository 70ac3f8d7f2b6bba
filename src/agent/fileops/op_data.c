// SPDX-License-Identifier: Apache-2.0
/*
 * Reading and writing one file.
 *
 * A read tells the size first and then sends exactly so much, so that the host may promise it to
 * its client: what grows meanwhile is cut, what shrinks is an error.
 *
 * A write goes to a temporary name beside the file and takes its place in one step, so no reader
 * ever sees half of it. Where the directory allows no new name but the file may be written (a file
 * mounted on its own, a directory of someone else's), it is written in place.
 *
 * A write may be on condition that the file is still the one that its caller has seen, by the time
 * of its last change. That is looked at when it begins and again when the bytes are there; then
 * both change places in one step, so that it is certain what was replaced. If somebody else was
 * quicker, they change back. Only what is written into the old file through an open fd, after that,
 * is lost. A file that is written in place is looked at once it is open.
 */
#include "agent/archive/compress.h"
#include "agent/fileops/files.h"
#include "agent/fileops/place.h"
#include "base/fd.h"
#include "base/id.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>

#define CHUNK   (64 * 1024)
#define LARGE   (256 * 1024) /* the pipe and the chunks of data that do not fit into one */
#define TICK_US 10000        /* of the slowest clock that a kernel stamps files by */

static int refuse_kind(struct err *err, mode_t mode, const char *path)
{
	if (S_ISDIR(mode))
		return result_error(err, EISDIR, "cannot open", path);
	(void)err_set(err, ERR_FILE_INVALID, 0, "'%s' is not a regular file", path);
	err->errnum = EINVAL;
	return -EINVAL;
}

/* Looks before it opens: opening a device may already do something. */
int files_open(const char *path, int *ret_fd, struct stat *ret_st, struct err *err)
{
	auto_fd int fd = -1;

	if (stat(path, ret_st) < 0)
		return result_error(err, errno, "cannot open", path);
	if (!S_ISREG(ret_st->st_mode))
		return refuse_kind(err, ret_st->st_mode, path);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return result_error(err, errno, "cannot open", path);
	if (!S_ISREG(ret_st->st_mode))
		return refuse_kind(err, ret_st->st_mode, path);
	*ret_fd = take_fd(&fd);
	return 0;
}

int files_read_all(int fd, struct buf *into)
{
	for (;;) {
		size_t size = MIN((size_t)CHUNK, buf_room(into));
		char *room;
		ssize_t n;

		if (size == 0 || buf_reserve(into, size, &room) < 0)
			return -EFBIG;
		n = read(fd, room, size);
		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		buf_commit(into, n > 0 ? (size_t)n : 0);
	}
}

int op_read(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	auto_free char *chunk = xcalloc(1, CHUNK);
	auto_fd int fd = -1;
	uint64_t at = 0, left, size;
	bool is_size_known;
	struct stat st;
	int r = files_open(s->path, &fd, &st, err);

	if (r >= 0)
		r = files_send_entry(call, s->path, &st, NULL, err);
	if (r < 0)
		return r;
	/* Files of /proc say 0 and have content: those are read to their end. */
	is_size_known = st.st_size > 0;
	size = is_size_known ? (uint64_t)st.st_size : UINT64_MAX;
	left = size;
	if (s->flags & FILE_RANGE) {
		at = MIN(s->offset, size);
		left = MIN(s->size, size - at);
	}
	while (left > 0) {
		ssize_t n = pread(fd, chunk, (size_t)MIN(left, (uint64_t)CHUNK), (off_t)at);

		if (n < 0)
			return result_error(err, errno, "cannot read", s->path);
		if (n == 0 && !is_size_known)
			break;
		if (n == 0)
			return result_error(err, EIO, "became shorter while it was read:", s->path);
		r = result_send(chunk, (size_t)n, err);
		if (r < 0)
			return r;
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return 0;
}

struct draft { /* where the bytes go until they are all there */
	struct place place;
	int fd;
	bool is_temporary;
	char name[40];
};

/* For the handler of SIGTERM: the one temporary name of this process. */
static struct draft draft = {.place = PLACE_INIT, .fd = -1};

static void drop_draft(void)
{
	if (draft.is_temporary)
		(void)unlinkat(draft.place.dir_fd, draft.name, 0);
	draft.is_temporary = false;
}

static void on_term(int signo)
{
	(void)signo;
	drop_draft();
	_exit(1);
}

static bool must_write_in_place(int errnum)
{
	return errnum == EACCES || errnum == EPERM || errnum == EROFS || errnum == ENOTSUP;
}

/* With FILE_UNCHANGED only the file that the caller has seen is replaced. */
static int check_unchanged(const struct start *s, const struct stat *st, struct err *err)
{
	if (!(s->flags & FILE_UNCHANGED) || files_mtime_us(st) == s->offset)
		return 0;
	(void)err_set(err, ERR_FILE_CHANGED, 0, "'%s' was changed since it was read", s->path);
	err->errnum = ESTALE;
	return -ESTALE;
}

/* The old file, if there is one, decides mode and owner; only a regular one that this user may
 * write is replaced. */
static int look_at_old(const struct start *s, struct stat *ret_st, bool *ret_exists,
                       struct err *err)
{
	*ret_exists =
		fstatat(draft.place.dir_fd, draft.place.name, ret_st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!*ret_exists)
		return errno == ENOENT && !(s->flags & FILE_UNCHANGED)
		               ? 0
		               : result_error(err, errno, "cannot write", s->path);
	if (s->flags & FILE_EXCLUSIVE)
		return result_error(err, EEXIST, "cannot write", s->path);
	if (!S_ISREG(ret_st->st_mode))
		return refuse_kind(err, ret_st->st_mode, s->path);
	if (faccessat(draft.place.dir_fd, draft.place.name, W_OK, AT_EACCESS) < 0)
		return result_error(err, errno, "cannot write", s->path);
	return check_unchanged(s, ret_st, err);
}

static int open_in_place(const struct start *s, int flags, mode_t mode, struct err *err)
{
	/* On condition it is emptied once it is known to be the right one. */
	const bool is_late = flags & O_TRUNC && s->flags & FILE_UNCHANGED;
	struct stat st;
	int r;

	draft.fd = openat(draft.place.dir_fd, draft.place.name,
	                  O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
	                          (is_late ? flags & ~O_TRUNC : flags),
	                  mode);
	if (draft.fd < 0 || fstat(draft.fd, &st) < 0)
		return result_error(err, errno, "cannot write", s->path);
	r = S_ISREG(st.st_mode) ? check_unchanged(s, &st, err)
	                        : refuse_kind(err, st.st_mode, s->path);
	if (r == 0 && is_late && ftruncate(draft.fd, 0) < 0)
		return result_error(err, errno, "cannot write", s->path);
	return r;
}

static int open_temporary(const struct start *s, mode_t mode, struct err *err)
{
	struct sigaction action = {.sa_handler = on_term};
	sigset_t term;
	uint64_t random;

	random_bytes(&random, sizeof(random));
	(void)snprintf(draft.name, sizeof(draft.name), ".cloche-%016llx",
	               (unsigned long long)random);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	/* Held back until the handler knows of the file, which would else outlive us. */
	(void)sigprocmask(SIG_BLOCK, &term, NULL);
	draft.fd = openat(draft.place.dir_fd, draft.name,
	                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	draft.is_temporary = draft.fd >= 0;
	(void)sigprocmask(SIG_UNBLOCK, &term, NULL);
	return draft.fd < 0 ? result_error(err, errno, "cannot write", s->path) : 0;
}

/* Who watches sees it made, become the user's, and written. */
static int open_as_itself(const struct start *s, mode_t mode, struct err *err)
{
	int r = open_in_place(s, O_CREAT | O_TRUNC, mode, err);

	if (r >= 0)
		(void)!fchown(draft.fd, (uid_t)setfsuid((uid_t)-1), (gid_t)setfsgid((gid_t)-1));
	return r;
}

static int open_draft(const struct start *s, struct err *err)
{
	mode_t mode = s->flags & FILE_MODE ? s->mode : 0666;
	struct stat old;
	bool exists;
	int r = place_find(s->path, s->flags & FILE_PARENTS, &draft.place, err);

	if (r >= 0 && !(s->flags & FILE_EXCLUSIVE)) /* a link is something that exists */
		r = place_follow(&draft.place, err);
	if (r >= 0)
		r = look_at_old(s, &old, &exists, err);
	if (r < 0)
		return r;
	if (s->flags & FILE_IN_PLACE)
		return open_as_itself(s, mode, err);
	if (s->flags & FILE_APPEND)
		r = open_in_place(s, O_APPEND | O_CREAT, mode, err);
	else
		r = open_temporary(s, mode, err);
	if (r < 0 && !(s->flags & FILE_APPEND) && exists && must_write_in_place(-r))
		return open_in_place(s, O_TRUNC, mode, err);
	if (r < 0)
		return r;
	if (s->flags & FILE_MODE)
		r = fchmod(draft.fd, mode) < 0 ? -errno : 0;
	else if (exists && draft.is_temporary)
		r = fchmod(draft.fd, old.st_mode & 07777) < 0 ? -errno : 0;
	if (r < 0)
		return result_error(err, -r, "cannot set the mode of", s->path);
	/* Only root can keep another's file another's; who may not, owns the new one. */
	if (exists && draft.is_temporary)
		(void)!fchown(draft.fd, old.st_uid, old.st_gid);
	return 0;
}

static int write_draft(const void *data, size_t len, void *arg, struct err *err)
{
	int r = fd_write_all(draft.fd, data, len);

	return r < 0 ? result_error(err, -r, "cannot write", arg) : 0;
}

static int take_input(const struct start *s, struct err *err)
{
	const size_t size = s->size > 0 && s->size <= CHUNK ? CHUNK : LARGE;
	auto_free char *chunk = xcalloc(1, size);
	auto_call(decompress_freep) struct decompress *unzip = NULL;
	uint64_t sum = 0;

	/* So the agent and this process take turns less often. Without it all is as well. */
	if (size > CHUNK)
		(void)fcntl(STDIN_FILENO, F_SETPIPE_SZ, LARGE);

	if (s->flags & FILE_GZIP)
		unzip = decompress_new(COMPRESS_GZIP, write_draft, unconst(s->path));
	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, size);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return result_error(err, errno, "cannot read the data for", s->path);
		if (n == 0)
			return unzip ? decompress_finish(unzip, err) : 0;
		sum += (uint64_t)n;
		if (s->size > 0 && sum > s->size)
			return result_error(err, EFBIG, "more data than was announced for",
			                    s->path);
		r = unzip ? decompress_feed(unzip, chunk, (size_t)n, err)
		          : write_draft(chunk, (size_t)n, unconst(s->path), err);
		if (r < 0)
			return r;
	}
}

/* Times are those of the last tick, and two writes may follow each other within one: the file that
 * replaces another shall be told from it. */
static void tell_from_seen(const struct start *s)
{
	const uint64_t later_us = s->offset + 1;
	const struct timespec times[] = {
		{.tv_nsec = UTIME_OMIT},
		{(time_t)(later_us / 1000000), (long)(later_us % 1000000) * 1000}};
	struct stat st;
	uint64_t now_us;

	if (fstat(draft.fd, &st) < 0)
		return;
	now_us = files_mtime_us(&st);
	if (now_us <= s->offset && s->offset - now_us < TICK_US)
		(void)futimens(draft.fd, times);
}

static int swap_draft(void)
{
	return renameat2(draft.place.dir_fd, draft.name, draft.place.dir_fd, draft.place.name,
	                 RENAME_EXCHANGE) < 0
	               ? -errno
	               : 0;
}

static bool is_draft_ours(void)
{
	struct stat ours, found;

	return fstat(draft.fd, &ours) == 0 &&
	       fstatat(draft.place.dir_fd, draft.name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
	       found.st_dev == ours.st_dev && found.st_ino == ours.st_ino;
}

/* What lies under the draft's name came out of the file's place: 0 if it is what was seen. */
static int check_swapped(const struct start *s, struct err *err)
{
	struct stat st;
	int r;

	if (fstatat(draft.place.dir_fd, draft.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return result_error(err, errno, "cannot write", s->path);
	r = check_unchanged(s, &st, err);
	/* It goes back; unless a third has come meanwhile, which then stays where it is. */
	if (r < 0 && swap_draft() == 0 && !is_draft_ours())
		(void)swap_draft();
	return r;
}

/* *ret_is_done: false where the filesystem lets no two files change places. */
static int put_if_unchanged(const struct start *s, bool *ret_is_done, struct err *err)
{
	struct stat old;
	bool exists;
	sigset_t term;
	int r = look_at_old(s, &old, &exists, err);

	*ret_is_done = false;
	if (r < 0)
		return r;
	tell_from_seen(s);
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM); /* its handler must not take another's file for a draft */
	(void)sigprocmask(SIG_BLOCK, &term, NULL);
	r = swap_draft();
	if (r == 0) {
		*ret_is_done = true;
		r = check_swapped(s, err);
		drop_draft();
	} else if (r == -EINVAL || r == -ENOSYS) {
		r = 0;
	} else {
		r = result_error(err, -r, "cannot write", s->path);
	}
	(void)sigprocmask(SIG_UNBLOCK, &term, NULL);
	return r;
}

static int put_in_place(const struct start *s, struct err *err)
{
	unsigned flags = s->flags & FILE_EXCLUSIVE ? RENAME_NOREPLACE : 0;
	bool is_done = !draft.is_temporary;
	int r = 0;

	if (!is_done && s->flags & FILE_UNCHANGED)
		r = put_if_unchanged(s, &is_done, err);
	if (r < 0 || is_done)
		return r;
	if (renameat2(draft.place.dir_fd, draft.name, draft.place.dir_fd, draft.place.name, flags) <
	    0)
		return result_error(err, errno, "cannot write", s->path);
	draft.is_temporary = false;
	return 0;
}

int files_put(const struct start *s, const void *data, size_t len, struct err *err)
{
	int r = open_draft(s, err);

	if (r >= 0) {
		r = fd_write_all(draft.fd, data, len);
		r = r < 0 ? result_error(err, -r, "cannot write", s->path) : put_in_place(s, err);
	}
	drop_draft();
	if (draft.fd >= 0)
		(void)close(take_fd(&draft.fd));
	place_done(&draft.place);
	return r;
}

int op_write(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	struct stat st;
	int r = open_draft(s, err);

	if (r >= 0)
		r = take_input(s, err);
	if (r >= 0 && s->flags & FILE_ATTRIBUTES)
		r = whole_set_attributes(s, draft.fd, err);
	if (r >= 0)
		r = put_in_place(s, err);
	if (r < 0) {
		drop_draft();
		return r;
	}
	if (fstat(draft.fd, &st) < 0)
		return result_error(err, errno, "cannot stat", s->path);
	return files_send_entry(call, s->path, &st, NULL, err);
}
