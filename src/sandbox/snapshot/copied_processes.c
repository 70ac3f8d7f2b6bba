// SPDX-License-Identifier: Apache-2.0
/*
 * A copy of a sandbox's memory contains its interpreters and execs, on the channels of the copied
 * agent. What the gateway knew about them is stored in the snapshot's row. A copy gets its own
 * contexts and execs from it, with new ids, and resumes their channels as a restarted gateway does.
 * Earlier output belongs to the source: readers of the copy's exec get a gap instead. Channels that
 * began or ended while memory was being saved are forgotten or lost by the same rules.
 */
#include "base/log.h"
#include "sandbox/code/contexts.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/snapshot/snapshots.h"

#define ROW_MAX (1024 * 1024)

static json_t *describe(uint32_t channel, uint64_t created_us, const struct buf *text)
{
	json_t *row = json_object();
	json_t *object = NULL;

	if (json_parse(text->data, text->len, &object, NULL) < 0)
		object = json_object();
	(void)json_object_set_new(row, "channel", json_integer(channel));
	(void)json_object_set_new(row, "created_us", json_integer((json_int_t)created_us));
	(void)json_object_set_new(row, "row", object);
	return row;
}

json_t *copied_processes_describe(const struct sandbox *s)
{
	json_t *ret = json_object(), *contexts = json_array(), *execs = json_array();

	list_for_each (&s->contexts, const struct context, c, link) {
		auto_call(buf_done) struct buf text = BUF_INIT(ROW_MAX);

		if (c->number > 0 && context_row_json(c, &text) >= 0)
			(void)json_array_append_new(contexts,
			                            describe(c->number, c->created_us, &text));
	}
	list_for_each (&s->exec_list, const struct exec, e, link) {
		auto_call(buf_done) struct buf text = BUF_INIT(ROW_MAX);

		if (!e->is_output_over && exec_row_json(e, &text) >= 0)
			(void)json_array_append_new(execs,
			                            describe(e->number, e->created_us, &text));
	}
	(void)json_object_set_new(ret, "channels_to", json_integer(s->channels_to));
	(void)json_object_set_new(ret, "contexts", contexts);
	(void)json_object_set_new(ret, "execs", execs);
	return ret;
}

json_t *copied_processes_describe_warm(const struct sandbox *s)
{
	json_t *ret = json_object(), *warm = json_array();

	list_for_each (&s->warm, const struct context, c, link) {
		json_t *row = json_object();

		if (c->state == CONTEXT_IDLE && c->number > 0) {
			(void)json_object_set_new(row, "language", json_string(c->language->name));
			(void)json_object_set_new(row, "channel", json_integer(c->number));
			(void)json_array_append(warm, row);
		}
		json_decref(row);
	}
	(void)json_object_set_new(ret, "channels_to", json_integer(s->channels_to));
	(void)json_object_set_new(ret, "warm", warm);
	return ret;
}

void copied_processes_expect(struct sandbox *s, const json_t *carried)
{
	const json_int_t to = json_integer_value(json_object_get(carried, "channels_to"));

	s->carried = json_deep_copy(carried ? carried : json_object());
	/* The copy's agent has only channels below this; new ones are above. */
	if (to > 0 && to < UINT32_MAX)
		s->next_channel = s->channels_to = (uint32_t)to;
}

static void load_context(struct sandbox *s, uint32_t channel, uint64_t created_us, const char *text)
{
	char id[ID_SIZE];
	const struct context_row row = {.id = id,
	                                .sandbox_id = s->id,
	                                .channel = channel,
	                                .created_us = created_us,
	                                .json = text};
	struct context *c;
	struct err err;

	id_make(id, "ctx");
	if (context_load(s, &row) < 0)
		return;
	c = list_entry(s->contexts.prev, struct context, link);
	c->is_copied = true;
	if (context_save(c, &err) < 0)
		log_error("context.not_saved", "id=%s error='%s'", c->id, err.message);
}

static void load_exec(struct sandbox *s, uint32_t channel, uint64_t created_us, const char *text)
{
	char id[ID_SIZE];
	const struct exec_row row = {.id = id,
	                             .sandbox_id = s->id,
	                             .channel = channel,
	                             .state = EXEC_RUNNING,
	                             .created_us = created_us,
	                             .json = text};
	struct exec *e;
	struct err err;

	id_make(id, "ex");
	if (exec_load(s, &row) < 0)
		return;
	e = list_entry(s->exec_list.prev, struct exec, link);
	e->stdout_bytes = e->stderr_bytes = e->last_seq = 0;
	e->oom_kills_before = e->pids_refused_before = 0;
	e->ends_with_caller = false; /* who called is the source's */
	if (exec_save(e, &err) < 0)
		log_error("exec.not_saved", "id=%s error='%s'", e->id, err.message);
}

static void load_all(struct sandbox *s, const char *name,
                     void (*fn)(struct sandbox *s, uint32_t channel, uint64_t created_us,
                                const char *text))
{
	const json_t *rows = json_object_get(s->carried, name);
	size_t i;
	json_t *row;

	json_array_foreach(rows, i, row)
	{
		const json_int_t channel = json_integer_value(json_object_get(row, "channel"));
		const json_int_t created = json_integer_value(json_object_get(row, "created_us"));
		char *text = json_dumps(json_object_get(row, "row"), JSON_COMPACT);

		if (text && channel > 0 && channel < s->channels_to)
			fn(s, (uint32_t)channel, (uint64_t)created, text);
		free(text);
	}
}

/* Rejoins interpreters that nobody has asked for yet. */
static void rejoin_warm(struct sandbox *s)
{
	size_t i;
	json_t *row;

	json_array_foreach(json_object_get(s->carried, "warm"), i, row)
	{
		const char *word = json_string_value(json_object_get(row, "language"));
		const json_int_t channel = json_integer_value(json_object_get(row, "channel"));
		const struct language *language = word ? language_find(word) : NULL;
		struct context *c;

		if (!language || channel <= 0 || channel >= s->channels_to)
			continue;
		c = context_new(s, language);
		c->number = (uint32_t)channel;
		c->starts = 1;
		c->is_copied = true;
		list_append(&s->warm, &c->link);
		interpreter_rejoin(c);
	}
}

void copied_processes_rejoin(struct sandbox *s)
{
	if (!s->carried)
		return;
	rejoin_warm(s);
	load_all(s, "contexts", load_context);
	load_all(s, "execs", load_exec);
	json_decref(take_ptr(s->carried));
	exec_rejoin_all(s);
	context_rejoin_all(s);
}
