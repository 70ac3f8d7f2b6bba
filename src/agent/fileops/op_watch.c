// SPDX-License-Identifier: Apache-2.0
/*
 * Tells changes under a path, by inotify. A watch is on a directory, so a recursive one keeps one
 * for each, by the directory's path from the beginning; a directory that appears is watched and
 * then read, because things may have been made in it before the watch stood.
 *
 * A rename is two events with one cookie, one behind the other: the first is held back until the
 * second comes, or something else, or nothing for a moment.
 */
#include "agent/fileops/files.h"
#include "base/fs/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>

#define WATCHES_MAX  8192
#define PAIR_WAIT_MS 250 /* the mover may lose its CPU between the two halves */
#define DIR_MASK                                                                                   \
	(IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |             \
	 IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK)
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC)

struct watched {
	int wd;
	char *path; /* "" is the beginning */
};

static struct file_call *told; /* who wants entries before events; NULL = nobody */

struct watcher {
	int fd;
	int root_fd; /* -1: a file is watched */
	bool is_recursive, is_over;
	struct watched *all;
	size_t n, size;
	uint32_t pair_cookie; /* of the held back half; 0 = none */
	char *pair_path;
	char *last_path; /* a run of writes to one file is one event */
};

/* What is found there, where that is asked for. */
static int tell_entry(const char *path, struct err *err)
{
	struct stat st;

	if (!told || lstat(path[0] ? path : ".", &st) < 0)
		return 0;
	return files_send_entry(told, path, &st, NULL, err);
}

static int tell(enum watch_event event, const char *path, const char *path2, struct err *err)
{
	struct record r = {.kind = RECORD_EVENT,
	                   .event = event,
	                   .path = unconst(path),
	                   .path2 = unconst(path2)};

	if (event == WATCH_CREATED || event == WATCH_MODIFIED || event == WATCH_ATTRIB) {
		int e = tell_entry(path, err);

		if (e < 0)
			return e;
	}
	return files_send_record(&r, err);
}

static struct watched *find_watch(struct watcher *w, int wd)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->all[i].wd == wd)
			return &w->all[i];
	return NULL;
}

static int add_watch(struct watcher *w, const char *real_path, const char *path, struct err *err)
{
	int wd = inotify_add_watch(w->fd, real_path, DIR_MASK | IN_DONT_FOLLOW);
	struct watched *old;

	if (wd < 0 && (errno == ENOENT || errno == EACCES || errno == ENOTDIR) && w->n > 0)
		return 0; /* gone again, or not for this user */
	if (wd < 0)
		return result_error(err, errno, "cannot watch", real_path);
	old = find_watch(w, wd);
	if (old) {
		free(old->path);
		old->path = xstrdup(path);
		return 0;
	}
	if (w->n >= WATCHES_MAX)
		return result_error(err, ENOSPC, "too many directories to watch under", real_path);
	if (w->n == w->size) {
		w->size = w->size ? w->size * 2 : 16;
		w->all = xrealloc(w->all, w->size * sizeof(*w->all));
	}
	w->all[w->n++] = (struct watched){wd, xstrdup(path)};
	return 0;
}

static char *join(const char *dir, const char *name)
{
	return dir[0] ? xasprintf("%s/%s", dir, name) : xstrdup(name);
}

/* Watches the directories under path, and with is_new tells what is found there. */
static int add_below(struct watcher *w, const char *path, bool is_new, struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	int fd = openat(w->root_fd, path[0] ? path : ".", DIR_FLAGS | O_NOFOLLOW), r;
	struct walk_entry e;

	if (fd < 0)
		return 0;
	r = walk_new(fd, /* is_lenient= */ true, &walk, err);
	while (r >= 0 && (r = walk_next(walk, &e, err)) > 0) {
		auto_free char *full = join(path, e.path);

		if (e.is_leaving)
			continue;
		if (S_ISDIR(e.st.st_mode))
			r = add_watch(w, full, full, err);
		if (r >= 0 && is_new)
			r = tell(WATCH_CREATED, full, NULL, err);
	}
	return r;
}

