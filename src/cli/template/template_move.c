// SPDX-License-Identifier: Apache-2.0
/*
 * What is sent is not looked into here: the daemon has a sandbox for that. A directory goes as a
 * tar, with the owners that its files have; all else goes as it is.
 */
#include "cli/template/template_move.h"

#include "cli/copy/mktar.h"
#include "cli/remote/download.h"
#include "cli/remote/lines.h"
#include "cli/template/cmd_template.h"
#include "cli/term/progress.h"
#include "cli/term/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_MAX_BYTES (1024 * 1024)

struct sending {
	int fd;
	struct mktar *tar; /* of a directory; else the file's own bytes */
	struct progress progress;
	size_t n_skipped;
	bool has_line;    /* on the terminal */
	json_t *made;     /* the template */
	struct err error; /* or why there is none */
	bool has_error;
};

static ssize_t next_bytes(void *arg, char *data, size_t size, struct err *err)
{
	struct sending *s = arg;
	ssize_t n;

	if (s->tar) {
		n = mktar_read(s->tar, data, size, err);
	} else {
		do
			n = read(s->fd, data, size);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the archive");
	}
	if (n > 0)
		progress_add(&s->progress, (uint64_t)n);
	else if (n == 0)
		progress_done(&s->progress);
	return n;
}

static void show_phase(struct sending *s, const json_t *event)
{
	char bytes[16];

	if (!isatty(STDERR_FILENO))
		return;
	text_bytes(command_number(event, "bytes"), bytes);
	(void)fprintf(stderr, "\r\x1b[K%s, %s", command_text(event, "phase"), bytes);
	if (json_object_get(event, "total_bytes")) {
		text_bytes(command_number(event, "total_bytes"), bytes);
		(void)fprintf(stderr, " of %s", bytes);
	}
	(void)fflush(stderr);
	s->has_line = true;
}

static void take_error(struct sending *s, const json_t *error)
{
	s->has_error = true;
	(void)err_set(&s->error, remote_error_code(command_text(error, "code")), 0, "%s",
	              command_text(error, "message"));
	if (*command_text(error, "hint"))
		(void)err_hint(&s->error, "%s", command_text(error, "hint"));
}

static int on_line(void *arg, const char *line, size_t len, struct err *err)
{
	struct sending *s = arg;
	auto_json json_t *event = NULL;
	const char *type;
	int r = json_parse(line, len, &event, err);

	if (r < 0)
		return r;
	type = command_text(event, "type");
	if (strcmp(type, "progress") == 0) {
		show_phase(s, event);
		return 0;
	}
	if (s->has_line)
		(void)fputs("\r\x1b[K", stderr);
	if (strcmp(type, "created") == 0)
		s->made = json_incref(json_object_get(event, "template"));
	else
		take_error(s, json_object_get(event, "error"));
	return 1;
}

static void on_skip(const char *name, const char *why, void *arg)
{
	struct sending *s = arg;
	auto_free char *shown = text_escaped(name);

	s->n_skipped++;
	(void)fprintf(stderr, "cloche: left out '%s': %s\n", shown, why);
}

static int open_source(struct sending *s, const char *path, struct stat *st, struct err *err)
{
	int r;

	s->fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, st) < 0)
		return err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path);
	if (!S_ISDIR(st->st_mode))
		return 0;
	r = mktar_new(take_fd(&s->fd), on_skip, s, &s->tar, err);
	if (r == 0)
		mktar_keep_owners(s->tar);
	return r;
}

/* "dir/my-app.tar.zst" is "my-app". */
static char *name_after(const char *path)
{
	static const char *const ends[] = {".gz", ".zst", ".tgz", ".tar"};
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/'; start--)
		;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t len = strlen(ends[i]);

		if (end - start > len && memcmp(path + end - len, ends[i], len) == 0)
			end -= len;
	}
	return xstrndup(path + start, end - start);
}

static char *make_url(const struct template_import_opts *o, const char *name)
{
	char *url = remote_path("templates", name, "archive");

	if (o->ref)
		url = remote_query(url, "ref", o->ref);
	if (o->is_shared)
		url = remote_query(url, "shared", "1");
	if (o->is_replacing)
		url = remote_query(url, "replace", "1");
	return o->is_small ? remote_query(url, "small", "1") : url;
}

static int read_events(struct command *c, struct sending *s, struct err *err)
{
	int r = lines_read(c->remote, LINE_MAX_BYTES, on_line, s, err);

	if (r < 0)
		return r;
	if (s->has_error) {
		*err = s->error;
		return -EINVAL;
	}
	return s->made ? 0
	               : err_set(err, ERR_UNAVAILABLE, 0,
	                         "the connection broke before the template was there");
}

