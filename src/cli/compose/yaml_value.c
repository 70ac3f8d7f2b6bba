// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: libyaml gives events, and a stack of the values that are open takes each to
 * its place. All values belong to the file and are freed with it, whoever points at them.
 */
#include "cli/compose/yaml_value.h"

#include <dlfcn.h>
#include <string.h>
#include <yaml.h>

#define WEIGHT_MAX  100000
#define ANCHORS_MAX 256

static struct {
	void *handle;
	typeof(&yaml_parser_initialize) initialize;
	typeof(&yaml_parser_set_input_string) set_input;
	typeof(&yaml_parser_set_encoding) set_encoding;
	typeof(&yaml_parser_parse) parse;
	typeof(&yaml_parser_delete) delete;
	typeof(&yaml_event_delete) event_delete;
} lib;

struct yaml_file {
	const char *name;
	struct yaml_value **all;
	size_t n_all;
	struct {
		char *name;
		struct yaml_value *value;
	} anchors[ANCHORS_MAX];
	size_t n_anchors;
	struct yaml_value *top;
	struct {
		struct yaml_value *value;
		struct yaml_value *key; /* of a map whose next value is to come */
	} open[YAML_DEPTH_MAX];
	size_t depth;
	bool has_document;
};

static int load(struct err *err)
{
	const struct {
		const char *name;
		void **ret;
	} symbols[] = {
		{"yaml_parser_initialize", (void **)&lib.initialize},
		{"yaml_parser_set_input_string", (void **)&lib.set_input},
		{"yaml_parser_set_encoding", (void **)&lib.set_encoding},
		{"yaml_parser_parse", (void **)&lib.parse},
		{"yaml_parser_delete", (void **)&lib.delete},
		{"yaml_event_delete", (void **)&lib.event_delete},
	};
	bool is_whole;

	if (lib.handle)
		return 0;
	lib.handle = dlopen("libyaml-0.so.2", RTLD_NOW | RTLD_LOCAL);
	is_whole = lib.handle != NULL;
	for (size_t i = 0; is_whole && i < ARRAY_SIZE(symbols); i++) {
		*symbols[i].ret = dlsym(lib.handle, symbols[i].name);
		is_whole = *symbols[i].ret != NULL;
	}
	if (is_whole)
		return 0;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "Compose files need libyaml, which is not here");
	return err_hint(err, "apt install libyaml-0-2");
}

static int wrong_at(const struct yaml_file *f, size_t line, struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID_FIELD, 0, "%s:%zu: %s", f->name, line + 1, what);
}

static int new_value(struct yaml_file *f, const yaml_event_t *event, enum yaml_kind kind,
                     struct yaml_value **ret, struct err *err)
{
	struct yaml_value *v;

	if (f->n_all == YAML_VALUES_MAX)
		return wrong_at(f, event->start_mark.line, err, "there are too many values");
	v = xnew0(struct yaml_value);
	v->kind = kind;
	v->line = (unsigned)event->start_mark.line + 1;
	v->weight = 1;
	f->all = xrealloc(f->all, (f->n_all + 1) * sizeof(void *));
	f->all[f->n_all++] = v;
	*ret = v;
	return 0;
}

static int keep_anchor(struct yaml_file *f, const yaml_event_t *event, const yaml_char_t *anchor,
                       struct yaml_value *v, struct err *err)
{
	if (!anchor)
		return 0;
	if (f->n_anchors == ANCHORS_MAX)
		return wrong_at(f, event->start_mark.line, err, "there are too many anchors");
	f->anchors[f->n_anchors].name = xstrdup((const char *)anchor);
	f->anchors[f->n_anchors++].value = v;
	return 0;
}

static struct yaml_value *find_anchor(struct yaml_file *f, const char *name)
{
	for (size_t i = f->n_anchors; i > 0; i--) /* the last of a name is meant */
		if (strcmp(f->anchors[i - 1].name, name) == 0)
			return f->anchors[i - 1].value;
	return NULL;
}

static void append(struct yaml_value *to, struct yaml_value *key, struct yaml_value *item)
{
	to->items = xrealloc(to->items, (to->n + 1) * sizeof(void *));
	to->items[to->n] = item;
	if (to->kind == YAML_MAP) {
		to->keys = xrealloc(to->keys, (to->n + 1) * sizeof(void *));
		to->keys[to->n] = key;
	}
	to->n++;
}

