// SPDX-License-Identifier: Apache-2.0
/*
 * cp: files one by one as their bytes, directories as a tar stream. Where the copy goes follows
 * cp(1): into the destination under the source's name if that is a directory, else to that very
 * name; "DIR/." copies what is in it. A file that arrives is written beside its name and renamed.
 */
#include "base/fd.h"
#include "cli/copy/mktar.h"
#include "cli/copy/untar.h"
#include "cli/frame/command.h"
#include "cli/term/progress.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define COPY_SIZE (256 * 1024)

struct cp {
	const char *user;
	size_t n_skipped;
};

/* "SANDBOX:PATH"; a '/' before the ':' makes it a local name. */
struct place {
	char *sandbox; /* NULL = here */
	const char *path;
};

static struct place place_parse(const char *word)
{
	const char *colon = strchr(word, ':');

	if (!colon || colon == word || memchr(word, '/', (size_t)(colon - word)))
		return (struct place){NULL, word};
	return (struct place){xstrndup(word, (size_t)(colon - word)), colon[1] ? colon + 1 : "."};
}

/* The name that a copy gets inside a directory; "" where what it holds is meant ("dir/.", ".."). */
static char *last_name(const char *path)
{
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if ((end - start == 1 && path[start] == '.') ||
	    (end - start == 2 && path[start] == '.' && path[start + 1] == '.'))
		return xstrdup("");
	return xstrndup(path + start, end - start);
}

static char *join(const char *dir, const char *name)
{
	if (!*name)
		return xstrdup(dir);
	return xasprintf("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
}

static bool ends_in_slash(const char *path)
{
	return *path && path[strlen(path) - 1] == '/';
}

static void on_skip(const char *name, const char *why, void *arg)
{
	struct cp *opts = arg;
	auto_free char *shown = text_escaped(name);

	opts->n_skipped++;
	(void)fprintf(stderr, "cloche: left out '%s': %s\n", shown, why);
}

static char *files_path(const struct command *c, const struct place *p, const char *what,
                        const char *path)
{
	const struct cp *opts = c->arg;
	char *url = what ? remote_path("sandboxes", p->sandbox, "files", what)
	                 : remote_path("sandboxes", p->sandbox, "files");

	url = remote_query(url, "path", path);
	return opts->user ? remote_query(url, "user", opts->user) : url;
}

/* What lies at a path inside: "file", "directory", …; "" if nothing does. */
static int kind_inside(struct command *c, const struct place *p, char ret[16], struct err *err)
{
	char *url = remote_query(files_path(c, p, "stat", p->path), "follow", "1");
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "GET", url, NULL, &reply, err);

	free(url);
	if (r < 0 && err->code == ERR_FILE_NOT_FOUND) {
		ret[0] = '\0';
		return 0;
	}
	if (r == 0)
		(void)snprintf(ret, 16, "%s", command_text(reply, "type"));
	return r;
}

struct upload {
	int fd;            /* a file */
	struct mktar *tar; /* or a directory */
	struct progress progress;
};

static ssize_t upload_next(void *arg, char *data, size_t size, struct err *err)
{
	struct upload *u = arg;
	ssize_t n;

	if (u->tar) {
		n = mktar_read(u->tar, data, size, err);
	} else {
		do
			n = read(u->fd, data, size);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the file");
	}
	if (n > 0)
		progress_add(&u->progress, (uint64_t)n);
	return n;
}

static int send_upload(struct command *c, struct upload *u, const char *url, int64_t len,
                       struct err *err)
{
	struct remote_request request = {.source = upload_next, .source_arg = u, .source_len = len};
	auto_json json_t *reply = NULL;
	int r;

	progress_init(&u->progress, len > 0 ? (uint64_t)len : 0);
	r = remote_exchange(c->remote, "PUT", url, &request, &reply, err);
	progress_done(&u->progress);
	if (r == 0 && c->common.json)
		command_print_json(reply);
	return r;
}

static int upload_file(struct command *c, int fd, const struct stat *st, const struct place *to,
                       const char *target, struct err *err)
{
	struct upload u = {.fd = fd};
	char *url = remote_query(files_path(c, to, NULL, target), "parents", "1");
	char mode[8];
	int r;

	if (S_ISREG(st->st_mode)) {
		(void)snprintf(mode, sizeof(mode), "%04o", st->st_mode & 0777);
		url = remote_query(url, "mode", mode);
	}
	r = send_upload(c, &u, url, S_ISREG(st->st_mode) ? st->st_size : -1, err);
	free(url);
	return r;
}

