// SPDX-License-Identifier: Apache-2.0
/*
 * Watches of directories. As a stream, events are sent as they come. As a watcher, events are kept
 * until they are asked for; before the answer, the agent is asked to report everything that has
 * happened so far, so that a client that wrote a file sees its event.
 *
 * A watcher lives until it is removed or its sandbox ends, keeps EVENTS_MAX events and then no
 * more, and a sandbox has WATCHERS_MAX.
 */
#include "compat/e2b/envd/rpc.h"
#include "compat/e2b/frame/body.h"

#include "api/frame/reply.h"
#include "base/list.h"
#include "sandbox/fileops/file_call.h"

#include <stdio.h>
#include <string.h>

#define EVENTS_MAX      4096
#define WATCHERS_MAX    64
#define EVENT_BYTES_MAX (128 * 1024)

static const char *const event_names[] = {
	[WATCH_CREATED] = "EVENT_TYPE_CREATE", [WATCH_MODIFIED] = "EVENT_TYPE_WRITE",
	[WATCH_REMOVED] = "EVENT_TYPE_REMOVE", [WATCH_MOVED] = "EVENT_TYPE_RENAME",
	[WATCH_ATTRIB] = "EVENT_TYPE_CHMOD",
};

struct events { /* turns the agent's records into E2B's events */
	bool has_entries;
	struct envd_entry noted;
	struct buf entry; /* JSON of what is at the next event's path; len 0 = nothing */
	void (*fn)(struct events *ev, struct json_writer *w, const struct buf *json, void *arg);
	void *arg;
};

static void put_event(struct events *ev, enum watch_event type, const char *path)
{
	auto_call(buf_done) struct buf json = BUF_INIT(EVENT_BYTES_MAX);
	struct json_writer w;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "name", path);
	json_put_str(&w, "type", event_names[type]);
	if (ev->entry.len > 0)
		json_put_raw(&w, "entry", ev->entry.data, ev->entry.len);
	json_close_object(&w);
	buf_truncate(&ev->entry, 0);
	if (json_writer_end(&w) == 0)
		ev->fn(ev, &w, &json, ev->arg);
}

static void note_entry(struct events *ev, const struct record *r)
{
	struct json_writer w;

	buf_truncate(&ev->entry, 0);
	json_writer_init(&w, &ev->entry);
	envd_put_entry(&ev->noted, r, &w, NULL);
	if (json_writer_end(&w) < 0)
		buf_truncate(&ev->entry, 0);
}

/* true: it was WATCH_READY. */
static bool take_record(struct events *ev, const struct record *r)
{
	if (envd_entry_note(&ev->noted, r))
		return false;
	if (r->kind == RECORD_ENTRY) {
		note_entry(ev, r);
		return false;
	}
	if (r->kind != RECORD_EVENT)
		return false;
	if (r->event == WATCH_READY)
		return true;
	if ((size_t)r->event >= ARRAY_SIZE(event_names) || !event_names[r->event])
		return false;
	put_event(ev, r->event, r->path);
	if (r->event == WATCH_MOVED)
		put_event(ev, WATCH_CREATED, r->path2);
	return false;
}

static void events_done(struct events *ev)
{
	envd_entry_done(&ev->noted);
	buf_done(&ev->entry);
}

static int start_watch(const struct envd_caller *caller, const json_t *message, struct events *ev,
                       const struct file_call_ops *ops, void *arg, struct file_call **ret,
                       struct err *err)
{
	struct start op = {
		.kind = START_FILE, .op = FILE_WATCH, .flags = FILE_WHOLE | FILE_FOR_USER};
	const char *text = "";
	auto_free char *path = NULL;
	bool is_recursive = false;
	int r = body_text(message, "path", &text, err);

	if (r == 0)
		r = body_bool(message, "recursive", &is_recursive, err);
	if (r == 0)
		r = body_bool(message, "includeEntry", &ev->has_entries, err);
	if (r < 0)
		return r;
	path = envd_path(caller->s, text);
	if (strlen(path) > START_PATH_MAX)
		return err_field(err, "path", "is too long");
	buf_init(&ev->entry, EVENT_BYTES_MAX / 2);
	op.path = path;
	op.user = unconst(caller->user);
	op.cwd = unconst("");
	op.owner = unconst(ENVD_ATTRIBUTES);
	op.flags |= is_recursive ? FILE_RECURSIVE : 0;
	op.flags |= ev->has_entries ? FILE_ENTRIES : 0;
	return file_call_start(caller->s, &op, ops, arg, ret, err);
}

/* As a stream. */
struct watch {
	struct http_req *req;
	struct file_call *call; /* NULL: it has ended */
	struct events events;
	bool has_begun, is_quiet, is_over;
	uint64_t keepalive_us;
	struct loop_timer *keepalive, *deadline;
};

