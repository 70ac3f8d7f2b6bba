// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: one walk over the text with a cursor. Quotes and comments are skipped as
 * units, brackets are counted; what is still open at the end asks for another line.
 */
#include "cli/prompt/cell_complete.h"

#include "base/auto.h"

#include <string.h>

#define NESTING_MAX 256 /* deeper is taken as whole: the interpreter will tell */

/* Behind the next unescaped quote. Where there is none: NULL, or with one_line the line's end, as a
 * string that ends nowhere is a mistake that another line does not mend. */
static const char *skip_quoted(const char *p, char quote, bool has_escapes, bool one_line)
{
	for (; *p; p++) {
		if (*p == '\\' && has_escapes && p[1])
			p++;
		else if (*p == quote)
			return p + 1;
		else if (*p == '\n' && one_line)
			return p;
	}
	return one_line ? p : NULL;
}

static const char *skip_line(const char *p)
{
	return p + strcspn(p, "\n");
}

static bool last_line_is_blank(const char *text)
{
	const char *newline = strrchr(text, '\n');

	return newline && newline[1 + strspn(newline + 1, " \t")] == '\0';
}

static bool ends_in_two_blank_lines(const char *text)
{
	const char *newline = strrchr(text, '\n');

	return last_line_is_blank(text) && memrchr(text, '\n', (size_t)(newline - text)) &&
	       newline[-1] == '\n';
}

static bool has_word(const char *p, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0)
			return true;
	return false;
}
#define HAS_WORD(p, len, ...)                                                                      \
	has_word(p, len, (const char *const[]){__VA_ARGS__},                                       \
	         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static size_t word_length(const char *p)
{
	size_t n = 0;

	while ((p[n] >= 'a' && p[n] <= 'z') || (p[n] >= 'A' && p[n] <= 'Z') || p[n] == '_' ||
	       (p[n] >= '0' && p[n] <= '9'))
		n++;
	return n;
}

/* Python */

static const char *skip_python_string(const char *p)
{
	char quote = *p;

	if (p[1] == quote && p[2] == quote) {
		char three[] = {quote, quote, quote, '\0'};

		for (p += 3; (p = strpbrk(p, (char[]){quote, '\\', '\0'})); p++) {
			if (*p == '\\' && p[1])
				p++;
			else if (strncmp(p, three, 3) == 0)
				return p + 3;
		}
		return NULL;
	}
	return skip_quoted(p + 1, quote, /* has_escapes= */ true, /* one_line= */ true);
}

static bool begins_block(const char *text)
{
	return *text == '@' || HAS_WORD(text, word_length(text), "if", "for", "while", "def",
	                                "class", "with", "try", "async");
}

static bool python_is_whole(const char *text)
{
	bool is_block = begins_block(text);
	char last = '\n'; /* what stands last, but for blanks and comments */
	unsigned depth = 0;
	const char *p = text;

	while (p && *p) {
		char c = *p;

		if (c == '#') {
			p = skip_line(p);
			continue;
		}
		if (c == '\n')
			is_block = is_block || (last == ':' && depth == 0);
		if (c == '\\' && p[1] == '\n') {
			p += 2;
			continue;
		}
		if (strchr("([{", c))
			depth++;
		else if (strchr(")]}", c) && depth > 0)
			depth--;
		if (c != ' ' && c != '\t')
			last = c;
		p = c == '"' || c == '\'' ? skip_python_string(p) : p + 1;
	}
	if (!p || depth > 0 || last == '\\')
		return false;
	return last != ':' && (!is_block || last_line_is_blank(text));
}

/* JavaScript and TypeScript */

struct nesting {
	char open[NESTING_MAX]; /* a bracket, '`' for a template, '$' for ${ in one */
	size_t n;
};

static void push(struct nesting *s, char c)
{
	if (s->n < NESTING_MAX)
		s->open[s->n++] = c;
}

static char top(const struct nesting *s)
{
	return s->n > 0 ? s->open[s->n - 1] : '\0';
}

static const char *step_template(struct nesting *s, const char *p)
{
	if (*p == '\\' && p[1])
		return p + 2;
	if (*p == '`')
		s->n--;
	if (*p == '$' && p[1] == '{') {
		push(s, '$');
		return p + 2;
	}
	return p + 1;
}

/* A '/' behind a value divides; elsewhere it begins a regular expression. */
static bool begins_regex(char last)
{
	return strchr("\n(,=:[!&|?{};+-*%~^<>", last) != NULL;
}

static const char *skip_regex(const char *p)
{
	bool in_class = false;

	for (p++; *p && *p != '\n'; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '[')
			in_class = true;
		else if (*p == ']')
			in_class = false;
		else if (*p == '/' && !in_class)
			return p + 1;
	}
	return p;
}

