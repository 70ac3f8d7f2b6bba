// SPDX-License-Identifier: Apache-2.0
/*
 * Batches as OTLP has them in JSON: ids in hexadecimal, 64-bit numbers as strings, enums as
 * numbers. JSON and not protobuf: the writer is there, every collector takes both, and what goes
 * over the wire can be read.
 */
#include "telemetry/telemetry_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH_ITEMS 512
#define BATCH_BYTES ((size_t)1024 * 1024) /* and one item more */

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 }; /* of OTLP */
static const int severities[] = {
	[LOG_DEBUG] = 5, [LOG_INFO] = 9, [LOG_WARN] = 13, [LOG_ERROR] = 17};

static void put_number_text(struct json_writer *w, const char *name, int64_t number)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, number);
	json_put_str(w, name, text);
}

void otlp_put_time(struct json_writer *w, const char *name, uint64_t us)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRIu64 "000", us);
	json_put_str(w, name, text);
}

static void open_attribute(struct json_writer *w, const char *name)
{
	json_open_object(w, NULL);
	json_put_str(w, "key", name);
	json_open_object(w, "value");
}

static void close_attribute(struct json_writer *w)
{
	json_close_object(w);
	json_close_object(w);
}

void otlp_put_attribute(struct json_writer *w, const char *name, const char *text)
{
	open_attribute(w, name);
	json_put_strn(w, "stringValue", text, strlen(text));
	close_attribute(w);
}

static void put_number_attribute(struct json_writer *w, const char *name, int64_t number)
{
	open_attribute(w, name);
	put_number_text(w, "intValue", number);
	close_attribute(w);
}

static void put_resource(const struct telemetry *t, struct json_writer *w)
{
	char instance[24];

	(void)snprintf(instance, sizeof(instance), "%016" PRIx64, t->config.instance);
	json_open_object(w, "resource");
	json_open_array(w, "attributes");
	otlp_put_attribute(w, "service.name", "cloche");
	otlp_put_attribute(w, "service.version", CLOCHE_VERSION);
	otlp_put_attribute(w, "service.instance.id", instance);
	otlp_put_attribute(w, "host.name", t->host_name);
	json_close_array(w);
	json_close_object(w);
}

void otlp_begin(struct sender *s)
{
	struct json_writer *w = &s->writer;

	json_writer_init(w, &s->body);
	json_open_object(w, NULL);
	json_open_array(w, s->kind->resources);
	json_open_object(w, NULL);
	put_resource(s->telemetry, w);
	json_open_array(w, s->kind->scopes);
	json_open_object(w, NULL);
	json_open_object(w, "scope");
	json_put_str(w, "name", "cloche");
	json_close_object(w);
	json_open_array(w, s->kind->items);
}

void otlp_end(struct sender *s)
{
	struct json_writer *w = &s->writer;

	json_close_array(w);
	json_close_object(w);
	json_close_array(w);
	json_close_object(w);
	json_close_array(w);
	json_close_object(w);
}

static void put_ids(struct json_writer *w, const uint8_t *trace_id, const uint8_t *span_id)
{
	char hex[2 * TRACE_ID_LEN + 1];

	trace_hex(trace_id, TRACE_ID_LEN, hex);
	json_put_str(w, "traceId", hex);
	trace_hex(span_id, SPAN_ID_LEN, hex);
	json_put_str(w, "spanId", hex);
}

static void put_parent(struct json_writer *w, const struct span *s)
{
	static const uint8_t none[SPAN_ID_LEN];
	char hex[2 * SPAN_ID_LEN + 1];

	if (memcmp(s->parent_id, none, sizeof(none)) == 0)
		return;
	trace_hex(s->parent_id, SPAN_ID_LEN, hex);
	json_put_str(w, "parentSpanId", hex);
}

static void put_span(struct json_writer *w, const struct span *s)
{
	char name[160];

	json_open_object(w, NULL);
	put_ids(w, s->trace_id, s->id);
	put_parent(w, s);
	(void)snprintf(name, sizeof(name), "%s%s%s", s->method ? s->method : "",
	               s->method ? " " : "", s->name);
	json_put_str(w, "name", name);
	json_put_u64(w, "kind", s->method ? KIND_SERVER : KIND_INTERNAL);
	otlp_put_time(w, "startTimeUnixNano", s->begun_us);
	otlp_put_time(w, "endTimeUnixNano", s->ended_us);
	json_open_array(w, "attributes");
	for (size_t i = 0; i < s->n_attributes; i++) {
		const struct span_attribute *a = &s->attributes[i];

		if (a->text)
			otlp_put_attribute(w, a->name, a->text);
		else
			put_number_attribute(w, a->name, a->number);
	}
	if (s->error)
		otlp_put_attribute(w, "error.type", s->error);
	json_close_array(w);
	json_open_object(w, "status");
	if (s->error)
		json_put_u64(w, "code", STATUS_ERROR);
	json_close_object(w);
	json_close_object(w);
}

