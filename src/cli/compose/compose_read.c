// SPDX-License-Identifier: Apache-2.0
#include "cli/compose/compose_read.h"

#include "base/parse.h"
#include "base/text/nearest.h"
#include "cli/compose/interpolate.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MIB        (UINT64_C(1) << 20)
#define MS_MAX     (UINT64_C(365) * 86400 * 1000)
#define WORD_SHOWN 80
#define MIB_MAX    (UINT64_C(1) << 24)

int compose_wrong(const struct compose_reader *r, const struct yaml_value *v, struct err *err,
                  const char *fmt, ...)
{
	char text[280];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(err, ERR_INVALID_FIELD, 0, "%s:%u: %s%s%s", r->source->name, v->line, r->path,
	              *r->path ? ": " : "", text);
	if (err)
		(void)snprintf(err->field, sizeof(err->field), "%.63s", r->path);
	return -EINVAL;
}

static bool is_extension(const char *name)
{
	return strncmp(name, "x-", 2) == 0;
}

static int refuse_unknown(const struct compose_reader *r, const struct yaml_value *key,
                          const struct compose_field *fields, size_t n, struct err *err)
{
	struct nearest near;

	nearest_init(&near, key->text, strlen(key->text));
	for (size_t i = 0; i < n; i++)
		if (fields[i].take || fields[i].fields)
			nearest_try(&near, fields[i].name);
	(void)compose_wrong(r, key, err, "there is no such field");
	return near.best ? err_hint(err, "did you mean '%s'?", near.best)
	                 : err_hint(err, "leave it out; docs/guides/compose.md has all that there "
	                                 "are");
}

static const struct compose_field *find_field(const struct compose_field *fields, size_t n,
                                              const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	return NULL;
}

static int read_field(struct compose_reader *r, const struct compose_field *field,
                      const struct yaml_value *v, json_t *to, struct err *err)
{
	auto_free char *where = NULL;
	json_t *object = NULL;

	if (!field->fields)
		return field->take(r, v, to, err);
	where = xstrdup(r->path);
	if (field->is_object) {
		object = json_object();
		if (json_object_set_new(to, field->name, object) < 0)
			return -ENOMEM;
	}
	return compose_read_map(r, where, v, field->fields, field->n_fields, object ? object : to,
	                        err);
}

int compose_read_map(struct compose_reader *r, const char *where, const struct yaml_value *map,
                     const struct compose_field *fields, size_t n, json_t *to, struct err *err)
{
	if (map->kind != YAML_MAP)
		return compose_wrong(r, map, err, "should be a mapping");
	for (size_t i = 0; i < map->n; i++) {
		const struct yaml_value *key = map->keys[i];
		const struct compose_field *field = find_field(fields, n, key->text);
		int result;

		(void)snprintf(r->path, sizeof(r->path), "%s%s%.60s", where, *where ? "." : "",
		               key->text);
		r->field = field ? field->name : "";
		if (!field && is_extension(key->text))
			continue;
		if (!field)
			return refuse_unknown(r, key, fields, n, err);
		if (!field->take && !field->fields) {
			(void)compose_wrong(r, key, err, "is not taken");
			return err_hint(err, "%s", field->about);
		}
		result = read_field(r, field, map->items[i], to, err);
		if (result < 0) {
			if (err && !*err->hint && field->about)
				(void)err_hint(err, "%s", field->about);
			return result;
		}
	}
	return 0;
}

int compose_text(struct compose_reader *r, const struct yaml_value *v, char **ret, struct err *err)
{
	struct err inner;

	if (v->kind != YAML_TEXT)
		return compose_wrong(r, v, err, "should be text, not a %s",
		                     v->kind == YAML_LIST ? "list" : "mapping");
	if (interpolate(v->text, r->source->variables, ret, &inner) < 0)
		return compose_wrong(r, v, err, "%s", inner.message);
	return 0;
}