/* One unit of code outside of templates; NULL where it is not ended. */
static const char *step_javascript(struct nesting *s, const char *p, char last)
{
	const char *end;

	switch (*p) {
	case '"':
	case '\'':
		return skip_quoted(p + 1, *p, /* has_escapes= */ true, /* one_line= */ true);
	case '`':
	case '(':
	case '[':
	case '{':
		push(s, *p);
		return p + 1;
	case ')':
	case ']':
	case '}':
		if (s->n > 0)
			s->n--;
		return p + 1;
	case '/':
		if (p[1] == '/')
			return skip_line(p);
		if (p[1] == '*') {
			end = strstr(p + 2, "*/");
			return end ? end + 2 : NULL;
		}
		return begins_regex(last) ? skip_regex(p) : p + 1;
	default:
		return p + 1;
	}
}

static bool javascript_is_whole(const char *text)
{
	struct nesting s = {.n = 0};
	char last = '\n';
	const char *p = text;

	while (p && *p) {
		bool is_comment = p[0] == '/' && (p[1] == '/' || p[1] == '*');
		char c = *p;

		p = top(&s) == '`' ? step_template(&s, p) : step_javascript(&s, p, last);
		if (!is_comment && !strchr(" \t\n", c))
			last = c;
	}
	/* An operator waits for its other side; +, - and / may as well stand behind theirs. */
	return p && s.n == 0 && !strchr("=,&|?:.*%<^", last);
}

/* bash */

struct shell {
	unsigned words;      /* open ones that are ended by others: if and fi */
	unsigned brackets;   /* open ones: a lone ')' is of a pattern of case */
	bool is_command;     /* the next word is one, not an argument */
	bool waits;          /* a pipe or a list goes on */
	const char *heredoc; /* its word, and … */
	size_t heredoc_len;  /* … 0 = none */
	bool strips_tabs;
};

static void take_shell_word(struct shell *s, const char *p, size_t len)
{
	bool was_command = s->is_command;

	s->waits = false;
	s->is_command = false;
	if (len == 1 && *p == '{') {
		s->words++;
		s->is_command = true;
	}
	if (!was_command)
		return;
	if (HAS_WORD(p, len, "if", "while", "until")) {
		s->words++;
		s->is_command = true;
	} else if (HAS_WORD(p, len, "for", "case", "select")) {
		s->words++;
	} else if (HAS_WORD(p, len, "fi", "done", "esac", "}")) {
		s->words -= s->words > 0;
	} else if (HAS_WORD(p, len, "then", "else", "elif", "do", "!", "time")) {
		s->is_command = true;
	}
}

/* "<<WORD", "<<-'WORD'": the text begins on the next line. */
static const char *take_heredoc(struct shell *s, const char *p)
{
	p += 2;
	s->strips_tabs = *p == '-';
	p += s->strips_tabs;
	p += strspn(p, " \t'\"\\");
	s->heredoc = p;
	s->heredoc_len = strcspn(p, " \t\n'\";&|<>()");
	p += s->heredoc_len;
	return p + strspn(p, "'\"");
}

