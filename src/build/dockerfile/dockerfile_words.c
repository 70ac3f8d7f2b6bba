// SPDX-License-Identifier: Apache-2.0
#include "build/dockerfile/dockerfile_words.h"

#include "base/buf.h"
#include "build/dockerfile/dockerfile_lines.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX    8 /* of ${a:-${b:-…}} */
#define NAME_MAX_LEN 128

/* A word on its way. */
struct word {
	const struct docker_scope *scope;
	struct buf out;
	unsigned depth;
	bool has_quotes; /* then it is a word even if it is empty */
	struct err *err;
};

static bool is_name(char c, bool is_first)
{
	return isalpha((unsigned char)c) || c == '_' || (!is_first && isdigit((unsigned char)c));
}

static int put(struct word *w, const char *text, size_t len)
{
	return buf_append(&w->out, text, len) == 0
	               ? 0
	               : dockerfile_error(w->err, w->scope->line, "a word has more than %d bytes",
	                                  DOCKER_WORD_MAX);
}

static int read_until(struct word *w, const char **text, const char *stops);

/* The part behind the operator, up to the '}'; expanded into a word of its own. */
static int read_operand(struct word *w, const char **text, char **ret)
{
	struct word inner = {.scope = w->scope,
	                     .out = BUF_INIT(DOCKER_WORD_MAX),
	                     .depth = w->depth + 1,
	                     .err = w->err};
	int r = 0;

	if (inner.depth > DEPTH_MAX)
		r = dockerfile_error(w->err, w->scope->line, "variables are nested too deep");
	if (r == 0)
		r = read_until(&inner, text, "}");
	if (r == 0 && **text != '}')
		r = dockerfile_error(w->err, w->scope->line, "a '${' has no '}'");
	if (r == 0)
		(*text)++;
	*ret = xstrdup(buf_str(&inner.out));
	buf_done(&inner.out);
	return r;
}

/* Behind "${NAME". */
static int read_braced(struct word *w, const char **text, const char *name)
{
	const char *value = w->scope->find(name, w->scope->arg);
	bool has_colon = (*text)[0] == ':';
	char operator=(*text)[has_colon];
	bool is_there = value && (!has_colon || *value);
	auto_free char *operand = NULL;
	int r;

	if (!has_colon && operator== '}') {
		(*text)++;
		return put(w, value ? value : "", value ? strlen(value) : 0);
	}
	if (!operator|| !strchr("-+?", operator))
		return dockerfile_error(
			w->err, w->scope->line,
			"${%.64s%.1s…}: of these, only :-, -, :+, +, :? and ? are known", name,
			*text);
	*text += has_colon + 1;
	r = read_operand(w, text, &operand);
	if (r < 0)
		return r;
	if (operator== '?' && !is_there)
		return dockerfile_error(w->err, w->scope->line, "%.64s: %.200s", name,
		                        *operand ? operand : "is not set");
	if (operator== '+')
		return is_there ? put(w, operand, strlen(operand)) : 0;
	return is_there ? put(w, value, strlen(value)) : put(w, operand, strlen(operand));
}

/* At a '$'. */
static int read_variable(struct word *w, const char **text)
{
	bool has_brace = (*text)[1] == '{';
	const char *start = *text + 1 + has_brace, *end = start;
	char name[NAME_MAX_LEN + 1];
	const char *value;

	while (is_name(*end, end == start))
		end++;
	if (end == start && has_brace)
		return dockerfile_error(w->err, w->scope->line, "a '${' has no name behind it");
	if (end == start) {
		(*text)++;
		return put(w, "$", 1);
	}
	if (end - start > NAME_MAX_LEN)
		return dockerfile_error(w->err, w->scope->line, "a variable's name is too long");
	(void)snprintf(name, sizeof(name), "%.*s", (int)(end - start), start);
	*text = end;
	if (has_brace)
		return read_braced(w, text, name);
	value = w->scope->find(name, w->scope->arg);
	return value ? put(w, value, strlen(value)) : 0;
}

/* Behind a '. */
static int read_single(struct word *w, const char **text)
{
	const char *end = strchr(*text, '\'');
	int r;

	if (!end)
		return dockerfile_error(w->err, w->scope->line, "a ' has no end");
	r = put(w, *text, (size_t)(end - *text));
	*text = end + 1;
	return r;
}

/* Behind a ". An escape takes its meaning only from a '"', a '$' and itself. */
static int read_double(struct word *w, const char **text)
{
	int r = 0;

	while (r == 0 && **text != '"') {
		char c = **text, next = c ? (*text)[1] : '\0';

		if (!c)
			return dockerfile_error(w->err, w->scope->line, "a \" has no end");
		if (c == '$') {
			r = read_variable(w, text);
		} else if (c == w->scope->escape &&
		           (next == '"' || next == '$' || next == w->scope->escape)) {
			r = put(w, *text + 1, 1);
			*text += 2;
		} else {
			r = put(w, *text, 1);
			(*text)++;
		}
	}
	(*text)++;
	return r;
}

