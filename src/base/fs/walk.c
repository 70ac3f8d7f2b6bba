// SPDX-License-Identifier: Apache-2.0
#include "base/fs/walk.h"

#include "base/buf.h"
#include "base/fs/dir_reader.h"
#include "base/fs/ladder.h"

#include <fcntl.h>
#include <string.h>

#define NAMES_MAX (256 * 1024 * 1024) /* bytes of names in one directory */

struct level {
	struct buf text; /* the names, each with its NUL */
	const char **names;
	size_t n, at;
	size_t path_len; /* of the directory itself */
};

struct walk {
	struct ladder ladder;
	struct level *levels; /* one a rung */
	size_t n_levels, levels_size;
	struct buf path;
	struct walk_entry last;
	bool is_lenient;
	bool is_pending; /* last is a directory that is to be entered */
};

static int compare_names(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static void index_names(struct level *l)
{
	const char *at = l->text.data, *end = at + l->text.len;

	l->names = xnew0n(const char *, l->n + 1);
	for (size_t i = 0; at < end; at += strlen(at) + 1)
		l->names[i++] = at;
	if (l->n > 0)
		qsort(l->names, l->n, sizeof(*l->names), compare_names);
}

static int read_names(int fd, struct level *l)
{
	struct dir_reader dir;
	const char *name;
	int r = dir_begin(&dir, fd);

	buf_init(&l->text, NAMES_MAX);
	while (r >= 0 && (name = dir_next(&dir))) {
		r = buf_append(&l->text, name, strlen(name) + 1);
		l->n++;
	}
	if (r >= 0)
		r = dir.error;
	if (r >= 0)
		index_names(l);
	return r;
}

static void level_done(struct level *l)
{
	buf_done(&l->text);
	free(l->names);
}

/* The ladder already stands in the directory. */
static int push_level(struct walk *w)
{
	struct level l = {.path_len = w->path.len};
	int r = read_names(ladder_fd(&w->ladder), &l);

	if (r < 0 && !(w->is_lenient && r == -EACCES)) {
		level_done(&l);
		return r;
	}
	if (w->n_levels == w->levels_size) {
		w->levels_size = w->levels_size ? w->levels_size * 2 : 16;
		w->levels = xrealloc(w->levels, w->levels_size * sizeof(*w->levels));
	}
	w->levels[w->n_levels++] = l;
	return 0;
}

int walk_new(int fd, bool is_lenient, struct walk **ret, struct err *err)
{
	auto_call(walk_freep) struct walk *w = xnew0(struct walk);
	int r;

	w->is_lenient = is_lenient;
	buf_init(&w->path, WALK_PATH_MAX);
	r = ladder_init(&w->ladder, fd);
	if (r >= 0)
		r = push_level(w);
	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "cannot list the directory");
	*ret = take_ptr(w);
	return 0;
}

void walk_free(struct walk *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n_levels; i++)
		level_done(&w->levels[i]);
	free(w->levels);
	ladder_done(&w->ladder);
	buf_done(&w->path);
	free(w);
}

void walk_prune(struct walk *w)
{
	w->is_pending = false;
}

/* 1 if it stands inside, 0 if there is nothing to enter any more. */
static int enter(struct walk *w, struct err *err)
{
	int r = ladder_down(&w->ladder, w->last.name);

	w->is_pending = false;
	if (r == -ENOENT || (w->is_lenient && r == -EACCES))
		return 0;
	if (r >= 0)
		r = push_level(w);
	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "cannot enter '%.300s'",
		               buf_str(&w->path));
	return 1;
}

static int leave(struct walk *w, struct walk_entry *ret, struct err *err)
{
	struct level *done = &w->levels[w->n_levels - 1], *parent = done - 1;
	int r = ladder_up(&w->ladder);

	if (r < 0)
		return err_set(err, ERR_FILE_INVALID, -r, "the tree changed at '%.300s'",
		               buf_str(&w->path));
	buf_truncate(&w->path, done->path_len);
	level_done(done);
	w->n_levels--;
	*ret = (struct walk_entry){.dir_fd = ladder_fd(&w->ladder),
	                           .name = parent->names[parent->at - 1],
	                           .path = buf_str(&w->path),
	                           .depth = w->n_levels,
	                           .is_leaving = true};
	if (fstatat(ret->dir_fd, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
		ret->st.st_mode = S_IFDIR; /* gone, but it was one */
	return 1;
}

static int set_path(struct walk *w, size_t dir_len, const char *name)
{
	int r = 0;

	buf_truncate(&w->path, dir_len);
	if (dir_len > 0)
		r = buf_append_str(&w->path, "/");
	return r < 0 ? r : buf_append_str(&w->path, name);
}

int walk_next(struct walk *w, struct walk_entry *ret, struct err *err)
{
	if (w->is_pending) {
		int r = enter(w, err);

		if (r < 0)
			return r;
		if (r == 0) { /* could not be entered: it is left at once */
			w->last.is_leaving = true;
			*ret = w->last;
			return 1;
		}
	}
	for (;;) {
		struct level *l = &w->levels[w->n_levels - 1];

		if (l->at == l->n && w->n_levels == 1)
			return 0;
		if (l->at == l->n)
			return leave(w, ret, err);
		w->last = (struct walk_entry){.dir_fd = ladder_fd(&w->ladder),
		                              .name = l->names[l->at++],
		                              .depth = w->n_levels};
		if (fstatat(w->last.dir_fd, w->last.name, &w->last.st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT || w->is_lenient)
				continue;
			return err_set(err, ERR_FILE_INVALID, errno, "cannot stat '%.300s'",
			               w->last.name);
		}
		if (set_path(w, l->path_len, w->last.name) < 0)
			return err_set(err, ERR_FILE_INVALID, ENAMETOOLONG, "the tree is too deep");
		w->last.path = buf_str(&w->path);
		w->is_pending = S_ISDIR(w->last.st.st_mode);
		*ret = w->last;
		return 1;
	}
}