static void watch_on_done(void *arg)
{
	struct watch *w = arg;

	if (w->call)
		file_call_cancel(w->call);
	loop_timer_free(w->keepalive);
	loop_timer_free(w->deadline);
	events_done(&w->events);
	free(w);
}

static void send_message(struct watch *w, const char *name, const struct buf *value)
{
	auto_call(buf_done) struct buf json = BUF_INIT(EVENT_BYTES_MAX + 64);

	if (w->is_over)
		return;
	w->is_quiet = false;
	if (buf_printf(&json, "{\"%s\":%s}", name, value ? buf_str(value) : "{}") < 0 ||
	    rpc_send(w->req, &json) < 0) {
		w->is_over = true;
		http_stream_abort(w->req);
	} else if (w->call && http_stream_pending(w->req) >= HTTP_HIGH_WATER) {
		file_call_pause(w->call, true);
	}
}

static void watch_send(struct events *ev, struct json_writer *jw, const struct buf *json, void *arg)
{
	(void)ev;
	(void)jw;
	send_message(arg, "filesystem", json);
}

static void watch_on_record(const struct record *r, void *arg)
{
	struct watch *w = arg;

	if (take_record(&w->events, r) && !w->has_begun) {
		w->has_begun = true;
		send_message(w, "start", NULL);
	}
}

static void watch_on_end(const struct err *err, void *arg)
{
	struct watch *w = arg;

	w->call = NULL;
	if (w->is_over)
		return;
	w->is_over = true;
	/* The sandbox ended: clients recognise that by a stream without an end. */
	if (err &&
	    (err->code == ERR_GONE || err->code == ERR_GUEST || err->code == ERR_UNAVAILABLE))
		http_stream_abort(w->req);
	else
		rpc_end(w->req, err);
}

static void watch_on_drain(void *arg)
{
	struct watch *w = arg;

	if (w->call)
		file_call_pause(w->call, false);
}

static void watch_on_keepalive(struct loop *loop, void *arg)
{
	struct watch *w = arg;
	bool was_quiet = w->is_quiet;

	(void)loop;
	w->is_quiet = true;
	loop_timer_set_in(w->keepalive, w->keepalive_us / 2);
	if (was_quiet && w->has_begun)
		send_message(w, "keepalive", NULL);
}

static void watch_on_deadline(struct loop *loop, void *arg)
{
	struct watch *w = arg;

	(void)loop;
	if (w->is_over)
		return;
	w->is_over = true;
	rpc_end_with(w->req, "deadline_exceeded", "the watch's time was up");
}

static int watch_dir(struct http_req *req, const struct envd_caller *caller, const json_t *message,
                     struct err *err)
{
	static const struct file_call_ops ops = {.on_record = watch_on_record,
	                                         .on_end = watch_on_end};
	struct watch *w;
	uint64_t ms;
	int r = rpc_timeout_ms(req, &ms, err);

	if (r < 0)
		return r;
	w = xnew0(struct watch);
	*w = (struct watch){.req = req, .keepalive_us = rpc_keepalive_us(req)};
	w->events.fn = watch_send;
	w->events.arg = w;
	r = start_watch(caller, message, &w->events, &ops, w, &w->call, err);
	if (r < 0) {
		events_done(&w->events);
		free(w);
		return r;
	}
	w->keepalive = loop_timer_new(http_loop(req), watch_on_keepalive, w);
	loop_timer_set_in(w->keepalive, w->keepalive_us / 2);
	w->deadline = loop_timer_new(http_loop(req), watch_on_deadline, w);
	if (ms > 0)
		loop_timer_set_in(w->deadline, ms * 1000);
	http_on_done(req, watch_on_done, w);
	http_on_drain(req, watch_on_drain, w);
	return 0;
}

int envd_watch_dir(struct http_req *req, struct err *err)
{
	(void)err;
	return rpc_take(req, watch_dir);
}

/* As a watcher. */
struct asker { /* a request that waits for WATCH_READY */
	struct list link;
	struct http_req *req;
};

struct watcher {
	struct list link;
	char id[ID_SIZE], sandbox_id[ID_SIZE];
	struct file_call *call; /* NULL: it has ended */
	struct events events;
	bool has_begun;
	struct buf kept; /* events, with commas */
	size_t n_kept;
	struct list askers; /* the first one made it, or they want its events */
};

static void asker_free(struct asker *a)
{
	list_remove(&a->link);
	free(a);
}

static void on_asker_done(void *arg)
{
	asker_free(arg);
}

static void ask(struct watcher *w, struct http_req *req)
{
	struct asker *a = xnew0(struct asker);

	a->req = req;
	list_append(&w->askers, &a->link);
	http_on_done(req, on_asker_done, a);
}

static void watcher_free(struct watcher *w)
{
	if (w->call)
		file_call_cancel(w->call);
	list_remove(&w->link);
	events_done(&w->events);
	buf_done(&w->kept);
	free(w);
}