/*
 * Something has come to `path`, by `from` if that is not NULL. A directory is watched before it is
 * told, so that who hears of it misses nothing that he then does there.
 */
static int tell_arrival(struct watcher *w, bool is_dir, const char *from, const char *path,
                        struct err *err)
{
	bool is_tree = is_dir && w->is_recursive;
	int r = is_tree ? add_watch(w, path, path, err) : 0;

	if (r >= 0)
		r = from ? tell(WATCH_MOVED, from, path, err)
		         : tell(WATCH_CREATED, path, NULL, err);
	return r < 0 || !is_tree ? r : add_below(w, path, /* is_new= */ true, err);
}

static bool is_below(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Watches stay on what was moved inside; only their names change. Moved away, they end. How many
 * there were. */
static size_t rename_watches(struct watcher *w, const char *from, const char *to)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct watched *x = &w->all[i];
		char *renamed;

		if (!is_below(x->path, from))
			continue;
		n++;
		if (!to) {
			(void)inotify_rm_watch(w->fd, x->wd);
			continue;
		}
		renamed = xasprintf("%s%s", to, x->path + strlen(from));
		free(x->path);
		x->path = renamed;
	}
	return n;
}

/* The second half of a rename has not come: it was moved out of sight. */
static int end_pair(struct watcher *w, struct err *err)
{
	int r;

	if (w->pair_cookie == 0)
		return 0;
	w->pair_cookie = 0;
	(void)rename_watches(w, w->pair_path, NULL);
	r = tell(WATCH_REMOVED, w->pair_path, NULL, err);
	free(w->pair_path);
	w->pair_path = NULL;
	return r;
}

static int on_moved_to(struct watcher *w, const struct inotify_event *e, const char *path,
                       struct err *err)
{
	int r;

	if (w->pair_cookie == 0 || w->pair_cookie != e->cookie) {
		r = end_pair(w, err);
		return r < 0 ? r : tell_arrival(w, e->mask & IN_ISDIR, NULL, path, err);
	}
	w->pair_cookie = 0;
	/* A directory that was made and moved before a watch stood on it is new in its place. */
	if (e->mask & IN_ISDIR && rename_watches(w, w->pair_path, path) == 0)
		r = tell_arrival(w, /* is_dir= */ true, w->pair_path, path, err);
	else
		r = tell(WATCH_MOVED, w->pair_path, path, err);
	free(w->pair_path);
	w->pair_path = NULL;
	return r;
}

static int on_moved_from(struct watcher *w, const struct inotify_event *e, const char *path,
                         struct err *err)
{
	int r = end_pair(w, err);

	w->pair_cookie = e->cookie;
	w->pair_path = xstrdup(path);
	return r;
}

static int on_modified(struct watcher *w, const char *path, struct err *err)
{
	if (w->last_path && strcmp(w->last_path, path) == 0)
		return 0;
	free(w->last_path);
	w->last_path = xstrdup(path);
	return tell(WATCH_MODIFIED, path, NULL, err);
}

static void forget_watch(struct watcher *w, int wd)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->all[i].wd != wd)
			continue;
		free(w->all[i].path);
		w->all[i] = w->all[--w->n];
		return;
	}
}

static int on_self(struct watcher *w, const struct watched *dir, struct err *err)
{
	if (dir->path[0] != '\0')
		return 0; /* its parent has told */
	w->is_over = true;
	return tell(WATCH_REMOVED, "", NULL, err);
}

