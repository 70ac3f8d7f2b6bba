// SPDX-License-Identifier: Apache-2.0
#include "cli/prompt/prompt_history.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (4 * 1024 * 1024) /* of a longer file the end is read */

/* The directory, made where it is missing; NULL where there is no place for it. For free(). */
static char *make_dir(void)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	auto_free char *path = NULL;

	if (state && *state == '/')
		path = xasprintf("%s/cloche", state);
	else if (home && *home == '/')
		path = xasprintf("%s/.local/state/cloche", home);
	else
		return NULL;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return NULL;
		*slash = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? NULL : take_ptr(path);
}

/* The end of the file, as much as FILE_MAX. */
static void read_tail(const char *path, struct buf *text)
{
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	off_t from = size > FILE_MAX ? size - FILE_MAX : 0;
	char *room;
	ssize_t n;

	if (size <= 0 || buf_reserve(text, (size_t)(size - from), &room) < 0)
		return;
	n = pread(fd, room, (size_t)(size - from), from);
	if (n > 0)
		buf_commit(text, (size_t)n);
}

/* Where the last PROMPT_HISTORY_LINES lines begin. */
static char *find_last(const struct buf *text)
{
	char *p = text->data + text->len;

	for (unsigned n = 0; n <= PROMPT_HISTORY_LINES; n++) {
		char *newline = memrchr(text->data, '\n', (size_t)(p - text->data));

		if (!newline)
			return text->data;
		p = newline;
	}
	return p + 1;
}

/* A file that has grown long is replaced by what is still of use. */
static void read_lines(const char *path, prompt_history_fn fn, void *arg)
{
	struct buf text = BUF_INIT(FILE_MAX);
	char *line, *rest;

	read_tail(path, &text);
	rest = text.len > 0 ? find_last(&text) : NULL;
	if (text.len > FILE_MAX / 2)
		(void)!fd_replace_file(AT_FDCWD, path, rest, strlen(rest), 0600, false);
	while ((line = strsep(&rest, "\n")))
		if (*line)
			fn(arg, line);
	buf_done(&text);
}

void prompt_history_open(struct prompt_history *r, prompt_history_fn fn, void *arg)
{
	auto_free char *dir = make_dir();
	auto_free char *path = dir ? xasprintf("%s/history", dir) : NULL;

	r->fd = -1;
	if (!path)
		return;
	read_lines(path, fn, arg);
	r->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void prompt_history_add(struct prompt_history *r, const char *line)
{
	auto_free char *text = xasprintf("%s\n", line);

	if (r->fd >= 0)
		(void)!write(r->fd, text, strlen(text));
}

void prompt_history_close(struct prompt_history *r)
{
	auto_closep(&r->fd);
	r->fd = -1;
}