/* The fields of a line that are not told elsewhere. */
static void put_fields(struct json_writer *w, const json_t *line)
{
	static const char *const told[] = {"time", "level", "event"};
	const char *name;
	json_t *value;

	json_object_foreach ((json_t *)unconst(line), name, value) {
		bool is_told = false;

		for (size_t i = 0; i < ARRAY_SIZE(told); i++)
			is_told |= strcmp(name, told[i]) == 0;
		if (!is_told && json_is_string(value))
			otlp_put_attribute(w, name, json_string_value(value));
		else if (!is_told && json_is_integer(value))
			put_number_attribute(w, name, json_integer_value(value));
	}
}

static void put_line(struct json_writer *w, const struct log_record *r)
{
	static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
	auto_json json_t *line = NULL;
	const char *event;

	if (json_parse(r->line, r->len, &line, NULL) < 0)
		line = NULL; /* cut in the middle of a field; its level and time are told */
	event = json_string_value(json_object_get(line, "event"));
	json_open_object(w, NULL);
	otlp_put_time(w, "timeUnixNano", r->at_us);
	otlp_put_time(w, "observedTimeUnixNano", r->at_us);
	json_put_u64(w, "severityNumber", (uint64_t)severities[r->level]);
	json_put_str(w, "severityText", names[r->level]);
	json_open_object(w, "body");
	json_put_str(w, "stringValue", event ? event : "");
	json_close_object(w);
	json_open_array(w, "attributes");
	put_fields(w, line);
	json_close_array(w);
	if (r->has_trace)
		put_ids(w, r->trace_id, r->span_id);
	json_close_object(w);
}

static struct list *take_next(struct sender *s)
{
	struct list *link = s->queue.next;

	if (list_empty(&s->queue) || s->n_body == BATCH_ITEMS || s->body.len > BATCH_BYTES)
		return NULL;
	list_remove(link);
	s->n_queue--;
	s->n_queue_bytes -= s->kind->size_of(link);
	s->n_body++;
	return link;
}

static void free_span(struct list *link)
{
	span_free(list_entry(link, struct span, link));
}

static size_t span_size(const struct list *link)
{
	(void)link;
	return sizeof(struct span);
}

static bool put_next_span(struct sender *s)
{
	struct list *link = take_next(s);

	if (!link)
		return false;
	put_span(&s->writer, list_entry(link, struct span, link));
	free_span(link);
	return true;
}

static void free_line(struct list *link)
{
	free(list_entry(link, struct log_record, link));
}

static size_t line_size(const struct list *link)
{
	const struct log_record *r = list_entry(unconst(link), struct log_record, link);

	return sizeof(*r) + r->len;
}

static bool put_next_line(struct sender *s)
{
	struct list *link = take_next(s);

	if (!link)
		return false;
	put_line(&s->writer, list_entry(link, struct log_record, link));
	free_line(link);
	return true;
}

const struct signal_kind signal_kinds[TELEMETRY_SIGNALS] = {
	[TELEMETRY_METRICS] = {.path = "/v1/metrics",
                               .resources = "resourceMetrics",
                               .scopes = "scopeMetrics",
                               .items = "metrics",
                               .rejected = "rejectedDataPoints",
                               .put = otlp_put_metrics,
                               .is_renewed = true},
	[TELEMETRY_TRACES] = {.path = "/v1/traces",
                              .resources = "resourceSpans",
                              .scopes = "scopeSpans",
                              .items = "spans",
                              .rejected = "rejectedSpans",
                              .put = put_next_span,
                              .free_item = free_span,
                              .size_of = span_size},
	[TELEMETRY_LOGS] = {.path = "/v1/logs",
                            .resources = "resourceLogs",
                            .scopes = "scopeLogs",
                            .items = "logRecords",
                            .rejected = "rejectedLogRecords",
                            .put = put_next_line,
                            .free_item = free_line,
                            .size_of = line_size},
};
