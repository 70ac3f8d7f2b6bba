// SPDX-License-Identifier: Apache-2.0
/*
 * Batches: many sandboxes of one spec, each told of as it becomes ready. A batch is a tag of its
 * members, which lists are filtered by; nothing else is kept of it. The object here lives as long
 * as its request.
 *
 * The members are created in their order, a few in a turn of the loop. When there is no room, the
 * batch waits in the queue of creates with its next one (tenant/create_queue.h): it has one place
 * there, whatever its size, so that other creates of the project come in between.
 *
 *	batch line --> members, as each runs or fails --> ended line
 *
 * When the client leaves, nothing more is begun. Members that it was told of live on until their
 * own time is up. One that was just being created is deleted, since nobody knows of it; but with
 * an idempotency key it stays, for a client that asks again. Such a client is told of all members
 * that there are, by their tags, and the rest is created. If the first request still goes on then,
 * it gives way.
 */
#include "api/sandboxes/batch.h"

#include "api/frame/access.h"
#include "api/frame/find.h"
#include "api/frame/idempotency.h"
#include "api/handlers.h"
#include "api/templates/image.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/units.h"
#include "http/stream.h"
#include "sandbox/model/batch_tag.h"
#include "tenant/create_queue.h"
#include "tenant/quota_lease.h"

#include <stdio.h>
#include <string.h>

#define STEP_CREATES 4 /* in one turn of the loop */
#define KEEPALIVE_US (15 * SECOND_US)

struct batch_member {
	struct batch *batch;
	uint32_t index;
	bool is_there; /* a request before this one has made it */
};

struct batch {
	struct list link;     /* in the api's, while it has a request */
	struct http_req *req; /* NULL: the client is gone, and what was borrowed from its body */
	const struct api *api;
	enum event_format format;
	char id[ID_SIZE], project_id[ID_SIZE];
	struct sandbox_spec spec;
	char *template; /* owned: of spec */
	json_t *tags;
	bool has_key; /* for idempotency: what is made stays for the next request */
	uint32_t count, next, n_pending, n_made, n_failed;
	uint64_t until_us; /* steady: it waits for room until then */
	struct create_waiter *waiter;
	struct loop_timer *step, *alive;
	struct batch_member members[];
};

static void batch_free(struct batch *b)
{
	list_remove(&b->link);
	loop_timer_free(b->step);
	loop_timer_free(b->alive);
	json_decref(b->tags);
	free(b->template);
	free(b);
}

static void on_client_gone(void *arg)
{
	struct batch *b = arg;

	b->req = NULL;
	list_remove(&b->link);
	create_queue_leave(take_ptr(b->waiter));
	loop_timer_set(b->step, UINT64_MAX);
	loop_timer_set(b->alive, UINT64_MAX);
	if (b->n_pending == 0)
		batch_free(b);
}

static struct json_writer *line_begin(struct json_writer *w, struct buf *json, const char *type)
{
	json_writer_init(w, json);
	json_open_object(w, NULL);
	json_put_str(w, "type", type);
	return w;
}

/* A client that is gone is told nothing; on_client_gone() follows. */
static void line_send(struct batch *b, struct json_writer *w, struct buf *json, const char *type)
{
	json_close_object(w);
	if (json_writer_end(w) == 0)
		(void)!event_stream_send(b->req, b->format, type, 0, json->data, json->len);
	loop_timer_set_in(b->alive, KEEPALIVE_US);
}

#define LINE_INIT BUF_INIT(256 * 1024)

static void send_made(struct batch *b, uint32_t index, const struct sandbox *s)
{
	auto_call(buf_done) struct buf json = LINE_INIT;
	struct json_writer w;

	(void)line_begin(&w, &json, "sandbox");
	json_put_u64(&w, "index", index);
	sandbox_to_json(s, &w, "sandbox");
	line_send(b, &w, &json, "sandbox");
	b->n_made++;
}

