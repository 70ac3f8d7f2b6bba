// SPDX-License-Identifier: Apache-2.0
/*
 * What others learn of a build: its log, line by line; its entries in the event log; and its
 * watchers, which are called once per turn if there is something new.
 */
#include "build/build_private.h"

#include <string.h>

static void tell_watchers(struct loop *loop, void *arg)
{
	struct build *b = arg;

	(void)loop;
	b->is_turn_due = false;
	list_for_each (&b->watches, struct build_watch, w, link)
		w->fn(b, w->arg);
}

void build_tell(struct build *b)
{
	if (!b->is_turn_due)
		loop_defer(b->owner->config.loop, tell_watchers, b);
	b->is_turn_due = true;
}

void build_watch_add(struct build *b, struct build_watch *w)
{
	list_append(&b->watches, &w->link);
}

void build_watch_remove(struct build_watch *w)
{
	list_remove(&w->link);
}

void build_say_line(struct build *b, const char *line, size_t len)
{
	struct spool *log = build_log(b);
	auto_free char *text = xasprintf("%.*s\n", (int)len, line);
	struct err err;

	if (spool_put(log, SPOOL_STDOUT, text, len + 1, &err) < 0)
		spool_skip(log, SPOOL_STDOUT, len + 1);
	build_tell(b);
}

void build_say(struct build *b, const char *text)
{
	build_say_line(b, text, strlen(text));
}

/* After a restart it is no longer known who asked for it. */
void build_emit(const struct build *b, enum event_type type)
{
	struct event ev;
	struct json_writer *w = event_begin(&ev, fleet_config(b->owner->config.fleet)->events, type,
	                                    b->project_id, NULL);

	json_put_str(w, "build_id", b->id);
	json_put_str(w, "name", build_name(b));
	if (type == EVENT_BUILD_ENDED)
		json_put_str(w, "state", build_state_name(b->state));
	if (type == EVENT_BUILD_RETRIED)
		json_put_u64(w, "tries", b->tries);
	if (type == EVENT_BUILD_ENDED || type == EVENT_BUILD_RETRIED)
		event_put_text(w, "message", b->error.code ? b->error.message : NULL);
	event_end(&ev);
}