static int send_all(struct command *c, struct sending *s, const char *url, int64_t len,
                    struct err *err)
{
	const struct remote_request request = {.accept = "application/x-ndjson",
	                                       .source = next_bytes,
	                                       .source_arg = s,
	                                       .source_len = len};
	int r;

	progress_init(&s->progress, len > 0 ? (uint64_t)len : 0);
	r = remote_begin(c->remote, "PUT", url, &request, err);
	progress_done(&s->progress);
	return r < 0 ? r : read_events(c, s, err);
}
static void print_made(const struct command *c, const struct sending *s, const char *name)
{
	char size[16];

	if (c->common.json) {
		command_print_json(s->made);
		return;
	}
	text_bytes(command_number(s->made, "bytes"), size);
	printf("%s\n", command_text(s->made, "id"));
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s: %s\n", name, size);
}

int template_import(struct command *c, struct err *err)
{
	const struct template_import_opts *o = &((const struct template_opts *)c->arg)->import;
	const char *path = c->words[0];
	auto_free char *name = o->name ? xstrdup(o->name) : name_after(path);
	auto_free char *url = NULL;
	struct sending s = {.fd = -1};
	struct stat st;
	int r;

	if (!*name || (!o->name && strcmp(path, "-") == 0))
		return err_set(err, ERR_INVALID_FIELD, 0, "it needs a name: --name NAME");
	url = make_url(o, name);
	r = open_source(&s, path, &st, err);
	if (r == 0)
		r = send_all(c, &s, url, S_ISREG(st.st_mode) ? st.st_size : -1, err);
	if (r == 0)
		print_made(c, &s, name);
	if (r == 0 && s.n_skipped > 0)
		r = err_set(err, ERR_INTERNAL, 0, "the template is not complete: %zu left out",
		            s.n_skipped);
	json_decref(s.made);
	mktar_free(s.tar);
	if (s.fd >= 0)
		(void)close(s.fd);
	return r;
}

int template_export(struct command *c, struct err *err)
{
	const struct template_export_opts *o = &((const struct template_opts *)c->arg)->export;
	auto_free char *url = remote_path("templates", c->words[0], "archive");

	if (!o->path && isatty(STDOUT_FILENO)) {
		(void)err_set(err, ERR_INVALID_FIELD, 0,
		              "an archive cannot be printed to a terminal");
		return err_hint(err, "cloche template export %s > %s.tar", c->words[0],
		                c->words[0]);
	}
	return download(c->remote, url, "application/x-tar", o->path, err);
}

/* "host/team/app:1.2" is "app-1.2". */
static char *name_of_image(const char *ref)
{
	const char *slash = strrchr(ref, '/'), *from = slash ? slash + 1 : ref;
	char *name = xstrndup(from, strcspn(from, "@"));

	for (char *p = name; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
		else if (*p == ':' || *p == '_')
			*p = '-';
	return name;
}

static int make_pull_body(const struct template_pull_opts *o, const char *ref, json_t **ret,
                          struct err *err)
{
	const char *password = getenv("CLOCHE_REGISTRY_PASSWORD");
	json_t *body = json_pack("{sssbsbsb}", "ref", ref, "shared", o->is_shared, "replace",
	                         o->is_replacing, "small", o->is_small);

	*ret = body;
	if (!body)
		return err_field(err, "ref", "must be UTF-8");
	if (!o->username)
		return o->token_host ? err_set(err, ERR_INVALID_FIELD, 0,
		                               "--token-host goes with --username")
		                     : 0;
	if (!password || !*password)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "--username needs the password in $CLOCHE_REGISTRY_PASSWORD");
	(void)json_object_set_new(
		body, "credentials",
		json_pack("{ssss}", "username", o->username, "password", password));
	if (o->token_host)
		(void)json_object_set_new(json_object_get(body, "credentials"), "token_host",
		                          json_string(o->token_host));
	return 0;
}

int template_pull(struct command *c, struct err *err)
{
	const struct template_pull_opts *o = &((const struct template_opts *)c->arg)->pull;
	auto_free char *name = o->name ? xstrdup(o->name) : name_of_image(c->words[0]);
	auto_free char *url = remote_path("templates", name, "pull");
	auto_json json_t *body = NULL;
	struct sending s = {.fd = -1};
	int r = make_pull_body(o, c->words[0], &body, err);

	if (r == 0)
		r = remote_begin(
			c->remote, "POST", url,
			&(struct remote_request){.accept = "application/x-ndjson", .body = body},
			err);
	if (r == 0)
		r = read_events(c, &s, err);
	if (r == 0)
		print_made(c, &s, name);
	json_decref(s.made);
	return r;
}
