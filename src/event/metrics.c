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

void metrics_family(struct metrics *m, const char *name, enum metric_kind kind, const char *help)
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

void metrics_put(struct metrics *m, const char *name, const struct metric_label *labels, size_t n,
                 uint64_t value)
{
	char text[SECONDS_SIZE];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	put_sample(m, name, labels, n, text);
}

static void format_seconds(char text[SECONDS_SIZE], uint64_t us)
{
	(void)snprintf(text, SECONDS_SIZE, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

void metrics_put_seconds(struct metrics *m, const char *name, const struct metric_label *labels,
                         size_t n, uint64_t us)
{
	char text[SECONDS_SIZE];

	format_seconds(text, us);
	put_sample(m, name, labels, n, text);
}

void metrics_put_histogram(struct metrics *m, const char *name, const struct histogram *h)
{
	char row[128], bound[SECONDS_SIZE];
	struct metric_label le = {.name = "le", .value = bound};
	uint64_t count = 0;

	(void)snprintf(row, sizeof(row), "%s_bucket", name);
	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		count += h->counts[i];
		if (i < HISTOGRAM_BOUNDS)
			format_seconds(bound, histogram_bounds_us[i]);
		else
			le.value = "+Inf";
		metrics_put(m, row, &le, 1, count);
	}
	(void)snprintf(row, sizeof(row), "%s_sum", name);
	metrics_put_seconds(m, row, NULL, 0, h->sum_us);
	(void)snprintf(row, sizeof(row), "%s_count", name);
	metrics_put(m, row, NULL, 0, count);
}

void metrics_one(struct metrics *m, const char *name, enum metric_kind kind, const char *help,
                 uint64_t value)
{
	metrics_family(m, name, kind, help);
	metrics_put(m, name, NULL, 0, value);
}
