// SPDX-License-Identifier: Apache-2.0
/*
 * The metrics of /metrics, under the same names, as OTLP's: counters become sums since the start of
 * the gateway, and their labels attributes. A family is closed when the next one opens.
 */
#include "telemetry/telemetry_private.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CUMULATIVE  2 /* of OTLP's aggregation temporalities */
#define NUMBER_SIZE 32

struct page {
	struct sender *sender;
	bool is_open; /* a family */
};

static bool ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* As UCUM writes it. */
static const char *unit_of(const char *name)
{
	if (ends_in(name, "_seconds") || ends_in(name, "_seconds_total"))
		return "s";
	return ends_in(name, "_bytes") || ends_in(name, "_bytes_total") ? "By" : "1";
}

static void close_family(struct page *page)
{
	struct json_writer *w = &page->sender->writer;

	if (!page->is_open)
		return;
	page->is_open = false;
	json_close_array(w);
	json_close_object(w);
	json_close_object(w);
}

static void family(struct metrics *m, const char *name, enum metric_kind kind, const char *help)
{
	static const char *const kinds[] = {"sum", "gauge", "histogram"};
	struct page *page = m->form_arg;
	struct json_writer *w = &page->sender->writer;

	close_family(page);
	json_open_object(w, NULL);
	json_put_str(w, "name", name);
	json_put_str(w, "description", help);
	json_put_str(w, "unit", unit_of(name));
	json_open_object(w, kinds[kind]);
	if (kind != METRIC_GAUGE)
		json_put_u64(w, "aggregationTemporality", CUMULATIVE);
	if (kind == METRIC_COUNTER)
		json_put_bool(w, "isMonotonic", true);
	json_open_array(w, "dataPoints");
	page->is_open = true;
}

static void open_point(struct page *page, const struct metric_label *labels, size_t n)
{
	struct json_writer *w = &page->sender->writer;

	json_open_object(w, NULL);
	json_open_array(w, "attributes");
	for (size_t i = 0; i < n; i++)
		otlp_put_attribute(w, labels[i].name, labels[i].value);
	json_close_array(w);
	otlp_put_time(w, "startTimeUnixNano", page->sender->telemetry->started_us);
	otlp_put_time(w, "timeUnixNano", clock_wall_us());
	page->sender->n_body++;
}

static void put_seconds(struct json_writer *w, const char *name, uint64_t us)
{
	char text[NUMBER_SIZE];
	int n = snprintf(text, sizeof(text), "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);

	json_put_raw(w, name, text, (size_t)n);
}

static void put_count(struct json_writer *w, const char *name, uint64_t count)
{
	char text[NUMBER_SIZE];

	(void)snprintf(text, sizeof(text), "%" PRIu64, MIN(count, (uint64_t)INT64_MAX));
	json_put_str(w, name, text);
}

static void sample(struct metrics *m, const char *name, const struct metric_label *labels, size_t n,
                   enum metric_value what, uint64_t value)
{
	struct page *page = m->form_arg;
	struct json_writer *w = &page->sender->writer;

	(void)name; /* its family's */
	open_point(page, labels, n);
	if (what == METRIC_MICROSECONDS)
		put_seconds(w, "asDouble", value);
	else
		put_count(w, "asInt", value);
	json_close_object(w);
}

static void buckets(struct metrics *m, const char *name, const struct metric_label *labels,
                    size_t n, const struct metric_buckets *b)
{
	struct page *page = m->form_arg;
	struct json_writer *w = &page->sender->writer;
	uint64_t count = 0;

	(void)name;
	open_point(page, labels, n);
	json_open_array(w, "bucketCounts");
	for (size_t i = 0; i <= b->n; i++) {
		put_count(w, NULL, b->counts[i]);
		count += b->counts[i];
	}
	json_close_array(w);
	json_open_array(w, "explicitBounds");
	for (size_t i = 0; i < b->n; i++)
		put_seconds(w, NULL, b->bounds_us[i]);
	json_close_array(w);
	put_count(w, "count", count);
	put_seconds(w, "sum", b->sum_us);
	json_close_object(w);
}

static const struct metrics_form form = {family, sample, buckets};

bool otlp_put_metrics(struct sender *s)
{
	const struct telemetry_config *config = &s->telemetry->config;
	struct page page = {.sender = s};
	struct metrics m = {.form = &form, .form_arg = &page};
	bool has_more = config->put_metrics(s->group++, &m, config->arg);

	close_family(&page);
	return has_more;
}
