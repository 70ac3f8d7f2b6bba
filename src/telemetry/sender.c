// SPDX-License-Identifier: Apache-2.0
/*
 * Sends one signal. A batch begins when an interval is over or enough waits, is encoded piece by
 * piece in a job of the loop, and goes out as one request. A collector that is away or busy (429,
 * 502, 503, 504) gets it again later, after 1 s, 2 s, 4 s … up to a minute, or after what it says
 * in Retry-After. What it refuses for good is dropped, since it would refuse it again.
 *
 * A queue that is full loses its oldest: first the batch that waits to be tried again.
 */
#include "base/id.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"
#include "telemetry/telemetry_private.h"

#include <stdio.h>
#include <string.h>

#define QUEUE_ITEMS     2048
#define QUEUE_BYTES     ((size_t)4 * 1024 * 1024)
#define QUEUE_PROMPT    512 /* sent without waiting for the interval */
#define BODY_MAX        ((size_t)8 * 1024 * 1024)
#define REPLY_MAX       ((size_t)32 * 1024)
#define BACKOFF_US      SECOND_US
#define BACKOFF_MAX_US  (60 * SECOND_US)
#define RETRY_AFTER_MAX 600 /* seconds */

static void begin(struct sender *s);
static void send_body(struct sender *s);

static void drop_body(struct sender *s)
{
	buf_done(&s->body);
	s->n_body = 0;
}

static void rest(struct sender *s)
{
	s->state = SENDER_IDLE;
	drop_body(s);
	loop_timer_set_in(s->timer, s->telemetry->config.interval_us);
	if (s->failing_since_us == 0 && s->n_queue >= QUEUE_PROMPT)
		loop_timer_set_in(s->timer, 0);
	telemetry_on_idle(s->telemetry);
}

static void note_failure(struct sender *s, const char *why)
{
	s->n_failed++;
	(void)snprintf(s->why, sizeof(s->why), "%.*s", WHY_SIZE - 1, why);
	if (s->failing_since_us != 0)
		return;
	s->failing_since_us = loop_now_us(s->telemetry->config.outgoing.loop);
	log_warn("telemetry.failing", "url='%s' error='%s'", s->url, s->why);
}

static void note_success(struct sender *s)
{
	s->attempts = 0;
	if (s->failing_since_us == 0)
		return;
	s->failing_since_us = 0;
	log_info("telemetry.recovered", "url='%s'", s->url);
}

static uint64_t backoff_us(const struct sender *s, const struct outgoing_reply *reply)
{
	const char *after = reply->head ? http_head_find(reply->head, "Retry-After") : NULL;
	uint64_t us = BACKOFF_US << MIN(s->attempts, 6U), seconds;
	uint32_t random;

	if (after && parse_u64(after, RETRY_AFTER_MAX, &seconds) == 0)
		return MAX(seconds * SECOND_US, BACKOFF_US);
	us = MIN(us, BACKOFF_MAX_US);
	random_bytes(&random, sizeof(random)); /* many daemons must not come back at once */
	return us - us / 4 + random % (us / 4);
}

static void try_later(struct sender *s, const struct outgoing_reply *reply)
{
	uint64_t in_us = backoff_us(s, reply);

	s->attempts++;
	s->state = SENDER_WAITING;
	if (s->kind->is_renewed)
		drop_body(s);
	loop_timer_set_in(s->timer, in_us);
	telemetry_on_idle(s->telemetry);
}

/* How many the collector has taken none the less for wrong, by its own word. */
static uint64_t count_rejected(const struct sender *s, const struct outgoing_reply *reply)
{
	auto_json json_t *answer = NULL;
	const json_t *number;
	uint64_t n = 0;

	if (reply->len == 0 || json_parse_up_to(reply->body, reply->len, 64, &answer, NULL) < 0)
		return 0;
	number = json_object_get(json_object_get(answer, "partialSuccess"), s->kind->rejected);
	if (json_is_integer(number) && json_integer_value(number) > 0)
		n = (uint64_t)json_integer_value(number);
	else if (json_is_string(number) && parse_u64(json_string_value(number), UINT32_MAX, &n) < 0)
		n = 0;
	return MIN(n, s->n_body);
}

static void on_reply(const struct outgoing_reply *reply, void *arg)
{
	struct sender *s = arg;
	const int status = reply->status;
	struct outgoing_call *call = take_ptr(s->call);
	char why[WHY_SIZE];
	uint64_t rejected;

	(void)snprintf(why, sizeof(why), "it answered with status %d", status);
	if (status >= 200 && status < 300) {
		rejected = count_rejected(s, reply);
		s->n_sent += s->n_body - rejected;
		s->n_dropped += rejected;
		note_success(s);
		rest(s);
	} else if (status == 0 || status == 429 || (status >= 502 && status <= 504)) {
		note_failure(s, status == 0 ? reply->why : why);
		try_later(s, reply);
	} else {
		note_failure(s, why);
		s->n_dropped += s->n_body;
		rest(s);
	}
	outgoing_call_free(call);
}