static void send_failed(struct batch *b, uint32_t index, const struct err *err)
{
	auto_call(buf_done) struct buf json = LINE_INIT;
	struct json_writer w;

	(void)line_begin(&w, &json, "failed");
	json_put_u64(&w, "index", index);
	json_put_err(&w, "error", err, http_request_id(b->req));
	line_send(b, &w, &json, "failed");
	b->n_failed++;
}

static void send_queued(struct batch *b, const struct err *why)
{
	auto_call(buf_done) struct buf json = LINE_INIT;
	struct json_writer w;

	(void)line_begin(&w, &json, "queued");
	json_put_u64(&w, "index", b->next);
	json_put_u64(&w, "position", create_waiter_position(b->waiter));
	json_put_u64(&w, "waiting",
	             create_queue_waiting(fleet_creates(b->api->fleet), b->project_id));
	json_put_str(&w, "why", err_code_name(why->code));
	line_send(b, &w, &json, "queued");
}

static void send_count(struct batch *b, const char *type)
{
	auto_call(buf_done) struct buf json = LINE_INIT;
	struct json_writer w;

	(void)line_begin(&w, &json, type);
	json_put_str(&w, "batch_id", b->id);
	json_put_u64(&w, "count", b->count);
	json_put_u64(&w, "made", b->n_made);
	json_put_u64(&w, "failed", b->n_failed);
	line_send(b, &w, &json, type);
}

static void end_if_done(struct batch *b)
{
	if (b->next < b->count || b->n_pending > 0)
		return;
	send_count(b, "ended");
	http_stream_end(b->req);
}

static void fail_rest(struct batch *b, const struct err *err)
{
	for (; b->next < b->count; b->next++)
		if (!b->members[b->next].is_there)
			send_failed(b, b->next, err);
	end_if_done(b);
}

static void on_created(struct sandbox *s, const struct err *err, void *arg)
{
	const struct batch_member *m = arg;
	struct batch *b = m->batch;

	b->n_pending--;
	if (!b->req) {
		if (s && !b->has_key && !m->is_there)
			sandbox_delete(s, END_DELETED, NULL, NULL);
		if (b->n_pending == 0)
			batch_free(b);
		return;
	}
	if (s)
		send_made(b, m->index, s);
	else
		send_failed(b, m->index, err);
	end_if_done(b);
}

/* The next that is not there yet; next goes behind it. */
static int create_next(struct batch *b, struct err *err)
{
	struct batch_member *m = &b->members[b->next];
	char index[16];
	int r;

	(void)snprintf(index, sizeof(index), "%u", b->next);
	(void)json_object_set_new(b->tags, BATCH_INDEX_TAG, json_string(index));
	b->spec.key_id = key_id(http_user(b->req));
	r = sandbox_create(b->api->fleet, b->project_id, &b->spec, on_created, m, err);
	if (r < 0)
		return r;
	b->n_pending++;
	b->next++;
	return 0;
}

static void skip_there(struct batch *b)
{
	while (b->next < b->count && b->members[b->next].is_there)
		b->next++;
}

static int queue_make(void *arg, struct err *err)
{
	struct batch *b = arg;
	int r;

	access_enter_again(b->req);
	r = create_next(b, err);
	access_leave(b->req);
	if (r < 0)
		return r;
	b->waiter = NULL;
	loop_timer_set_in(b->step, 0);
	return 0;
}

static void queue_give_up(const struct err *err, void *arg)
{
	struct batch *b = arg;

	b->waiter = NULL;
	fail_rest(b, err);
}

static const struct create_waiter_ops queue_ops = {queue_make, queue_give_up};

