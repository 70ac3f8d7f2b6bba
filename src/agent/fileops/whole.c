// SPDX-License-Identifier: Apache-2.0
/*
 * Entries with everything that can be told: the path from the root on, where a link leads in the
 * end and what is there, and the attributes whose names have a given prefix. For clients that know
 * no directory but the root.
 */
#include "agent/fileops/files.h"

#include <limits.h>
#include <string.h>
#include <sys/xattr.h>

#define NAMES_MAX (64 * 1024) /* as many as the kernel has */
#define VALUE_MAX 4096

/* Takes the last name off a path that begins with a slash. */
static void drop_name(struct buf *path)
{
	while (path->len > 0 && path->data[path->len - 1] != '/')
		buf_truncate(path, path->len - 1);
	if (path->len > 0)
		buf_truncate(path, path->len - 1);
}

static int add_names(struct buf *out, const char *path)
{
	int r = 0;

	while (r == 0 && *path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && strncmp(path, "..", 2) == 0)
			drop_name(out);
		else if (len > 0 && !(len == 1 && *path == '.'))
			r = buf_printf(out, "/%.*s", (int)len, path);
		path += len + (path[len] == '/');
	}
	return r;
}

char *whole_path(const char *base, const char *path)
{
	auto_call(buf_done) struct buf out = BUF_INIT(2 * RECORD_PATH_MAX);
	char home[PATH_MAX];
	int r = 0;

	if (path[0] != '/') {
		if ((!base || base[0] != '/') && getcwd(home, sizeof(home)))
			r = add_names(&out, home);
		if (r == 0 && base)
			r = add_names(&out, base);
	}
	if (r == 0)
		r = add_names(&out, path);
	return xstrdup(r == 0 && out.len > 0 ? buf_str(&out) : "/");
}

static int send_attribute(const char *path, const char *name, struct err *err)
{
	char value[VALUE_MAX + 1];
	ssize_t n = lgetxattr(path, name, value, sizeof(value) - 1);
	struct record r = {.kind = RECORD_ATTRIBUTE, .path = unconst(name), .path2 = value};

	if (n < 0 || memchr(value, 0, (size_t)n))
		return 0; /* gone again, or no text */
	value[n] = 0;
	return files_send_record(&r, err);
}

static int send_attributes(const struct start *s, const char *path, struct err *err)
{
	auto_free char *names = NULL;
	ssize_t size;
	int r = 0;

	if (!s->owner || s->owner[0] == 0)
		return 0;
	names = xcalloc(1, NAMES_MAX);
	size = llistxattr(path, names, NAMES_MAX);
	for (const char *p = names; r >= 0 && size > 0 && p < names + size; p += strlen(p) + 1)
		if (strncmp(p, s->owner, strlen(s->owner)) == 0)
			r = send_attribute(path, p, err);
	return r;
}

int whole_send(struct file_call *call, const char *path, struct record *r, struct err *err)
{
	auto_free char *whole = whole_path(call->base, path);
	auto_free char *target = S_ISLNK(r->mode) ? realpath(whole, NULL) : NULL;
	struct stat st;
	int e = send_attributes(call->start, whole, err);

	if (e < 0)
		return e;
	r->path = whole;
	if (target && lstat(target, &st) == 0) {
		r->path2 = target;
		r->mode = st.st_mode;
	}
	return files_send_record(r, err);
}

/* Whether the lines have one of that name. */
static bool has_line(const char *lines, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = lines; *p; p += strcspn(p, "\n"), p += *p == '\n')
		if (strncmp(p, name, len) == 0 && p[len] == '=')
			return true;
	return false;
}

static void drop_others(const struct start *s, int fd)
{
	auto_free char *names = xcalloc(1, NAMES_MAX);
	ssize_t size = flistxattr(fd, names, NAMES_MAX);

	for (const char *p = names; size > 0 && p < names + size; p += strlen(p) + 1)
		if (strncmp(p, s->owner, strlen(s->owner)) == 0 && !has_line(s->path2, p))
			(void)!fremovexattr(fd, p);
}

int whole_set_attributes(const struct start *s, int fd, struct err *err)
{
	drop_others(s, fd);
	for (const char *p = s->path2; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		size_t len = strcspn(p, "\n"), name_len = strcspn(p, "=\n");
		auto_free char *name = xasprintf("%.*s", (int)name_len, p);

		if (name_len == len || strncmp(name, s->owner, strlen(s->owner)) != 0)
			return result_error(err, EINVAL, "a strange attribute for", s->path);
		if (fsetxattr(fd, name, p + name_len + 1, len - name_len - 1, 0) < 0)
			return result_error(err, errno, "cannot set an attribute of", s->path);
	}
	return 0;
}