/* Up to one of the stops outside of quotes, or the end. */
static int read_until(struct word *w, const char **text, const char *stops)
{
	int r = 0;

	while (r == 0 && **text && !strchr(stops, **text)) {
		char c = **text;

		if (c == '$') {
			r = read_variable(w, text);
		} else if (c == w->scope->escape && (*text)[1]) {
			/* A here-document's other characters keep theirs. */
			if (w->scope->keeps_quotes && (*text)[1] != '$' && (*text)[1] != c)
				r = put(w, *text, 1);
			r = r == 0 ? put(w, *text + 1, 1) : r;
			*text += 2;
		} else if ((c == '\'' || c == '"') && !w->scope->keeps_quotes) {
			(*text)++;
			w->has_quotes = true;
			r = c == '"' ? read_double(w, text) : read_single(w, text);
		} else {
			r = put(w, *text, 1);
			(*text)++;
		}
	}
	return r;
}

int docker_expand(const struct docker_scope *s, const char *text, char **ret, struct err *err)
{
	struct word w = {.scope = s, .out = BUF_INIT(DOCKER_WORD_MAX), .err = err};
	int r = read_until(&w, &text, "");

	if (r == 0)
		*ret = xstrdup(buf_str(&w.out));
	buf_done(&w.out);
	return r;
}

/* Adds a string, unless there are too many. */
static int add_word(const struct docker_scope *s, json_t *list, const char *text, struct err *err)
{
	if (json_array_size(list) == DOCKER_WORDS_MAX)
		return dockerfile_error(err, s->line, "there are more than %d words",
		                        DOCKER_WORDS_MAX);
	if (json_array_append_new(list, json_string(text)) < 0)
		return dockerfile_error(err, s->line, "a word is no text in UTF-8");
	return 0;
}

int docker_split(const struct docker_scope *s, const char *text, json_t **ret, struct err *err)
{
	auto_json json_t *list = json_array();
	int r = 0;

	text += strspn(text, " \t");
	while (r == 0 && *text) {
		struct word w = {.scope = s, .out = BUF_INIT(DOCKER_WORD_MAX), .err = err};

		r = read_until(&w, &text, " \t");
		if (r == 0 && (w.out.len > 0 || w.has_quotes))
			r = add_word(s, list, buf_str(&w.out), err);
		buf_done(&w.out);
		text += strspn(text, " \t");
	}
	if (r == 0)
		*ret = take_ptr(list);
	return r;
}

static int add_pair(const struct docker_scope *s, json_t *list, const char *name, const char *value,
                    struct err *err)
{
	auto_json json_t *pair = json_pack("[ss]", name, value);

	if (!pair)
		return dockerfile_error(err, s->line, "a word is no text in UTF-8");
	if (json_array_size(list) == DOCKER_WORDS_MAX)
		return dockerfile_error(err, s->line, "there are more than %d words",
		                        DOCKER_WORDS_MAX);
	return json_array_append(list, pair);
}

/* "NAME value and so on" */
static int read_old_pair(const struct docker_scope *s, const char *text, json_t *list,
                         struct err *err)
{
	size_t len = strcspn(text, " \t");
	auto_free char *name = xstrndup(text, len);
	auto_free char *value = NULL;
	const char *rest = text + len + strspn(text + len, " \t");
	int r;

	if (!*rest)
		return dockerfile_error(err, s->line, "'%.64s' needs a value", name);
	r = docker_expand(s, rest, &value, err);
	return r < 0 ? r : add_pair(s, list, name, value, err);
}

int docker_pairs(const struct docker_scope *s, const char *text, bool may_be_old, json_t **ret,
                 struct err *err)
{
	auto_json json_t *words = NULL, *list = json_array();
	size_t first = strcspn(text, " \t=");
	size_t i;
	json_t *word;
	int r;

	if (may_be_old && text[first] != '=' && *text != '"' && *text != '\'') {
		r = read_old_pair(s, text, list, err);
		if (r == 0)
			*ret = take_ptr(list);
		return r;
	}
	r = docker_split(s, text, &words, err);
	json_array_foreach(words, i, word)
	{
		const char *pair = json_string_value(word);
		const char *equals = strchr(pair, '=');
		auto_free char *name = xstrndup(pair, equals ? (size_t)(equals - pair) : 0);

		if (r < 0)
			break;
		r = equals && equals > pair
		            ? add_pair(s, list, name, equals + 1, err)
		            : dockerfile_error(err, s->line, "'%.64s' must be NAME=VALUE", pair);
	}
	if (r == 0)
		*ret = take_ptr(list);
	return r;
}

json_t *docker_json_words(const char *text)
{
	json_t *list = *text == '[' ? json_loads(text, 0, NULL) : NULL;
	size_t i;
	json_t *word;
	bool is_right = json_is_array(list);

	json_array_foreach(list, i, word)
	{
		is_right = is_right && json_is_string(word);
	}
	if (is_right)
		return list;
	json_decref(list);
	return NULL;
}

int docker_take_flag(const char **text, char **ret_name, char **ret_value)
{
	const char *c = *text;
	const char *end, *equals;

	*ret_name = *ret_value = NULL;
	if (strncmp(c, "--", 2) != 0)
		return 0;
	end = c + strcspn(c, " \t");
	equals = memchr(c, '=', (size_t)(end - c));
	*ret_name = xstrndup(c + 2, (size_t)((equals ? equals : end) - c - 2));
	if (equals)
		*ret_value = xstrndup(equals + 1, (size_t)(end - equals - 1));
	*text = end + strspn(end, " \t");
	return 1;
}