/* p is at the newline before its text. NULL where its end has not come. */
static const char *skip_heredoc(struct shell *s, const char *p)
{
	while (*p) {
		const char *line = p + 1;

		if (s->strips_tabs)
			line += strspn(line, "\t");
		p = skip_line(line);
		if ((size_t)(p - line) == s->heredoc_len &&
		    memcmp(line, s->heredoc, s->heredoc_len) == 0) {
			s->heredoc_len = 0;
			return p;
		}
	}
	return NULL;
}

static const char *skip_shell_quotes(const char *text, const char *p)
{
	bool is_dollar = p > text && p[-1] == '$';

	return skip_quoted(p + 1, *p, /* has_escapes= */ *p != '\'' || is_dollar,
	                   /* one_line= */ false);
}

static const char *step_operator(struct shell *s, const char *p)
{
	s->is_command = true;
	switch (*p) {
	case '(':
		s->brackets++;
		break;
	case ')':
		s->brackets -= s->brackets > 0;
		break;
	case '|':
		s->waits = true;
		break;
	case '&':
		s->waits = p[1] == '&';
		return p + 1 + s->waits;
	case ';':
		s->waits = false;
		break;
	default:
		break;
	}
	return p + 1;
}

static const char *step_shell(struct shell *s, const char *text, const char *p)
{
	bool at_word = p == text || strchr(" \t\n;&|()", p[-1]);
	size_t len;

	if (*p == '\n' && s->heredoc_len > 0) {
		s->is_command = true;
		return skip_heredoc(s, p);
	}
	if (*p == '\n') {
		s->is_command = true;
		return p + 1;
	}
	if (*p == ' ' || *p == '\t')
		return p + 1;
	if (*p == '#' && at_word)
		return skip_line(p);
	if (*p == '\\')
		return p[1] ? p + 2 : NULL;
	if (strncmp(p, "<<<", 3) == 0)
		return p + 3;
	if (p[0] == '<' && p[1] == '<')
		return take_heredoc(s, p);
	if (strchr(";&|()", *p))
		return step_operator(s, p);
	if (strchr("'\"`", *p)) {
		s->is_command = s->waits = false;
		return skip_shell_quotes(text, p);
	}
	len = strcspn(p, " \t\n;&|()<>'\"`\\");
	if (len == 0)
		return p + 1;
	take_shell_word(s, p, len);
	return p + len;
}

static bool bash_is_whole(const char *text)
{
	struct shell s = {.is_command = true};
	const char *p = text;

	while (p && *p)
		p = step_shell(&s, text, p);
	return p && s.words + s.brackets == 0 && !s.waits && s.heredoc_len == 0;
}

/* R */

static bool r_is_whole(const char *text)
{
	char last = '\n'; /* what stands last, but for blanks and comments */
	unsigned depth = 0;
	const char *p = text;

	while (p && *p) {
		if (*p == '#') {
			p = skip_line(p);
			continue;
		}
		if (strchr("([{", *p))
			depth++;
		else if (strchr(")]}", *p) && depth > 0)
			depth--;
		if (!strchr(" \t\n", *p))
			last = *p;
		p = strchr("\"'`", *p) ? skip_quoted(p + 1, *p, /* has_escapes= */ *p != '`',
		                                     /* one_line= */ false)
		                       : p + 1;
	}
	/* An operator waits for its other side; of `<-` the last sign is looked at. */
	return p && depth == 0 && !strchr("+-*/^=,&|~<>%", last);
}

bool cell_is_complete(const char *language, const char *text)
{
	if (strcmp(language, "python") == 0)
		return python_is_whole(text);
	if (ends_in_two_blank_lines(text))
		return true;
	if (strcmp(language, "r") == 0)
		return r_is_whole(text);
	return strcmp(language, "bash") == 0 ? bash_is_whole(text) : javascript_is_whole(text);
}
