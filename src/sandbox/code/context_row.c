// SPDX-License-Identifier: Apache-2.0
/*
 * A context as a row of the store. The row is written before its interpreter is started, so that
 * the next gateway knows every channel that the agent may have, or lets it forget it. The row and
 * the waiting log entries about the context are written together or not at all.
 */
#include "sandbox/code/interpreter.h"

#define ROW_MAX (512 * 1024) /* the environment is bounded well below it */

int context_row_json(const struct context *c, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_str(&w, "name", c->name);
	json_put_str(&w, "language", c->language->name);
	if (c->cwd)
		json_put_str(&w, "cwd", c->cwd);
	if (c->user)
		json_put_str(&w, "user", c->user);
	if (c->env)
		json_put_value(&w, "env", c->env);
	json_put_u64(&w, "starts", c->starts);
	json_put_bool(&w, "is_split", c->is_split);
	json_close_object(&w);
	return json_writer_end(&w);
}

static int put_row(void *arg, struct err *err)
{
	const struct context *c = arg;
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct context_row row = {
		.id = c->id,
		.sandbox_id = c->sandbox->id,
		.channel = c->number,
		.created_us = c->created_us,
	};
	int r = context_row_json(c, &json);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot record context '%s'", c->name);
	row.json = json.data;
	return store_put_context(c->sandbox->fleet->config.store, &row, err);
}

int context_save(struct context *c, struct err *err)
{
	return event_log_save(c->sandbox->fleet->config.events, put_row, c, err);
}

int context_load(struct sandbox *s, const struct context_row *row)
{
	auto_json json_t *object = NULL;
	const char *name = NULL, *word = NULL, *cwd = NULL, *user = NULL;
	const struct language *language;
	json_t *env = NULL;
	uint64_t starts = 0;
	bool is_split = false;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, &name, true},
		{"language", JSON_FIELD_STRING, &word, true},
		{"cwd", JSON_FIELD_STRING, &cwd},
		{"user", JSON_FIELD_STRING, &user},
		{"env", JSON_FIELD_OBJECT, &env},
		{"starts", JSON_FIELD_U64, &starts, true},
		{"is_split", JSON_FIELD_BOOL, &is_split, true},
	};
	struct context *c;

	if (!id_is_valid(row->id, "ctx") ||
	    json_parse(row->json, strlen(row->json), &object, NULL) < 0 ||
	    json_read(object, "", fields, ARRAY_SIZE(fields), NULL) < 0)
		return -EBADMSG;
	language = language_find(word);
	if (!language)
		return -EBADMSG;
	c = context_new(s, language);
	(void)snprintf(c->id, sizeof(c->id), "%s", row->id);
	context_set(c, name, &(struct context_spec){.cwd = cwd, .user = user, .env = env});
	c->created_us = row->created_us;
	c->number = row->channel;
	c->starts = starts;
	c->is_split = is_split;
	c->orphan_until_us = crash_counter_find(s->fleet->crash_counters, c->id, &c->deadline);
	return 0;
}