static const struct yaml_value *find_key(const struct yaml_value *map, const char *key)
{
	for (size_t i = 0; i < map->n; i++)
		if (strcmp(map->keys[i]->text, key) == 0)
			return map->items[i];
	return NULL;
}

const struct yaml_value *yaml_get(const struct yaml_value *map, const char *key)
{
	return map && map->kind == YAML_MAP ? find_key(map, key) : NULL;
}

static int check_weight(const struct yaml_file *f, struct yaml_value *to,
                        const struct yaml_value *item, struct err *err)
{
	to->weight += item->weight;
	if (to->weight <= WEIGHT_MAX)
		return 0;
	return wrong_at(f, item->line - 1, err,
	                "with all aliases written out, the file is too large");
}

/* A value has come: as a key, or to where it belongs. */
static int place(struct yaml_file *f, struct yaml_value *v, size_t line, struct err *err)
{
	struct yaml_value *to, *key;

	if (f->depth == 0) {
		f->top = v;
		return 0;
	}
	to = f->open[f->depth - 1].value;
	key = f->open[f->depth - 1].key;
	if (to->kind == YAML_MAP && !key) {
		if (v->kind != YAML_TEXT)
			return wrong_at(f, line, err, "a key must be text");
		if (strcmp(v->text, "<<") != 0 && find_key(to, v->text))
			return err_set(err, ERR_INVALID_FIELD, 0, "%s:%zu: '%.64s' comes twice",
			               f->name, line + 1, v->text);
		f->open[f->depth - 1].key = v;
		return 0;
	}
	append(to, key, v);
	f->open[f->depth - 1].key = NULL;
	return 0;
}

static int push(struct yaml_file *f, const yaml_event_t *event, enum yaml_kind kind,
                const yaml_char_t *anchor, const yaml_char_t *tag, struct err *err)
{
	struct yaml_value *v;
	int r;

	if (tag)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "%s:%zu: tags such as '%.40s' are not taken", f->name,
		               event->start_mark.line + 1, (const char *)tag);
	if (f->depth == YAML_DEPTH_MAX)
		return wrong_at(f, event->start_mark.line, err, "it is nested too deeply");
	r = new_value(f, event, kind, &v, err);
	if (r == 0)
		r = keep_anchor(f, event, anchor, v, err);
	if (r == 0)
		r = place(f, v, event->start_mark.line, err);
	if (r < 0)
		return r;
	v->is_open = true;
	f->open[f->depth].value = v;
	f->open[f->depth++].key = NULL;
	return 0;
}

/* One mapping of a "<<": what the map has itself is stronger, and so is what came before. */
static int take_in(const struct yaml_file *f, struct yaml_value *map, const struct yaml_value *from,
                   struct err *err)
{
	if (from->kind != YAML_MAP)
		return wrong_at(f, from->line - 1, err, "'<<' needs a mapping, or a list of them");
	for (size_t i = 0; i < from->n; i++)
		if (!find_key(map, from->keys[i]->text)) {
			append(map, from->keys[i], from->items[i]);
			if (map->n > YAML_VALUES_MAX)
				return wrong_at(f, from->line - 1, err,
				                "there are too many values");
		}
	return 0;
}

static int merge(const struct yaml_file *f, struct yaml_value *map, struct err *err)
{
	size_t at = 0, n = map->n;
	int r = 0;

	while (at < n && strcmp(map->keys[at]->text, "<<") != 0)
		at++;
	if (at == n)
		return 0;
	for (size_t i = at; r == 0 && i < n; i++) {
		const struct yaml_value *from = map->items[i];

		if (strcmp(map->keys[i]->text, "<<") != 0)
			continue;
		if (from->kind != YAML_LIST) {
			r = take_in(f, map, from, err);
			continue;
		}
		for (size_t k = 0; r == 0 && k < from->n; k++)
			r = take_in(f, map, from->items[k], err);
	}
	for (size_t i = 0, to = 0, all = map->n; i < all; i++) {
		if (strcmp(map->keys[i]->text, "<<") == 0) {
			map->n--;
			continue;
		}
		map->keys[to] = map->keys[i];
		map->items[to++] = map->items[i];
	}
	return r;
}

static int pop(struct yaml_file *f, struct err *err)
{
	struct yaml_value *v = f->open[--f->depth].value;
	int r = 0;

	v->is_open = false;
	for (size_t i = 0; r == 0 && i < v->n; i++)
		r = check_weight(f, v, v->items[i], err);
	return r == 0 && v->kind == YAML_MAP ? merge(f, v, err) : r;
}

