// SPDX-License-Identifier: Apache-2.0
#include "cli/session/cell_words.h"

#include "base/auto.h"

#include <ctype.h>
#include <string.h>

#define TIMEOUT_MS 2000
#define TOLD_MAX   200 /* more than a screen has room for */

/* Each calls something that has no value, so that nothing is shown and `_` stays; WORD is in its
 * place between quotes. */
#define PYTHON                                                                                     \
	"(lambda c: print(*dict.fromkeys(filter(None, map(lambda i: c.complete('%s', i), "         \
	"range(200)))), sep='\\n'))(__import__('rlcompleter').Completer(globals()))"
#define NODE                                                                                       \
	"((w) => { const i = w.lastIndexOf('.'), names = new Set(); let o = globalThis;"           \
	" try { if (i >= 0) o = (0, eval)(w.slice(0, i)); } catch { return; }"                     \
	" if (o === null || o === undefined) return;"                                              \
	" for (let p = Object(o); p; p = Object.getPrototypeOf(p))"                                \
	" for (const n of Object.getOwnPropertyNames(p)) names.add(w.slice(0, i + 1) + n);"        \
	" console.log([...names].filter((n) => n.startsWith(w) && /^[\\w$.]+$/.test(n)).sort()"    \
	".slice(0, 200).join('\\n')); })('%s')"
#define R                                                                                          \
	"(function(w) cat(head(sort(grep(paste0('^', gsub('.', '[.]', w, fixed = TRUE)), "         \
	"unique(unlist(lapply(search(), ls, all.names = TRUE))), value = TRUE)), 200), sep = "     \
	"'\\n'))('%s')"
/* In a subshell that ends as the last command did: $? stays. */
#define BASH_COMMANDS "(s=$?; compgen -abck -A function -f -- '%s'; exit $s)"
#define BASH_FILES    "(s=$?; compgen -f -- '%s'; exit $s)"
#define BASH_NAMES    "(s=$?; compgen -P '$' -v -- '%s'; exit $s)"

static bool is_bash(const struct cell_words *w)
{
	return strcmp(w->language, "bash") == 0;
}

/* So many bytes at the end are the word: of a name with its dots, in bash of anything that needs
 * no quotes. */
static size_t word_length(const struct cell_words *w, const char *text)
{
	size_t len = strlen(text), n = 0;

	for (; n < len; n++) {
		unsigned char c = (unsigned char)text[len - n - 1];

		if (is_bash(w) ? isspace(c) || strchr("'\"\\`;|&()<>*?[", c)
		               : !isalnum(c) && c < 0x80 && !strchr("_.$", c))
			break;
		if (is_bash(w) && c == '$')
			return n + 1;
	}
	return n;
}

static const char *code_for(const struct cell_words *w, const char *text, const char *word)
{
	size_t before = strlen(text) - strlen(word);

	if (strcmp(w->language, "python") == 0)
		return PYTHON;
	if (strcmp(w->language, "r") == 0)
		return R;
	if (strcmp(w->language, "java") == 0)
		return NULL; /* JShell would compile a snippet for each word */
	if (!is_bash(w))
		return NODE;
	if (*word == '$')
		return BASH_NAMES;
	while (before > 0 && isspace((unsigned char)text[before - 1]))
		before--;
	return before == 0 || strchr(";|&(", text[before - 1]) ? BASH_COMMANDS : BASH_FILES;
}

static char *fill_in(const char *code, const char *word)
{
	const char *place = strstr(code, "%s");

	return xasprintf("%.*s%s%s", (int)(place - code), code, word, place + 2);
}

/* Each once, without those that a terminal would take for something else. */
static char *clean(const char *output)
{
	struct buf out = BUF_INIT(64 * 1024);
	size_t n = 0;
	char *text;

	for (const char *at = output; *at && n < TOLD_MAX; at += *at == '\n') {
		size_t len = strcspn(at, "\n");
		auto_free char *line = xasprintf("%.*s\n", (int)len, at);
		auto_free char *framed = xasprintf("\n%s", buf_str(&out));
		auto_free char *wanted = xasprintf("\n%s", line);
		bool is_plain = len > 0;

		for (size_t i = 0; i < len; i++)
			is_plain = is_plain && !iscntrl((unsigned char)at[i]);
		if (is_plain && !strstr(framed, wanted) && buf_append_str(&out, line) == 0)
			n++;
		at += len;
	}
	if (out.len > 0)
		buf_truncate(&out, out.len - 1);
	text = xstrdup(buf_str(&out));
	buf_done(&out);
	return text;
}

char *cell_words(void *arg, const char *text, size_t *ret_len)
{
	const struct cell_words *w = arg;
	size_t len = word_length(w, text);
	const char *word = text + strlen(text) - len;
	const char *asked = is_bash(w) && *word == '$' ? word + 1 : word;
	const char *form = len > 0 ? code_for(w, text, word) : NULL;
	auto_free char *code = form ? fill_in(form, asked) : NULL;
	auto_free char *path = remote_path("sandboxes", w->sandbox, "code");
	auto_json json_t *reply = NULL, *body = NULL;
	const char *output;
	struct err err;

	if (!code)
		return NULL;
	body = json_pack("{s:s, s:s, s:s, s:i}", "code", code, "language", w->language, "on_busy",
	                 "refuse", "timeout_ms", TIMEOUT_MS);
	if (body && w->context)
		(void)json_object_set_new(body, "context", json_string(w->context));
	if (!body || remote_call(w->remote, "POST", path, body, &reply, &err) < 0)
		return NULL;
	output = json_string_value(json_object_get(reply, "stdout"));
	*ret_len = len;
	return output ? clean(output) : NULL;
}
