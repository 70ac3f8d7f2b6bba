// SPDX-License-Identifier: Apache-2.0
#include "compat/e2b/code/code.h"

#include <string.h>

#define CELL_MAX ((size_t)4 * CODE_BYTES_MAX)

/* The indentation of the first line that has something. */
static size_t find_indent(const char *code, const char **ret)
{
	for (const char *line = code; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t blanks = strspn(line, " \t");

		if (line[blanks] && line[blanks] != '\n' && line[blanks] != '\r') {
			*ret = line;
			return blanks;
		}
	}
	return 0;
}

/* Runs it with the interpreter's own output, and is no value that would be shown. */
static int put_command(struct buf *out, const char *line, size_t len)
{
	json_t *text = json_stringn(line, len);
	char *literal = text ? json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
	int r = literal ? buf_printf(out,
	                             "(__import__('sys').stdout.flush(), "
	                             "__import__('os').system(%s), None)[2]",
	                             literal)
	                : -EINVAL;

	free(literal);
	json_decref(text);
	return r;
}

/* "%pip install x", as notebooks have it, by the interpreter's own pip. */
static int put_pip(struct buf *out, const char *words, size_t len)
{
	auto_free char *line = xasprintf("python3 -m pip%.*s", (int)len, words);

	return put_command(out, line, strlen(line));
}

static int put_line(struct buf *out, const char *line, size_t len)
{
	static const char pip[] = "%pip ";
	size_t blanks = 0;
	int r;

	while (blanks < len && (line[blanks] == ' ' || line[blanks] == '\t'))
		blanks++;
	if (len - blanks > strlen(pip) && strncmp(line + blanks, pip, strlen(pip)) == 0) {
		r = buf_append(out, line, blanks);
		blanks += strlen(pip) - 1;
		return r == 0 ? put_pip(out, line + blanks, len - blanks) : r;
	}
	if (blanks == len || line[blanks] != '!' || (blanks + 1 < len && line[blanks + 1] == '='))
		return buf_append(out, line, len);
	r = buf_append(out, line, blanks);
	return r == 0 ? put_command(out, line + blanks + 1, len - blanks - 1) : r;
}

char *cell_to_python(const char *code)
{
	auto_call(buf_done) struct buf out = BUF_INIT(CELL_MAX);
	const char *first = code;
	size_t indent = find_indent(code, &first);
	int r = 0;

	for (const char *line = code; r == 0 && *line;) {
		size_t len = strcspn(line, "\n");
		size_t skip = len >= indent && strncmp(line, first, indent) == 0 ? indent : 0;

		r = put_line(&out, line + skip, len - skip);
		line += len;
		if (r == 0 && *line)
			r = buf_append(&out, line++, 1);
	}
	return xstrdup(r == 0 ? buf_str(&out) : code);
}