static int take_text(struct yaml_file *f, const yaml_event_t *event, struct err *err)
{
	const char *text = (const char *)event->data.scalar.value;
	const char *tag = (const char *)event->data.scalar.tag;
	struct yaml_value *v;
	int r;

	if (tag && strcmp(tag, YAML_STR_TAG) != 0)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "%s:%zu: tags such as '%.40s' are not taken", f->name,
		               event->start_mark.line + 1, tag);
	if (strlen(text) != event->data.scalar.length)
		return wrong_at(f, event->start_mark.line, err, "a text must not have a NUL");
	r = new_value(f, event, YAML_TEXT, &v, err);
	if (r < 0)
		return r;
	v->text = xstrdup(text);
	v->is_null = event->data.scalar.plain_implicit && !tag &&
	             (!*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
	r = keep_anchor(f, event, event->data.scalar.anchor, v, err);
	return r == 0 ? place(f, v, event->start_mark.line, err) : r;
}

static int take_alias(struct yaml_file *f, const yaml_event_t *event, struct err *err)
{
	struct yaml_value *v = find_anchor(f, (const char *)event->data.alias.anchor);

	if (!v || v->is_open)
		return err_set(err, ERR_INVALID_FIELD, 0,
		               "%s:%zu: there is no anchor '%.64s' before it", f->name,
		               event->start_mark.line + 1, (const char *)event->data.alias.anchor);
	return place(f, v, event->start_mark.line, err);
}

/* 1: the file is over. */
static int take_event(struct yaml_file *f, const yaml_event_t *event, struct err *err)
{
	switch (event->type) {
	case YAML_STREAM_END_EVENT:
		return 1;
	case YAML_DOCUMENT_START_EVENT:
		if (f->has_document)
			return wrong_at(f, event->start_mark.line, err,
			                "there is a second document");
		f->has_document = true;
		return 0;
	case YAML_SCALAR_EVENT:
		return take_text(f, event, err);
	case YAML_ALIAS_EVENT:
		return take_alias(f, event, err);
	case YAML_SEQUENCE_START_EVENT:
		return push(f, event, YAML_LIST, event->data.sequence_start.anchor,
		            event->data.sequence_start.tag, err);
	case YAML_MAPPING_START_EVENT:
		return push(f, event, YAML_MAP, event->data.mapping_start.anchor,
		            event->data.mapping_start.tag, err);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return pop(f, err);
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
	return 0;
}

static int read_all(struct yaml_file *f, yaml_parser_t *parser, struct err *err)
{
	int r = 0;

	while (r == 0) {
		yaml_event_t event;

		if (!lib.parse(parser, &event))
			return err_set(err, ERR_INVALID_FIELD, 0, "%s:%zu: this is no YAML: %s",
			               f->name, parser->problem_mark.line + 1,
			               parser->problem ? parser->problem : "it cannot be read");
		r = take_event(f, &event, err);
		lib.event_delete(&event);
	}
	return r;
}

int yaml_read(const char *name, const char *text, size_t len, struct yaml_file **ret,
              struct err *err)
{
	auto_call(yaml_freep) struct yaml_file *f = xnew0(struct yaml_file);
	yaml_parser_t parser;
	int r = load(err);

	if (r < 0)
		return r;
	f->name = name;
	if (len > YAML_TEXT_MAX)
		return err_set(err, ERR_INVALID_FIELD, 0, "%s: the file is longer than %zu KiB",
		               name, YAML_TEXT_MAX / 1024);
	if (!lib.initialize(&parser))
		return err_set(err, ERR_INTERNAL, ENOMEM, "cannot read YAML");
	lib.set_encoding(&parser, YAML_UTF8_ENCODING);
	lib.set_input(&parser, (const unsigned char *)text, len);
	r = read_all(f, &parser, err);
	lib.delete(&parser);
	if (r < 0)
		return r;
	if (!f->top)
		return err_set(err, ERR_INVALID_FIELD, 0, "%s: the file is empty", name);
	*ret = take_ptr(f);
	return 0;
}

const struct yaml_value *yaml_top(const struct yaml_file *file)
{
	return file->top;
}

void yaml_free(struct yaml_file *file)
{
	if (!file)
		return;
	for (size_t i = 0; i < file->n_all; i++) {
		free(file->all[i]->text);
		free(file->all[i]->items);
		free(file->all[i]->keys);
		free(file->all[i]);
	}
	for (size_t i = 0; i < file->n_anchors; i++)
		free(file->anchors[i].name);
	free(file->all);
	free(file);
}
