// SPDX-License-Identifier: Apache-2.0
/* The header fields that a collector wants, such as its key, from a file that only root needs to
 * read. Errors name a line and never show it. */
#include "base/fd.h"
#include "telemetry/telemetry.h"

#include <fcntl.h>
#include <string.h>

#define FILE_MAX ((size_t)16 * 1024)

static int add(struct telemetry_headers *h, char *line)
{
	auto_call(buf_done) struct buf trial = BUF_INIT(FILE_MAX + 16);
	char *value = strchr(line, ':');

	if (!value || h->n == TELEMETRY_HEADERS_MAX)
		return -EINVAL;
	*value++ = '\0';
	value += strspn(value, " \t");
	if (http_encode_field(&trial, line, value) < 0)
		return -EINVAL;
	h->of[h->n++] = (struct http_field){line, value};
	return 0;
}

static void cut_blanks(char *line)
{
	size_t len = strlen(line);

	while (len > 0 && strchr(" \t\r", line[len - 1]))
		line[--len] = '\0';
}

static int read_lines(struct telemetry_headers *h, const char *setting, const char *path,
                      struct err *err)
{
	char *rest = h->text, *line;

	for (unsigned number = 1; (line = strsep(&rest, "\n")); number++) {
		cut_blanks(line);
		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (add(h, line) < 0)
			return err_field(err, setting,
			                 "line %u of '%s' is not 'Name: value', or is the %dth",
			                 number, path, TELEMETRY_HEADERS_MAX + 1);
	}
	return 0;
}

int telemetry_headers_read(struct telemetry_headers *h, const char *setting, const char *path,
                           struct err *err)
{
	ssize_t n;

	*h = (struct telemetry_headers){.text = xcalloc(1, FILE_MAX)};
	n = fd_read_file(AT_FDCWD, path, h->text, FILE_MAX);
	if (n >= 0 && strlen(h->text) == (size_t)n)
		return read_lines(h, setting, path, err);
	(void)err_field(err, setting, "cannot read '%s': %s", path,
	                n < 0 ? strerror((int)-n) : "it has a NUL");
	return err_hint(err, "give a file of up to 16 KiB with a 'Name: value' a line");
}

void telemetry_headers_done(struct telemetry_headers *h)
{
	if (h->text)
		explicit_bzero(h->text, FILE_MAX);
	free(h->text);
	*h = (struct telemetry_headers){0};
}