/* Takes fd. */
static int upload_dir(struct command *c, int fd, const struct place *to, const char *target,
                      struct err *err)
{
	struct upload u = {.fd = -1};
	char *url = remote_query(files_path(c, to, "tar", target), "parents", "1");
	int r = mktar_new(fd, on_skip, c->arg, &u.tar, err);

	if (r == 0)
		r = send_upload(c, &u, url, -1, err);
	mktar_free(u.tar);
	free(url);
	return r;
}

static int copy_in(struct command *c, const char *from, const struct place *to, struct err *err)
{
	bool is_stdin = strcmp(from, "-") == 0;
	auto_fd int fd = is_stdin ? dup(STDIN_FILENO) : open(from, O_RDONLY | O_CLOEXEC);
	auto_free char *name = last_name(from);
	auto_free char *target = NULL;
	struct stat st;
	char kind[16];
	bool into;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", from);
	r = kind_inside(c, to, kind, err);
	if (r < 0)
		return r;
	into = strcmp(kind, "directory") == 0 || (ends_in_slash(to->path) && !S_ISDIR(st.st_mode));
	if (into && is_stdin)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "'%s' is a directory: give a file name, too", to->path);
	target = into ? join(to->path, name) : xstrdup(to->path);
	return S_ISDIR(st.st_mode) ? upload_dir(c, take_fd(&fd), to, target, err)
	                           : upload_file(c, fd, &st, to, target, err);
}

/* Reads the body of a begun GET to its end. */
static int drain_body(struct command *c, uint64_t total,
                      int (*take)(void *arg, const char *data, size_t len, struct err *err),
                      void *arg, struct err *err)
{
	auto_free char *data = xcalloc(1, COPY_SIZE);
	struct progress progress;
	ssize_t n;
	int r = 0;

	progress_init(&progress, total);
	do {
		n = http_client_read(remote_client(c->remote), data, COPY_SIZE);
		if (n == -EINTR)
			continue;
		if (n < 0)
			r = err_set(err, ERR_UNAVAILABLE, (int)-n, "the transfer broke off");
		else if (n > 0)
			r = take(arg, data, (size_t)n, err);
		if (n > 0)
			progress_add(&progress, (uint64_t)n);
	} while (r == 0 && n != 0);
	progress_done(&progress);
	return r;
}

static int write_fd(void *arg, const char *data, size_t len, struct err *err)
{
	int r = fd_write_all(*(const int *)arg, data, len);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write") : 0;
}

static int feed_tar(void *arg, const char *data, size_t len, struct err *err)
{
	return untar_feed(arg, data, len, err);
}

static int begin_download(struct command *c, const char *url, uint64_t *ret_total, struct err *err)
{
	struct remote_request request = {.accept = "*/*"};
	const char *length;
	int r = remote_begin(c->remote, "GET", url, &request, err);

	length = r == 0 ? http_client_header(remote_client(c->remote), "Content-Length") : NULL;
	*ret_total = length ? strtoull(length, NULL, 10) : 0;
	return r;
}

/* Into what is there already and no plain file: a pipe, a device. */
static int download_to_fd(struct command *c, const char *url, int fd, struct err *err)
{
	uint64_t total;
	int r = begin_download(c, url, &total, err);

	return r < 0 ? r : drain_body(c, total, write_fd, &fd, err);
}