static void keep_event(struct events *ev, struct json_writer *jw, const struct buf *json, void *arg)
{
	struct watcher *w = arg;

	(void)ev;
	(void)jw;
	if (w->n_kept < EVENTS_MAX &&
	    buf_printf(&w->kept, "%s%s", w->kept.len > 0 ? "," : "", buf_str(json)) == 0)
		w->n_kept++;
}

static void reply_made(struct watcher *w, struct http_req *req)
{
	struct reply reply;

	json_put_str(reply_begin(&reply), "watcherId", w->id);
	reply_send_late(&reply, req, 200);
}

static void reply_events(struct watcher *w, struct http_req *req)
{
	auto_call(buf_done) struct buf body = BUF_INIT(w->kept.len + 64);

	if (buf_printf(&body, "{\"events\":[%s]}", buf_str(&w->kept)) == 0)
		http_reply_json(req, 200, &body);
	buf_truncate(&w->kept, 0);
	w->n_kept = 0;
}

static void watcher_on_record(const struct record *r, void *arg)
{
	struct watcher *w = arg;
	struct asker *a;
	struct http_req *req;

	if (!take_record(&w->events, r) || list_empty(&w->askers))
		return;
	a = list_first(&w->askers, struct asker, link);
	req = a->req;
	http_on_done(req, NULL, NULL);
	asker_free(a);
	if (w->has_begun)
		reply_events(w, req);
	else
		reply_made(w, req);
	w->has_begun = true;
}

static void watcher_on_end(const struct err *err, void *arg)
{
	struct watcher *w = arg;
	struct err gone;

	w->call = NULL;
	if (!err) {
		(void)err_set(&gone, ERR_NOT_FOUND, 0, "what was watched is gone");
		err = &gone;
	}
	while (!list_empty(&w->askers)) {
		struct asker *a = list_first(&w->askers, struct asker, link);
		struct http_req *req = a->req;

		http_on_done(req, NULL, NULL);
		asker_free(a);
		http_reply_err(req, err);
	}
	watcher_free(w);
}

/* The watchers of all sandboxes; each ends with its file call. */
static struct list *watchers_of(const struct http_req *req)
{
	struct api *api = http_app_arg(req);

	return &api->watchers;
}

static size_t count_watchers(const struct http_req *req, const char *id)
{
	size_t n = 0;

	list_for_each (watchers_of(req), struct watcher, w, link)
		n += strcmp(w->sandbox_id, id) == 0;
	return n;
}

int envd_create_watcher(struct http_req *req, struct err *err)
{
	static const struct file_call_ops ops = {.on_record = watcher_on_record,
	                                         .on_end = watcher_on_end};
	struct envd_caller caller;
	struct watcher *w;
	int r = envd_find(req, &caller, err);

	if (r != 0)
		return r;
	if (count_watchers(req, sandbox_id(caller.s)) >= WATCHERS_MAX)
		return err_set(err, ERR_LIMIT, 0, "a sandbox has up to %d watchers", WATCHERS_MAX);
	w = xnew0(struct watcher);
	id_make(w->id, "w");
	(void)snprintf(w->sandbox_id, sizeof(w->sandbox_id), "%s", sandbox_id(caller.s));
	buf_init(&w->kept, (size_t)EVENTS_MAX * 1024);
	list_init(&w->askers);
	w->events.fn = keep_event;
	w->events.arg = w;
	list_append(watchers_of(req), &w->link);
	r = start_watch(&caller, http_json(req), &w->events, &ops, w, &w->call, err);
	if (r < 0)
		watcher_free(w);
	else
		ask(w, req);
	return r;
}

static int find_watcher(struct http_req *req, struct watcher **ret, struct err *err)
{
	struct envd_caller caller;
	const char *id = "";
	int r = envd_find(req, &caller, err);

	if (r == 0)
		r = body_text(http_json(req), "watcherId", &id, err);
	if (r != 0)
		return r;
	list_for_each (watchers_of(req), struct watcher, w, link)
		if (strcmp(w->id, id) == 0 && strcmp(w->sandbox_id, sandbox_id(caller.s)) == 0) {
			*ret = w;
			return 0;
		}
	return err_set(err, ERR_NOT_FOUND, 0, "watcher with id %.60s not found", id);
}

int envd_get_watcher_events(struct http_req *req, struct err *err)
{
	struct watcher *w;
	int r = find_watcher(req, &w, err);

	if (r != 0)
		return r;
	if (file_call_write(w->call, "\n", 1) == 1)
		ask(w, req);
	else
		reply_events(w, req);
	return 0;
}

int envd_remove_watcher(struct http_req *req, struct err *err)
{
	struct watcher *w;
	int r = find_watcher(req, &w, err);

	if (r != 0)
		return r;
	if (list_empty(&w->askers))
		watcher_free(w);
	else
		file_call_finish(w->call);
	rpc_reply_empty(req);
	return 0;
}