int compose_flag(struct compose_reader *r, const struct yaml_value *v, bool *ret, struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	*ret = strcmp(text, "true") == 0;
	if (!*ret && strcmp(text, "false") != 0)
		return compose_wrong(r, v, err, "'%.*s' should be true or false", WORD_SHOWN, text);
	return 0;
}

int compose_number(struct compose_reader *r, const struct yaml_value *v, uint64_t max,
                   uint64_t *ret, struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	if (parse_u64(text, max, ret) < 0)
		return compose_wrong(r, v, err, "'%.*s' should be a whole number, at most %llu",
		                     WORD_SHOWN, text, (unsigned long long)max);
	return 0;
}

/* A number with a fraction, in thousandths. */
static bool take_decimal(const char **at, uint64_t *ret_milli)
{
	uint64_t whole = 0, milli = 0, unit = 100;
	const char *c = *at;
	size_t digits = 0;

	for (; isdigit((unsigned char)*c) && digits < 12; c++, digits++)
		whole = whole * 10 + (uint64_t)(*c - '0');
	if (*c == '.')
		for (c++; isdigit((unsigned char)*c); c++, digits++, unit /= 10)
			milli += unit * (uint64_t)(*c - '0');
	if (digits == 0 || isdigit((unsigned char)*c))
		return false;
	*ret_milli = whole * 1000 + milli;
	*at = c;
	return true;
}

bool compose_parse_ms(const char *text, uint64_t *ret)
{
	static const struct {
		const char *word;
		uint64_t us;
	} units[] = {{"ms", 1000},
	             {"us", 1},
	             {"s", 1000000},
	             {"m", 60000000},
	             {"h", UINT64_C(3600000000)}};
	uint64_t us = 0;

	if (!*text)
		return false;
	if (strcmp(text, "0") == 0) {
		*ret = 0;
		return true;
	}
	while (*text) {
		uint64_t milli;
		size_t i = 0;

		if (!take_decimal(&text, &milli))
			return false;
		while (i < ARRAY_SIZE(units) &&
		       strncmp(text, units[i].word, strlen(units[i].word)) != 0)
			i++;
		if (i == ARRAY_SIZE(units) || milli / 1000 > MS_MAX / 1000)
			return false;
		text += strlen(units[i].word);
		us += milli * units[i].us / 1000;
		if (us / 1000 > MS_MAX)
			return false;
	}
	*ret = us / 1000;
	return true;
}

int compose_ms(struct compose_reader *r, const struct yaml_value *v, uint64_t *ret, struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	if (!compose_parse_ms(text, ret))
		return compose_wrong(r, v, err, "'%.*s' should be a time such as 30s or 1m30s",
		                     WORD_SHOWN, text);
	return 0;
}

/* "512m", "1gb", a bare number is bytes; rounded up. */
int compose_mib(struct compose_reader *r, const struct yaml_value *v, uint64_t *ret,
                struct err *err)
{
	static const char letters[] = "bkmg";
	auto_free char *text = NULL;
	uint64_t milli, unit = 1;
	const char *rest, *letter;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	rest = text;
	if (!take_decimal(&rest, &milli))
		rest = "?";
	letter = *rest ? strchr(letters, tolower((unsigned char)*rest)) : NULL;
	if (letter) {
		unit = UINT64_C(1) << (10 * (letter - letters));
		rest++;
		if (letter != letters && tolower((unsigned char)*rest) == 'b')
			rest++;
	}
	if (*rest || milli / 1000 > MIB_MAX * MIB / unit || milli == 0)
		return compose_wrong(r, v, err, "'%.*s' should be a size such as 512m or 2g",
		                     WORD_SHOWN, text);
	*ret = (uint64_t)(((__uint128_t)milli * unit / 1000 + MIB - 1) / MIB);
	return 0;
}

int compose_put_text(json_t *to, const char *name, const char *text)
{
	return json_object_set_new(to, name, json_string(text));
}