static int download_to_file(struct command *c, const char *url, const char *target, struct err *err)
{
	auto_free char *temp = xasprintf("%s.%d.part", target, (int)getpid());
	auto_fd int fd = -1;
	uint64_t total;
	int r = begin_download(c, url, &total, err);

	if (r < 0)
		return r;
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", target);
	r = drain_body(c, total, write_fd, &fd, err);
	if (r == 0 && rename(temp, target) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", target);
	if (r < 0)
		(void)unlink(temp);
	return r;
}

static int download_file(struct command *c, const struct place *from, const char *to,
                         const char *name, struct err *err)
{
	auto_free char *url = files_path(c, from, NULL, from->path);
	auto_free char *target = NULL;
	auto_fd int fd = -1;
	struct stat st;
	bool exists;

	if (strcmp(to, "-") == 0)
		return download_to_fd(c, url, STDOUT_FILENO, err);
	exists = stat(to, &st) == 0;
	if ((exists && S_ISDIR(st.st_mode)) || ends_in_slash(to))
		target = join(to, name);
	else
		target = xstrdup(to);
	if (!exists || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return download_to_file(c, url, target, err);
	fd = open(to, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", to);
	return download_to_fd(c, url, fd, err);
}

static int unpack(struct command *c, const char *url, int dir_fd, struct err *err)
{
	auto_call(untar_freep) struct untar *u = untar_new(dir_fd, on_skip, c->arg);
	uint64_t total;
	int r = begin_download(c, url, &total, err);

	if (r == 0)
		r = drain_body(c, total, feed_tar, u, err);
	return r == 0 ? untar_finish(u, err) : r;
}

static int download_dir(struct command *c, const struct place *from, const char *to,
                        const char *name, struct err *err)
{
	auto_free char *url = files_path(c, from, "tar", from->path);
	auto_free char *target = NULL;
	auto_fd int dir_fd = -1;
	struct stat st;

	if (strcmp(to, "-") == 0)
		return download_to_fd(c, url, STDOUT_FILENO, err); /* the archive as it is */
	target = stat(to, &st) == 0 && S_ISDIR(st.st_mode) ? join(to, name) : xstrdup(to);
	if (mkdir(target, 0777) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the directory '%s'", target);
	dir_fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the directory '%s'", target);
	return unpack(c, url, dir_fd, err);
}

static int copy_out(struct command *c, const struct place *from, const char *to, struct err *err)
{
	auto_free char *name = last_name(from->path);
	char kind[16];
	int r = kind_inside(c, from, kind, err);

	if (r < 0)
		return r;
	if (!*kind)
		return err_set(err, ERR_FILE_NOT_FOUND, 0, "there is no '%s' in '%s'", from->path,
		               from->sandbox);
	return strcmp(kind, "directory") == 0 ? download_dir(c, from, to, name, err)
	                                      : download_file(c, from, to, name, err);
}

static int cp(struct command *c, struct err *err)
{
	const struct cp *opts = c->arg;
	struct place from = place_parse(c->words[0]), to = place_parse(c->words[1]);
	int r;

	if (!from.sandbox == !to.sandbox) {
		(void)err_set(err, ERR_INVALID_FIELD, 0,
		              "exactly one of the two must be in a sandbox, as SANDBOX:PATH");
		r = err_hint(err, "cloche cp FILE SANDBOX:PATH, or cloche cp SANDBOX:PATH FILE");
	} else {
		r = to.sandbox ? copy_in(c, from.path, &to, err) : copy_out(c, &from, to.path, err);
	}
	free(from.sandbox);
	free(to.sandbox);
	if (r == 0 && opts->n_skipped > 0)
		return err_set(err, ERR_INTERNAL, 0, "the copy is not complete: %zu left out",
		               opts->n_skipped);
	return r;
}

int cmd_cp(int argc, char **argv)
{
	struct cp opts = {0};
	const struct opt rows[] = {
		{'u', "user", OPT_TEXT, &opts.user, "NAME", "as this user of the sandbox"},
	};
	const struct manual manual = {
		.name = "cp",
		.synopsis = "[OPTIONS] SOURCE SANDBOX:PATH\n[OPTIONS] SANDBOX:PATH DESTINATION",
		.about = "Copies a file or a directory into a sandbox or out of it. A path in the "
			 "sandbox that does not begin\n"
			 "with '/' begins where commands do (the image's WORKDIR, or the user's "
			 "home). '-' is stdin or stdout;\n"
			 "a directory goes to stdout as a tar archive.\n"
			 "What comes out is not trusted: nothing is written outside the "
			 "destination, set-id bits are dropped,\n"
			 "and links that point outside are left out (the exit status is then 125).",
		.examples = "  cloche cp data.csv build:\n"
			    "  cloche cp ./src build:/tmp/src\n"
			    "  cloche cp build:out/report.pdf .\n"
			    "  cloche cp build:/home/user - | tar t",
		.min_words = 2,
		.max_words = 2,
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, cp, &opts);
}