static int wait_for_room(struct batch *b, const struct err *why, struct err *err)
{
	const uint64_t asked_us = why->quota.is_asked ? http_begun_us(b->req) + QUOTA_HOPE_US : 0;
	const uint64_t until_us = MAX(b->until_us, asked_us);
	const struct create_wait wait = {.project_id = b->project_id,
	                                 .key_id = b->spec.key_id,
	                                 .request_id = http_request_id(b->req),
	                                 .batch_id = b->id,
	                                 .until_us = until_us,
	                                 .why = why};

	if (!create_queue_helps(why) || until_us <= clock_steady_us()) {
		*err = *why;
		return -EAGAIN;
	}
	return create_queue_join(fleet_creates(b->api->fleet), &wait, &queue_ops, b, &b->waiter,
	                         err);
}

static void on_step(struct loop *loop, void *arg)
{
	struct batch *b = arg;
	struct err why, err;
	int r = 0;

	(void)loop;
	access_enter_again(b->req);
	skip_there(b);
	for (unsigned i = 0; r == 0 && i < STEP_CREATES && b->next < b->count; i++) {
		r = create_next(b, &why);
		skip_there(b);
	}
	access_leave(b->req);
	if (r == 0 && b->next < b->count)
		loop_timer_set_in(b->step, 0);
	else if (r == 0)
		end_if_done(b);
	else if (wait_for_room(b, &why, &err) < 0)
		fail_rest(b, &err);
	else
		send_queued(b, &why);
}

static void on_silence(struct loop *loop, void *arg)
{
	struct batch *b = arg;

	(void)loop;
	(void)!event_stream_keepalive(b->req, b->format);
	loop_timer_set_in(b->alive, KEEPALIVE_US);
}

static int index_of(const struct sandbox *s, uint32_t count, uint32_t *ret)
{
	struct sandbox_facts facts;
	const char *text;
	uint64_t index;

	sandbox_facts(s, &facts);
	text = json_string_value(json_object_get(facts.tags, BATCH_INDEX_TAG));
	if (!text || parse_u64(text, count - 1, &index) < 0)
		return -ENOENT;
	*ret = (uint32_t)index;
	return 0;
}

/* Who has changed the tags of one has taken it out of the batch. */
static void take_member(struct sandbox *s, void *arg)
{
	struct batch *b = arg;
	struct err err;
	uint32_t i;

	if (index_of(s, b->count, &i) < 0 || b->members[i].is_there)
		return;
	b->members[i].is_there = true;
	b->n_pending++;
	if (sandbox_resume(s, on_created, &b->members[i], &err) == 0)
		return;
	b->n_pending--;
	(void)err_set(&err, ERR_GONE, 0, "sandbox %s, which this key made, has ended",
	              sandbox_id(s));
	send_failed(b, i, &err);
}

/* What a request with the same key has made. Those that have ended are told of as long as they are
 * remembered. */
static void take_members(struct batch *b)
{
	static const char *const states[] = {NULL, "stopped", "failed"};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		const struct sandbox_filter filter = {.project_id = b->project_id,
		                                      .tag_name = BATCH_TAG,
		                                      .tag_value = b->id,
		                                      .state = states[i],
		                                      .limit = SIZE_MAX};
		bool has_more;

		(void)fleet_list(b->api->fleet, &filter, take_member, b, &has_more);
	}
}

static struct batch *find_active(const struct api *api, const char *project_id, const char *id)
{
	list_for_each (&api->batches, struct batch, b, link)
		if (strcmp(b->id, id) == 0 && strcmp(b->project_id, project_id) == 0)
			return b;
	return NULL;
}

bool batch_stop(const struct api *api, const char *project_id, const char *id)
{
	struct batch *b = find_active(api, project_id, id);

	if (!b)
		return false;
	http_on_done(b->req, NULL, NULL);
	http_stream_abort(b->req);
	on_client_gone(b);
	return true;
}

static void note_member(struct sandbox *s, void *arg)
{
	(void)s;
	*(bool *)arg = true;
}