static void send_body(struct sender *s)
{
	const struct telemetry_headers *given = s->telemetry->config.headers;
	struct http_field fields[TELEMETRY_HEADERS_MAX + 1] = {
		{"Content-Type", "application/json"}};
	struct outgoing_request request = {.method = "POST",
	                                   .url = s->url,
	                                   .fields = fields,
	                                   .n_fields = 1,
	                                   .body = s->body.data,
	                                   .len = s->body.len,
	                                   .reply_max = REPLY_MAX};

	for (size_t i = 0; given && i < given->n; i++)
		fields[request.n_fields++] = given->of[i];
	s->state = SENDER_SENDING;
	s->call = outgoing_call_new(&s->telemetry->config.outgoing, &request, on_reply, s);
}

static bool encode(struct loop *loop, void *arg)
{
	struct sender *s = arg;

	do {
		if (s->kind->put(s))
			continue;
		otlp_end(s);
		if (json_writer_end(&s->writer) == 0) {
			send_body(s);
		} else {
			s->n_dropped += s->n_body; /* it is past BODY_MAX */
			rest(s);
		}
		return true;
	} while (loop_has_time(loop));
	return false;
}

static void begin(struct sender *s)
{
	if (s->kind->free_item && list_empty(&s->queue)) {
		rest(s);
		return;
	}
	s->state = SENDER_ENCODING;
	s->n_body = s->group = 0;
	otlp_begin(s);
	loop_job_start(s->encoder);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct sender *s = arg;

	(void)loop;
	if (s->state == SENDER_WAITING && s->body.len > 0)
		send_body(s);
	else if (s->state == SENDER_WAITING || s->state == SENDER_IDLE)
		begin(s);
}

static void drop_oldest(struct sender *s, size_t bytes)
{
	if (s->state == SENDER_WAITING && s->n_body > 0) {
		s->n_dropped += s->n_body;
		drop_body(s);
	}
	while (s->n_queue > 0 &&
	       (s->n_queue >= QUEUE_ITEMS || s->n_queue_bytes + bytes > QUEUE_BYTES)) {
		struct list *oldest = s->queue.next;

		list_remove(oldest);
		s->n_queue--;
		s->n_queue_bytes -= s->kind->size_of(oldest);
		s->kind->free_item(oldest);
		s->n_dropped++;
	}
}

void sender_add(struct sender *s, struct list *link)
{
	size_t bytes = s->kind->size_of(link);

	if (s->n_queue >= QUEUE_ITEMS || s->n_queue_bytes + bytes > QUEUE_BYTES)
		drop_oldest(s, bytes);
	list_append(&s->queue, link);
	s->n_queue++;
	s->n_queue_bytes += bytes;
	if (s->n_queue == QUEUE_PROMPT && s->state == SENDER_IDLE)
		loop_timer_set_in(s->timer, 0);
}

void sender_send_now(struct sender *s)
{
	if (s->state == SENDER_IDLE)
		loop_timer_set_in(s->timer, 0);
}

bool sender_is_busy(const struct sender *s)
{
	if (!s->kind || s->state == SENDER_WAITING)
		return false;
	return s->state != SENDER_IDLE || s->n_queue > 0;
}

void sender_open(struct sender *s, struct telemetry *t, enum telemetry_signal which)
{
	struct loop *loop = t->config.outgoing.loop;
	size_t len = strlen(t->config.url);

	while (len > 0 && t->config.url[len - 1] == '/')
		len--;
	s->telemetry = t;
	s->kind = &signal_kinds[which];
	s->url = xasprintf("%.*s%s", (int)len, t->config.url, s->kind->path);
	list_init(&s->queue);
	buf_init(&s->body, BODY_MAX);
	s->timer = loop_timer_new(loop, on_timer, s);
	s->encoder = loop_job_new(loop, encode, s);
	loop_timer_set_in(s->timer, t->config.interval_us);
}

void sender_close(struct sender *s)
{
	if (!s->kind)
		return;
	outgoing_call_free(take_ptr(s->call));
	loop_job_free(s->encoder);
	loop_timer_free(s->timer);
	while (!list_empty(&s->queue)) {
		struct list *link = s->queue.next;

		list_remove(link);
		s->kind->free_item(link);
	}
	buf_done(&s->body);
	free(s->url);
}
