// SPDX-License-Identifier: Apache-2.0
#include "cli/session/show.h"

#include "base/fd.h"
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX (32 * 1024 * 1024) /* a message is at most half of that */

void show_finish_line(struct show *s)
{
	if (s->output.is_mid_line)
		(void)!fd_write_all(STDOUT_FILENO, "\n", 1);
	s->output.is_mid_line = false;
}

static int print_lines(int fd, const char *text, size_t len, struct err *err)
{
	struct buf b = BUF_INIT(TEXT_MAX);
	int r;

	text_escape_lines(&b, text, len);
	r = fd_write_all(fd, buf_str(&b), b.len);
	if (r == 0)
		r = fd_write_all(fd, "\n", 1);
	buf_done(&b);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write a result") : 0;
}

static void tell_image(struct show *s, const char *mime, const json_t *value)
{
	auto_free char *path = NULL;
	auto_free char *shown = NULL;
	struct err err;

	if (!s->images.dir)
		return;
	if (result_image_save(&s->images, mime, value, &path, &err) < 0) {
		(void)text_fail(&err);
		return;
	}
	shown = text_escaped(path);
	(void)fprintf(stderr, "[%s saved: %s]\n", mime, shown);
}

/* The text is what is shown; of other forms only the names are. */
static void tell_forms(struct show *s, const json_t *data)
{
	struct buf names = BUF_INIT(512);
	const char *mime;
	json_t *value;

	json_object_foreach (unconst(data), mime, value) {
		if (result_image_is_one(mime))
			tell_image(s, mime, value);
		else if (strcmp(mime, "text/plain") != 0 &&
		         buf_append_str(&names, names.len ? ", " : "") == 0)
			text_escape(&names, mime, strlen(mime));
	}
	if (s->names_forms && names.len > 0)
		(void)fprintf(stderr, "[also as %s]\n", buf_str(&names));
	buf_done(&names);
}

static int show_value(struct show *s, const json_t *event, struct err *err)
{
	const json_t *data = json_object_get(event, "data");
	const json_t *text = json_object_get(data, "text/plain");
	int r = 0;

	show_finish_line(s);
	if (json_is_string(text))
		r = print_lines(STDOUT_FILENO, json_string_value(text), json_string_length(text),
		                err);
	if (r == 0)
		tell_forms(s, data);
	return r;
}

static int show_error(struct show *s, const json_t *error, struct err *err)
{
	const json_t *traceback = json_object_get(error, "traceback");
	auto_free char *summary = NULL, *hint = NULL;
	const json_t *line;
	size_t i;
	int r = 0;

	show_finish_line(s);
	json_array_foreach(traceback, i, line)
	{
		if (r == 0 && json_is_string(line))
			r = print_lines(STDERR_FILENO, json_string_value(line),
			                json_string_length(line), err);
	}
	if (json_array_size(traceback) == 0) {
		summary = xasprintf("%s: %s", command_text(error, "name"),
		                    command_text(error, "message"));
		r = print_lines(STDERR_FILENO, summary, strlen(summary), err);
	}
	if (r == 0 && json_is_string(json_object_get(error, "hint"))) {
		hint = xasprintf("cloche: %s", command_text(error, "hint"));
		r = print_lines(STDERR_FILENO, hint, strlen(hint), err);
	}
	return r;
}

int show_event(struct show *s, const json_t *event, const char *line, size_t len, struct err *err)
{
	const char *type = command_text(event, "type");
	int r = output_event(&s->output, event, line, len, err);

	if (r < 0 || s->output.mode == OUTPUT_EVENTS)
		return r;
	if (strcmp(type, "result") == 0 || strcmp(type, "display") == 0)
		return show_value(s, event, err);
	if (strcmp(type, "error") == 0)
		return show_error(s, json_object_get(event, "error"), err);
	return 0;
}
