// SPDX-License-Identifier: Apache-2.0
#include "cli/eval/eval_file.h"

#include "base/parse.h"
#include "base/text/toml.h"
#include "cli/session/script_language.h"
#include "cli/term/opts.h"

#include <fcntl.h>
#include <string.h>

/* The object that a section's name leads to; NULL where a part of it is something else. */
static json_t *find_section(json_t *top, const char *section)
{
	while (*section) {
		size_t len = strcspn(section, ".");
		auto_free char *name = xstrndup(section, len);
		json_t *next = json_object_get(top, name);

		if (!next) {
			next = json_object();
			(void)json_object_set_new(top, name, next);
		} else if (!json_is_object(next)) {
			return NULL;
		}
		top = next;
		section += len + (section[len] == '.');
	}
	return top;
}

static json_t *bare_value(const char *text)
{
	bool is_negative = *text == '-';
	uint64_t whole;
	double number;

	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		return json_boolean(*text == 't');
	if (parse_u64(text + is_negative, INT64_MAX, &whole) == 0)
		return json_integer(is_negative ? -(json_int_t)whole : (json_int_t)whole);
	if (opts_parse_decimal(text, &number) == 0)
		return json_real(number);
	return NULL;
}

static json_t *value_of(const struct toml_entry *entry)
{
	json_t *list;

	if (entry->kind == TOML_STRING)
		return json_string(entry->text);
	if (entry->kind == TOML_BARE)
		return bare_value(entry->text);
	list = json_array();
	for (size_t i = 0; i < entry->n_items; i++)
		(void)json_array_append_new(list, json_string(entry->items[i]));
	return list;
}

static int add_entry(const struct toml_entry *entry, void *arg, struct err *err)
{
	json_t *section = find_section(arg, entry->section);
	json_t *value;

	if (!section)
		return err_field(err, entry->section, "is given as a value and as a section");
	if (entry->kind == TOML_SECTION)
		return 0; /* one that says nothing is there too, and is told as wanting */
	if (json_object_get(section, entry->key))
		return err_field(err, entry->key, "is given twice");
	value = value_of(entry);
	if (!value)
		return err_field(err, entry->key,
		                 "'%s' is no number and neither true nor false; a text stands in "
		                 "quotes",
		                 entry->text);
	(void)json_object_set_new(section, entry->key, value);
	return 0;
}

static bool is_json(const char *name)
{
	size_t len = strlen(name);

	return len > 5 && strcmp(name + len - 5, ".json") == 0;
}

int eval_file_parse(const char *name, const char *text, size_t len, json_t **ret, struct err *err)
{
	auto_json json_t *tree = NULL;
	int r;

	if (is_json(name)) {
		r = json_parse(text, len, &tree, err);
		if (r == 0 && !json_is_object(tree))
			r = err_set(err, ERR_INVALID_FIELD, 0, "an object was expected");
		if (r < 0)
			return err_prefix(err, "%s", name);
	} else {
		tree = json_object();
		r = toml_parse(name, text, len, add_entry, tree, err);
		if (r < 0)
			return r;
	}
	*ret = take_ptr(tree);
	return 0;
}

int eval_file_read(const char *path, json_t **ret, struct err *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf text = BUF_INIT(SCRIPT_MAX);
	int r;

	if (fd < 0) {
		(void)err_set(err, ERR_NOT_FOUND, errno, "cannot read '%s'", path);
		return err_hint(err, "it is a file of cases, in TOML or JSON: docs/guides/evals.md "
		                     "has one to start from");
	}
	r = script_read(fd, path, &text, err);
	if (r == 0)
		r = eval_file_parse(path, buf_str(&text), text.len, ret, err);
	buf_done(&text);
	return r;
}
