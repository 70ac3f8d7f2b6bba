// SPDX-License-Identifier: Apache-2.0
/* A bind mount is a copy: what is in the project's directory goes in, and nothing comes back. */
#include "base/fd.h"
#include "cli/compose/service.h"
#include "cli/copy/mktar.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct upload {
	int fd;            /* a file */
	struct mktar *tar; /* or a directory */
};

static ssize_t next_bytes(void *arg, char *data, size_t size, struct err *err)
{
	const struct upload *u = arg;
	ssize_t n;

	if (u->tar)
		return mktar_read(u->tar, data, size, err);
	do
		n = read(u->fd, data, size);
	while (n < 0 && errno == EINTR);
	return n < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot read the file") : n;
}

static void on_skip(const char *name, const char *why, void *arg)
{
	auto_free char *shown = text_escaped(name);

	(void)arg;
	(void)fprintf(stderr, "cloche: left out '%s': %s\n", shown, why);
}

static char *url_of(const char *id, const char *what, const char *path)
{
	char *url = what ? remote_path("sandboxes", id, "files", what)
	                 : remote_path("sandboxes", id, "files");

	url = remote_query(url, "path", path);
	url = remote_query(url, "user", "root");
	return remote_query(url, "parents", "1");
}

static int copy_dir(const struct project *p, const struct service *s, int fd, const char *target,
                    struct err *err)
{
	struct upload u = {.fd = -1};
	const struct remote_request request = {
		.source = next_bytes, .source_arg = &u, .source_len = -1};
	auto_free char *url = url_of(s->id, "tar", target);
	int r = mktar_new(fd, on_skip, NULL, &u.tar, err);

	if (r == 0)
		r = remote_exchange(p->c->remote, "PUT", url, &request, NULL, err);
	mktar_free(u.tar);
	return r;
}

static int copy_file(const struct project *p, const struct service *s, int fd,
                     const struct stat *st, const char *target, struct err *err)
{
	struct upload u = {.fd = fd};
	const struct remote_request request = {
		.source = next_bytes, .source_arg = &u, .source_len = st->st_size};
	auto_free char *url = url_of(s->id, NULL, target);
	char mode[8];

	(void)snprintf(mode, sizeof(mode), "%04o", st->st_mode & 0777);
	url = remote_query(url, "mode", mode);
	return remote_exchange(p->c->remote, "PUT", url, &request, NULL, err);
}

static int copy_one(const struct project *p, const struct service *s, const json_t *file,
                    struct err *err)
{
	const char *source = command_text(file, "source"), *target = command_text(file, "target");
	const int line = (int)command_number(file, "line");
	auto_free char *real = NULL;
	auto_fd int fd = -1;
	struct stat st;
	int r = project_find(p, source, line, &real, err);

	if (r < 0)
		return r;
	/* O_NOFOLLOW: the real path has no links, unless somebody puts one there just now. */
	fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", real);
	if (S_ISDIR(st.st_mode))
		r = copy_dir(p, s, take_fd(&fd), target, err);
	else if (S_ISREG(st.st_mode))
		r = copy_file(p, s, fd, &st, target, err);
	else
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "%s:%d: '%.100s' is neither a file nor a directory", p->file, line,
		               source);
	return r < 0 ? err_prefix(err, "%s:%d: %.80s", p->file, line, source) : 0;
}

int service_copy_in(const struct project *p, const struct service *s, struct err *err)
{
	const json_t *one;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(s->spec, "directories"), i, one)
	{
		auto_free char *url = remote_path("sandboxes", s->id, "files", "mkdir");
		auto_json json_t *body = json_pack("{s:O, s:s, s:b, s:s}", "path", one, "mode",
		                                   "1777", "parents", 1, "user", "root");

		r = remote_call(p->c->remote, "POST", url, body, NULL, err);
		if (r < 0)
			return err_prefix(err, "services.%s: %.80s", s->name,
			                  json_string_value(one));
	}
	json_array_foreach(json_object_get(s->spec, "files"), i, one)
	{
		r = copy_one(p, s, one, err);
		if (r < 0)
			break;
	}
	return r;
}
