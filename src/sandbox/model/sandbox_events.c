// SPDX-License-Identifier: Apache-2.0
/*
 * Event log entries and counts about sandboxes: a function for each kind, called where it happens.
 * Execs and contexts have theirs in their own folders.
 */
#include "sandbox/model/sandbox_events.h"

#include "base/clock.h"
#include "sandbox/model/batch_tag.h"
#include "sandbox/model/sandbox_private.h"

struct json_writer *emit_begin(struct event *ev, const struct sandbox *s, enum event_type type)
{
	return event_begin(ev, s->fleet->config.events, type, s->project_id, s->id);
}

static void put_limits(struct json_writer *w, const struct sandbox *s)
{
	json_open_object(w, "limits");
	json_put_double(w, "vcpus", s->limits.cpu_milli / 1000.0);
	json_put_u64(w, "memory_mib", s->limits.memory_bytes >> 20);
	json_put_u64(w, "disk_mib", s->limits.disk_bytes >> 20);
	json_put_u64(w, "pids", s->limits.pids);
	json_close_object(w);
	json_put_u64(w, "timeout_ms", s->timeout_ms);
}

/* So that who watches a batch finds its members. */
static void put_batch(struct json_writer *w, const struct sandbox *s)
{
	const char *id = json_string_value(json_object_get(s->tags, BATCH_TAG));

	if (!id)
		return;
	event_put_text(w, "batch", id);
	event_put_text(w, "batch_index",
	               json_string_value(json_object_get(s->tags, BATCH_INDEX_TAG)));
}

void emit_created(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_CREATED);

	s->fleet->counts.creates++;
	json_put_str(w, "name", s->name[0] ? s->name : NULL);
	put_batch(w, s);
	put_limits(w, s);
	event_end(&ev);
}

void emit_rolled_back(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_ROLLED_BACK);

	json_put_str(w, "snapshot_id", s->snapshot_id);
	event_end(&ev);
}

void emit_refused(const struct sandbox *s, enum end_cause cause)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_ENDED);

	json_put_str(w, "state", sandbox_state_name(SANDBOX_FAILED));
	json_put_str(w, "cause", end_cause_name(cause));
	json_put_str(w, "message", "it could not be created");
	json_put_u64(w, "created_us", s->created_us);
	json_put_u64(w, "ended_us", clock_wall_us());
	json_put_u64(w, "oom_kills", 0);
	event_end(&ev);
}

static void put_end(struct json_writer *w, const struct sandbox *s)
{
	json_put_str(w, "cause", end_cause_name(s->end.cause));
	event_put_text(w, "message", s->end.message);
}

static void emit_stopping(const struct sandbox *s)
{
	struct event ev;

	put_end(emit_begin(&ev, s, EVENT_SANDBOX_STOPPING), s);
	event_end(&ev);
}

static void emit_ended(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_ENDED);

	json_put_str(w, "state", sandbox_state_name(s->state));
	put_end(w, s);
	json_put_u64(w, "created_us", s->created_us);
	json_put_u64(w, "ended_us", s->end.at_us);
	json_put_u64(w, "oom_kills", s->oom_kills);
	put_batch(w, s);
	event_end(&ev);
}

/* The sandbox can be resumed, so this is not its end. */
static void emit_stopped(const struct sandbox *s)
{
	struct event ev;

	put_end(emit_begin(&ev, s, EVENT_SANDBOX_STOPPED), s);
	event_end(&ev);
}

static void emit_rest(const struct sandbox *s, enum event_type type)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, type);

	json_put_u64(w, "resumes", s->resumes);
	event_end(&ev);
}

static void emit_paused(const struct sandbox *s)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_PAUSED);

	json_put_u64(w, "resumes", s->resumes);
	json_put_str(w, "to", s->paused_in[0] ? "disk" : "memory");
	json_put_str(w, "cause",
	             s->pause_cause == END_NONE ? NULL : end_cause_name(s->pause_cause));
	event_end(&ev);
}

static void emit_running(const struct sandbox *s)
{
	uint64_t now_us = clock_wall_us();
	uint64_t after_us = now_us > s->created_us ? now_us - s->created_us : 0;
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_RUNNING);

	histogram_add(&s->fleet->counts.create_us, after_us);
	json_put_u64(w, "after_us", after_us);
	put_batch(w, s);
	event_end(&ev);
}

void emit_moved(const struct sandbox *s, enum sandbox_state from)
{
	s->fleet->counts.creates_failed += from == SANDBOX_CREATING && s->state != SANDBOX_RUNNING;
	switch (s->state) {
	case SANDBOX_RUNNING:
		if (from == SANDBOX_CREATING && s->resumes == 0)
			emit_running(s);
		else
			emit_rest(s, EVENT_SANDBOX_RESUMED);
		return;
	case SANDBOX_PAUSED:
		emit_paused(s);
		return;
	case SANDBOX_STOPPING:
		emit_stopping(s);
		return;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		if (s->is_kept)
			emit_stopped(s);
		else
			emit_ended(s);
		return;
	case SANDBOX_PAUSING:
	case SANDBOX_CREATING:
	case SANDBOX_STATE_COUNT:
		return;
	}
}

void emit_adopted(const struct sandbox *s)
{
	struct event ev;

	(void)emit_begin(&ev, s, EVENT_SANDBOX_ADOPTED);
	event_end(&ev);
}

void emit_changed(struct sandbox *s, const char *what)
{
	struct event ev;
	struct json_writer *w = emit_begin(&ev, s, EVENT_SANDBOX_CHANGED);

	s->outlive.changes++;
	json_put_str(w, "what", what);
	put_limits(w, s);
	event_end(&ev);
}