static int append_text(struct compose_reader *r, const struct yaml_value *v, json_t *list,
                       struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result == 0 && json_array_append_new(list, json_string(text)) < 0)
		return compose_wrong(r, v, err, "is not valid UTF-8");
	return result;
}

int compose_texts(struct compose_reader *r, const struct yaml_value *v, json_t **ret,
                  struct err *err)
{
	auto_json json_t *list = json_array();
	int result = v->kind == YAML_LIST || v->is_null ? 0 : append_text(r, v, list, err);

	for (size_t i = 0; result == 0 && v->kind == YAML_LIST && i < v->n; i++)
		result = append_text(r, v->items[i], list, err);
	if (result == 0)
		*ret = take_ptr(list);
	return result;
}

/* Splits a line into words: quotes and backslashes as in a shell, and nothing else of it. */
static bool split(const char *line, json_t *words)
{
	char *word = xcalloc(1, strlen(line) + 1);
	size_t n = 0;
	bool is_word = false;
	char quote = '\0';

	for (; *line; line++) {
		if (quote) {
			if (*line == quote)
				quote = '\0';
			else if (quote == '"' && *line == '\\' && line[1] &&
			         strchr("\"\\$`", line[1]))
				word[n++] = *++line;
			else
				word[n++] = *line;
		} else if (*line == '\'' || *line == '"') {
			quote = *line;
			is_word = true;
		} else if (*line == '\\' && line[1]) {
			word[n++] = *++line;
			is_word = true;
		} else if (isspace((unsigned char)*line)) {
			if (is_word)
				(void)json_array_append_new(words, json_stringn(word, n));
			is_word = false;
			n = 0;
		} else {
			word[n++] = *line;
			is_word = true;
		}
	}
	if (is_word)
		(void)json_array_append_new(words, json_stringn(word, n));
	free(word);
	return !quote;
}

int compose_words(struct compose_reader *r, const struct yaml_value *v, json_t **ret,
                  struct err *err)
{
	auto_json json_t *words = NULL;
	auto_free char *line = NULL;
	int result;

	if (v->kind == YAML_LIST)
		return compose_texts(r, v, ret, err);
	words = json_array();
	result = v->is_null ? 0 : compose_text(r, v, &line, err);
	if (result < 0)
		return result;
	if (line && !split(line, words))
		return compose_wrong(r, v, err, "a quote is not closed");
	*ret = take_ptr(words);
	return 0;
}

static int put_pair(struct compose_reader *r, const struct yaml_value *at, const char *name,
                    const char *value, json_t *ret, struct err *err)
{
	if (!value) {
		value = json_string_value(json_object_get(r->source->variables, name));
		if (!value)
			return 0;
	}
	if (!*name || json_object_set_new(ret, name, json_string(value)) < 0)
		return compose_wrong(r, at, err, "'%.*s' should be NAME=VALUE", WORD_SHOWN, name);
	return 0;
}

static int take_item(struct compose_reader *r, const struct yaml_value *v, json_t *ret,
                     struct err *err)
{
	auto_free char *text = NULL;
	char *equals;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	equals = strchr(text, '=');
	if (equals)
		*equals = '\0';
	return put_pair(r, v, text, equals ? equals + 1 : NULL, ret, err);
}

int compose_pairs(struct compose_reader *r, const struct yaml_value *v, json_t *ret,
                  struct err *err)
{
	int result = 0;

	if (v->kind == YAML_TEXT && !v->is_null)
		return compose_wrong(r, v, err, "should be a mapping, or a list of NAME=VALUE");
	for (size_t i = 0; result == 0 && i < v->n; i++) {
		const struct yaml_value *item = v->items[i];
		auto_free char *text = NULL;

		if (v->kind == YAML_LIST) {
			result = take_item(r, item, ret, err);
			continue;
		}
		if (!item->is_null)
			result = compose_text(r, item, &text, err);
		if (result == 0)
			result = put_pair(r, item, v->keys[i]->text, text, ret, err);
	}
	return result;
}
