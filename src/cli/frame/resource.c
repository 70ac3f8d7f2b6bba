// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/resource.h"

#include "base/clock.h"
#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_null(const json_t *one, const char *field)
{
	return json_is_null(json_object_get(one, field));
}

char *cell_text(const json_t *one, const char *field)
{
	return xstrdup(command_text(one, field));
}

char *cell_number(const json_t *one, const char *field)
{
	return is_null(one, field) ? NULL : xasprintf("%" PRIu64, command_number(one, field));
}

char *cell_bytes(const json_t *one, const char *field)
{
	char text[16];

	text_bytes(command_number(one, field), text);
	return is_null(one, field) ? NULL : xstrdup(text);
}

char *cell_mib(const json_t *one, const char *field)
{
	char text[16];

	text_bytes(command_number(one, field) << 20, text);
	return is_null(one, field) ? NULL : xstrdup(text);
}

char *cell_age(const json_t *one, const char *field)
{
	uint64_t now = clock_wall_us(), then = command_number(one, field);
	char text[16];

	text_age(now > then ? now - then : 0, text);
	return then ? xstrdup(text) : NULL;
}

char *cell_length(const json_t *one, const char *field)
{
	return xasprintf("%zu", json_array_size(json_object_get(one, field)));
}

void resource_print(const struct resource *r, const json_t *list)
{
	auto_free const char **heads = xcalloc(r->n_columns, sizeof(*heads));
	struct table t = {.heads = heads, .n_columns = r->n_columns};
	const json_t *one;
	size_t i;

	for (size_t n = 0; n < r->n_columns; n++)
		heads[n] = r->columns[n].head;
	json_array_foreach(list, i, one)
	{
		for (size_t n = 0; n < r->n_columns; n++) {
			const struct column *column = &r->columns[n];
			auto_free char *cell =
				(column->cell ? column->cell : cell_text)(one, column->field);

			table_add(&t, cell);
		}
	}
	table_print(&t);
	table_done(&t);
}

/* The path of all, or of the one that the last word names. */
static char *path_of(const struct command *c, bool is_one)
{
	const struct resource *r = c->resource;
	const char *segments[4];
	size_t n = 0, word = 0;

	if (r->parent) {
		segments[n++] = r->parent;
		segments[n++] = c->words[word++];
	}
	segments[n++] = r->plural;
	if (is_one)
		segments[n++] = c->words[word];
	return remote_path_of(segments, n);
}

/* The same with what the options say. */
static char *path_by_options(const struct command *c, bool is_one)
{
	char *path = path_of(c, is_one);

	return c->resource->query ? c->resource->query(path, c->arg) : path;
}

int resource_ls(struct command *c, struct err *err)
{
	auto_free char *path = path_by_options(c, /* is_one= */ false);
	const char *name = c->resource->list ? c->resource->list : c->resource->plural;
	auto_json json_t *list = json_array();
	int r = remote_list(c->remote, path, name, list, err);

	if (r < 0)
		return r;
	if (c->common.json)
		command_print_json(list);
	else
		resource_print(c->resource, list);
	remote_tell_incomplete(c->remote);
	return 0;
}

int resource_inspect(struct command *c, struct err *err)
{
	auto_free char *path = path_by_options(c, /* is_one= */ true);

	return command_inspect(c, path, err);
}

int resource_rm(struct command *c, struct err *err)
{
	auto_free char *path = path_by_options(c, /* is_one= */ true);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "DELETE", path, NULL, &reply, err);

	if (r == 0)
		command_print_reply(c, reply, c->resource->printed);
	return r;
}

int resource_create(struct command *c, const json_t *body, const char *field, struct err *err)
{
	auto_free char *path = path_of(c, /* is_one= */ false);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "POST", path, body, &reply, err);

	if (r == 0)
		command_print_reply(c, reply, field);
	return r;
}

int resource_create_secret(struct command *c, const json_t *body, const char *name, struct err *err)
{
	auto_free char *path = path_of(c, /* is_one= */ false);
	auto_json json_t *reply = NULL;
	int r = remote_call(c->remote, "POST", path, body, &reply, err);

	if (r < 0)
		return r;
	command_print_reply(c, reply, "secret");
	if (c->common.json)
		return 0;
	(void)fflush(stdout);
	(void)fprintf(stderr, "The secret is shown only this once. The %s's id is %s.\n", name,
	              command_text(json_object_get(reply, name), "id"));
	return 0;
}
