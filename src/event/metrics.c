// SPDX-License-Identifier: Apache-2.0
#include "event/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

const uint64_t histogram_bounds_us[HISTOGRAM_BOUNDS] = {100,    250,     500,     1000,    2500,
                                                        5000,   10000,   25000,   50000,   100000,
                                                        250000, 1000000, 5000000, 30000000};

#define SECONDS_SIZE 32

void histogram_add(struct histogram *h, uint64_t us)
{
	size_t i = 0;

	while (i < HISTOGRAM_BOUNDS && us > histogram_bounds_us[i])
		i++;
	h->counts[i]++;
	h->sum_us += us;
}

static void put(struct metrics *m, const char *text)
{
	if (m->error == 0)
		m->error = buf_append_str(m->out, text);
}

static void put_escaped(struct metrics *m, const char *text)
{
	for (; *text; text++) {
		char plain[] = {*text, '\0'};

		if (*text == '\\')
			put(m, "\\\\");
		else if (*text == '"')
			put(m, "\\\"");
		else
			put(m, *text == '\n' ? "\\n" : plain);
	}
}

static void text_family(struct metrics *m, const char *name, enum metric_kind kind,
                        const char *help)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram"};

	if (m->error == 0)
		m->error = buf_printf(m->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
		                      kinds[kind]);
}

static void put_sample(struct metrics *m, const char *name, const struct metric_label *labels,
                       size_t n, const char *value)
{
	put(m, name);
	for (size_t i = 0; i < n; i++) {
		put(m, i == 0 ? "{" : ",");
		put(m, labels[i].name);
		put(m, "=\"");
		put_escaped(m, labels[i].value);
		put(m, "\"");
	}
	put(m, n > 0 ? "} " : " ");
	put(m, value);
	put(m, "\n");
}

static void format_seconds(char text[SECONDS_SIZE], uint64_t us, unsigned decimals)
{
	const uint64_t fraction = us % 1000000;

	(void)snprintf(text, SECONDS_SIZE, "%" PRIu64 ".%0*" PRIu64, us / 1000000, (int)decimals,
	               decimals == 3 ? fraction / 1000 : fraction);
}

static void text_sample(struct metrics *m, const char *name, const struct metric_label *labels,
                        size_t n, enum metric_value what, uint64_t value)
{
	char text[SECONDS_SIZE];

	if (what == METRIC_MICROSECONDS)
		format_seconds(text, value, 6);
	else
		(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	put_sample(m, name, labels, n, text);
}

static void text_buckets(struct metrics *m, const char *name, const struct metric_label *labels,
                         size_t n, const struct metric_buckets *b)
{
	struct metric_label all[METRIC_LABELS_MAX + 1];
	char row[128], bound[SECONDS_SIZE];
	uint64_t count = 0;

	assert(n <= METRIC_LABELS_MAX);
	for (size_t i = 0; i < n; i++)
		all[i] = labels[i];
	(void)snprintf(row, sizeof(row), "%s_bucket", name);
	for (size_t i = 0; i <= b->n; i++) {
		count += b->counts[i];
		if (i < b->n)
			format_seconds(bound, b->bounds_us[i], b->decimals);
		all[n] = (struct metric_label){"le", i < b->n ? bound : "+Inf"};
		text_sample(m, row, all, n + 1, METRIC_NUMBER, count);
	}
	(void)snprintf(row, sizeof(row), "%s_sum", name);
	text_sample(m, row, labels, n, METRIC_MICROSECONDS, b->sum_us);
	(void)snprintf(row, sizeof(row), "%s_count", name);
	text_sample(m, row, labels, n, METRIC_NUMBER, count);
}

static const struct metrics_form text_form = {text_family, text_sample, text_buckets};

static const struct metrics_form *form_of(const struct metrics *m)
{
	return m->form ? m->form : &text_form;
}

void metrics_family(struct metrics *m, const char *name, enum metric_kind kind, const char *help)
{
	form_of(m)->family(m, name, kind, help);
}

void metrics_put(struct metrics *m, const char *name, const struct metric_label *labels, size_t n,
                 uint64_t value)
{
	form_of(m)->sample(m, name, labels, n, METRIC_NUMBER, value);
}

void metrics_put_seconds(struct metrics *m, const char *name, const struct metric_label *labels,
                         size_t n, uint64_t us)
{
	form_of(m)->sample(m, name, labels, n, METRIC_MICROSECONDS, us);
}

void metrics_put_buckets(struct metrics *m, const char *name, const struct metric_label *labels,
                         size_t n, const struct metric_buckets *b)
{
	form_of(m)->buckets(m, name, labels, n, b);
}

void metrics_put_histogram(struct metrics *m, const char *name, const struct histogram *h)
{
	metrics_put_buckets(m, name, NULL, 0,
	                    &(struct metric_buckets){.bounds_us = histogram_bounds_us,
	                                             .counts = h->counts,
	                                             .n = HISTOGRAM_BOUNDS,
	                                             .sum_us = h->sum_us,
	                                             .decimals = 6});
}

void metrics_one(struct metrics *m, const char *name, enum metric_kind kind, const char *help,
                 uint64_t value)
{
	metrics_family(m, name, kind, help);
	metrics_put(m, name, NULL, 0, value);
}