static int on_event(struct watcher *w, const struct inotify_event *e, struct err *err)
{
	const struct watched *dir = find_watch(w, e->wd);
	auto_free char *path = dir ? join(dir->path, e->len > 0 ? e->name : "") : NULL;
	int r = 0;

	if (e->mask & IN_Q_OVERFLOW)
		return tell(WATCH_OVERFLOW, "", NULL, err);
	if (e->mask & IN_IGNORED) {
		forget_watch(w, e->wd);
		return 0;
	}
	if (!dir)
		return 0;
	if (e->len == 0) { /* of the watched thing itself: for a directory its parent tells */
		free(path);
		path = xstrdup(dir->path);
		if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF))
			return on_self(w, dir, err);
		if (path[0] != '\0')
			return 0;
	}
	if (e->mask & IN_MOVED_TO)
		return on_moved_to(w, e, path, err);
	r = end_pair(w, err);
	if (r < 0)
		return r;
	if (e->mask & IN_MODIFY)
		return on_modified(w, path, err);
	free(w->last_path);
	w->last_path = NULL;
	if (e->mask & IN_MOVED_FROM)
		return on_moved_from(w, e, path, err);
	if (e->mask & IN_CREATE)
		return tell_arrival(w, e->mask & IN_ISDIR, NULL, path, err);
	if (e->mask & IN_DELETE)
		return tell(WATCH_REMOVED, path, NULL, err);
	return e->mask & IN_ATTRIB ? tell(WATCH_ATTRIB, path, NULL, err) : 0;
}

static int read_events(struct watcher *w, struct err *err)
{
	_Alignas(struct inotify_event) char events[16 * 1024];
	ssize_t n = read(w->fd, events, sizeof(events));
	int r = 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR
		               ? 0
		               : err_set(err, ERR_INTERNAL, errno, "cannot read events");
	for (char *at = events; r >= 0 && at < events + n;) {
		const struct inotify_event *e = (const struct inotify_event *)(void *)at;

		r = on_event(w, e, err);
		at += sizeof(*e) + e->len;
	}
	free(w->last_path); /* a later write is news again */
	w->last_path = NULL;
	return r;
}

/* All that happened before the byte came was read by now, but for the half of a rename. */
static int answer_input(struct watcher *w, bool *has_input, struct err *err)
{
	char byte;
	int r;

	*has_input = read(STDIN_FILENO, &byte, 1) == 1;
	if (!*has_input)
		return 0;
	r = end_pair(w, err);
	return r < 0 ? r : tell(WATCH_READY, "", NULL, err);
}

int op_watch(struct file_call *call, struct err *err)
{
	const struct start *s = call->start;
	struct watcher w = {.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .root_fd = -1};
	bool has_input = true;
	struct stat st;
	int r;

	if (w.fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot watch files");
	if (stat(s->path, &st) < 0)
		return result_error(err, errno, "cannot watch", s->path);
	if (s->flags & FILE_WHOLE && !S_ISDIR(st.st_mode))
		return result_error(err, ENOTDIR, "cannot watch", s->path);
	if (s->flags & FILE_ENTRIES) {
		call->base = whole_path(NULL, s->path); /* before the directory is entered */
		told = call;
	}
	w.is_recursive = S_ISDIR(st.st_mode) && s->flags & FILE_RECURSIVE;
	if (S_ISDIR(st.st_mode)) {
		w.root_fd = open(s->path, DIR_FLAGS);
		if (w.root_fd < 0 || fchdir(w.root_fd) < 0)
			return result_error(err, errno, "cannot watch", s->path);
	}
	r = add_watch(&w, S_ISDIR(st.st_mode) ? "." : s->path, "", err);
	if (r >= 0 && w.is_recursive)
		r = add_below(&w, "", /* is_new= */ false, err);
	if (r >= 0)
		r = tell(WATCH_READY, "", NULL, err);
	while (r >= 0 && !w.is_over) {
		struct pollfd p[] = {{.fd = w.fd, .events = POLLIN},
		                     {.fd = has_input ? STDIN_FILENO : -1, .events = POLLIN}};

		if (poll(p, ARRAY_SIZE(p), w.pair_cookie ? PAIR_WAIT_MS : -1) == 0)
			r = end_pair(&w, err);
		else if (p[0].revents)
			r = read_events(&w, err);
		else if (p[1].revents)
			r = answer_input(&w, &has_input, err);
	}
	return r;
}
