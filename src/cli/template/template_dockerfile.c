// SPDX-License-Identifier: Apache-2.0
#include "cli/template/template_dockerfile.h"

#include "base/fd.h"
#include "cli/copy/ignore.h"
#include "cli/copy/mktar.h"
#include "cli/term/progress.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX (128 * 1024 + 1)

struct sending {
	struct mktar *tar;
	struct progress progress;
};

/* The Dockerfile that is meant, and the directory that its files are in; the caller frees both. */
static int find_paths(const char *path, const char *context, char **ret_file, char **ret_dir,
                      struct err *err)
{
	struct stat st, in;
	char *slash;

	if (stat(path, &st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path);
	if (context && (stat(context, &in) < 0 || !S_ISDIR(in.st_mode)))
		return err_set(err, ERR_NOT_FOUND, 0, "there is no directory '%s'", context);
	*ret_file = S_ISDIR(st.st_mode) ? xasprintf("%s/Dockerfile", path) : xstrdup(path);
	*ret_dir = xstrdup(context ? context : *ret_file);
	slash = context ? NULL : strrchr(*ret_dir, '/');
	if (slash)
		slash[slash == *ret_dir] = '\0'; /* "/Dockerfile" is in "/" */
	else if (!context)
		(*ret_dir)[0] = '.', (*ret_dir)[1] = '\0';
	return 0;
}

/* FILE.dockerignore beside the Dockerfile, else .dockerignore of the directory; NULL: neither. */
static int read_ignore(const char *file, int dir_fd, struct ignore **ret, struct err *err)
{
	auto_free char *text = xcalloc(1, TEXT_MAX), *own = xasprintf("%s.dockerignore", file);
	int r = fd_read_file(AT_FDCWD, own, text, TEXT_MAX);

	if (r == -ENOENT)
		r = fd_read_file(dir_fd, ".dockerignore", text, TEXT_MAX);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(err, ERR_INVALID_FIELD, -r, "cannot read .dockerignore");
	*ret = ignore_new(text, strlen(text));
	return 0;
}

static ssize_t next_bytes(void *arg, char *data, size_t size, struct err *err)
{
	struct sending *s = arg;
	ssize_t n = mktar_read(s->tar, data, size, err);

	if (n > 0)
		progress_add(&s->progress, (uint64_t)n);
	else if (n == 0)
		progress_done(&s->progress);
	return n;
}

static void on_skip(const char *name, const char *why, void *arg)
{
	auto_free char *shown = text_escaped(name);

	(void)arg;
	(void)fprintf(stderr, "cloche: left out '%s': %s\n", shown, why);
}

static int send_files(struct command *c, const char *file, const char *dir, json_t *body,
                      struct err *err)
{
	auto_free char *url = remote_path("builds", "files");
	auto_json json_t *reply = NULL;
	struct ignore *ignore = NULL;
	struct sending s = {0};
	const struct remote_request request = {
		.source = next_bytes, .source_arg = &s, .source_len = -1};
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read the directory '%s'", dir);
	r = read_ignore(file, fd, &ignore, err);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	r = mktar_new(fd, on_skip, NULL, &s.tar, err);
	if (r == 0) {
		mktar_ignore(s.tar, ignore);
		progress_init(&s.progress, 0);
		r = remote_exchange(c->remote, "PUT", url, &request, &reply, err);
		progress_done(&s.progress);
	}
	if (r == 0)
		(void)json_object_set(body, "files", json_object_get(reply, "files"));
	mktar_free(s.tar);
	ignore_free(ignore);
	return r;
}

/* The last part of the directory's real path, if it can be a template's name. */
static char *name_after(const char *dir)
{
	auto_free char *real = realpath(dir, NULL);
	const char *slash = real ? strrchr(real, '/') : NULL;
	char *name = xstrdup(slash ? slash + 1 : "");

	for (char *c = name; *c; c++) {
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
		else if (*c == '_' || *c == ' ')
			*c = '-';
	}
	return name;
}

static int put_args(const struct opt_list *list, json_t *body, struct err *err)
{
	json_t *args = json_object();

	if (list->n > 0)
		(void)json_object_set(body, "build_args", args);
	for (size_t i = 0; i < list->n; i++) {
		const char *word = list->items[i], *equals = strchr(word, '=');
		auto_free char *name =
			xstrndup(word, equals ? (size_t)(equals - word) : strlen(word));
		const char *value = equals ? equals + 1 : getenv(name);

		if (!value) {
			json_decref(args);
			return err_set(
				err, ERR_INVALID_FIELD, 0,
				"--build-arg %s: give a value, or set it in your environment",
				name);
		}
		(void)json_object_set_new(args, name, json_string(value));
	}
	json_decref(args);
	return 0;
}

int template_put_dockerfile(struct command *c, const struct template_dockerfile_opts *o,
                            const char *context, json_t *body, struct err *err)
{
	auto_free char *file = NULL, *dir = NULL, *name = NULL;
	auto_free char *text = xcalloc(1, TEXT_MAX);
	int r = find_paths(o->path, context, &file, &dir, err);

	if (r < 0)
		return r;
	r = fd_read_file(AT_FDCWD, file, text, TEXT_MAX);
	if (r < 0)
		return err_set(err, ERR_INVALID_FIELD, -r, "cannot read '%s'", file);
	if (json_object_set_new(body, "dockerfile", json_string(text)) < 0)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not a text in UTF-8", file);
	name = o->name ? xstrdup(o->name) : name_after(dir);
	if (!*name)
		return err_set(err, ERR_INVALID_FIELD, 0, "it needs a name: --name NAME");
	(void)json_object_set_new(body, "name", json_string(name));
	if (o->target)
		(void)json_object_set_new(body, "target", json_string(o->target));
	r = put_args(&o->args, body, err);
	return r == 0 ? send_files(c, file, dir, body, err) : r;
}