/* Nobody else has begun with it while its key was being taken. */
static bool is_untouched(const struct batch *b)
{
	const struct sandbox_filter filter = {
		.project_id = b->project_id, .tag_name = BATCH_TAG, .tag_value = b->id, .limit = 1};
	bool has_more, has_member = false;

	(void)fleet_list(b->api->fleet, &filter, note_member, &has_member, &has_more);
	return !has_member && !find_active(b->api, b->project_id, b->id);
}

static struct batch *batch_new(struct http_req *req, const struct sandbox_spec *spec,
                               uint64_t count, const char *id)
{
	const struct api *api = http_app_arg(req);
	struct batch *b = xcalloc(1, sizeof(*b) + count * sizeof(b->members[0]));

	list_init(&b->link);
	b->req = req;
	b->api = api;
	b->format = event_format_of(req) == EVENTS_SSE ? EVENTS_SSE : EVENTS_NDJSON;
	if (id)
		(void)snprintf(b->id, sizeof(b->id), "%s", id);
	else
		id_make_tagged(b->id, "bt");
	(void)snprintf(b->project_id, sizeof(b->project_id), "%s", caller_project(req));
	b->spec = *spec;
	b->template = spec->template ? xstrdup(spec->template) : NULL;
	b->spec.template = b->template;
	b->tags = spec->tags ? json_deep_copy(spec->tags) : json_object();
	(void)json_object_set_new(b->tags, BATCH_TAG, json_string(b->id));
	b->spec.tags = b->tags;
	b->count = (uint32_t)count;
	b->until_us = http_begun_us(req) + spec->wait_ms * 1000;
	b->step = loop_timer_new(api->loop, on_step, b);
	b->alive = loop_timer_new(api->loop, on_silence, b);
	for (uint32_t i = 0; i < b->count; i++)
		b->members[i] = (struct batch_member){.batch = b, .index = i};
	return b;
}

static void batch_begin(struct batch *b, bool is_again, const struct err *why)
{
	struct api *api = http_app_arg(b->req);

	list_append(&api->batches, &b->link);
	http_on_done(b->req, on_client_gone, b);
	http_reply_header(b->req, "Cloche-Batch-Id", b->id);
	event_stream_start(b->req, b->format);
	send_count(b, "batch");
	if (is_again)
		take_members(b);
	if (b->waiter && why)
		send_queued(b, why);
	else
		loop_timer_set_in(b->step, 0);
}

int create_batch(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	const bool is_new = batch_key_is_taken(req);
	struct idempotency_key key;
	const char *id = NULL;
	struct sandbox_spec spec;
	struct err why;
	struct batch *b;
	uint64_t count = 0;
	bool has_key;
	int r = check_accept(req, event_types, err);

	if (r == 0)
		r = batch_read(http_json(req), &spec, &count, err);
	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r > 0)
		return r;
	if (r == 0)
		r = idempotency_read(req, &key, err);
	has_key = r == 1;
	if (has_key)
		r = idempotency_find(api->fleet, caller_project(req), &key, &id, err);
	if (r >= 0)
		r = find_pulled(req, &spec, err);
	if (r == 0 && has_key && !id && node_is_in(api->node))
		r = batch_take_key(req, &key, err);
	if (r != 0)
		return r;
	b = batch_new(req, &spec, count, id);
	b->has_key = has_key;
	if (id && !(is_new && is_untouched(b))) {
		(void)batch_stop(api, b->project_id, b->id);
		batch_begin(b, /* is_again= */ true, NULL);
		return 0;
	}
	if (has_key && !id)
		r = idempotency_put(api->fleet, b->project_id, &key, b->id, err);
	/* The first is tried before anything is told: what is wrong with it is wrong with all. */
	if (r == 0 && create_next(b, &why) < 0)
		r = wait_for_room(b, &why, err);
	if (r < 0) {
		idempotency_drop(api->fleet, b->id);
		batch_free(b);
		return r;
	}
	batch_begin(b, /* is_again= */ false, &why);
	return 0;
}
