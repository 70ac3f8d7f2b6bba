// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Counts and times, in the text form that Prometheus reads or in a form of somebody else's
 * (telemetry/otlp_metrics.h). Counting is a plain increment in the counter's own struct, since
 * there is one thread. Names, help and label values are our own words, never text from a sandbox or
 * client; values are escaped all the same.
 */
#include "base/buf.h"

#include <stdbool.h>

#define HISTOGRAM_BOUNDS 14

struct histogram {
	uint64_t counts[HISTOGRAM_BOUNDS +
	                1]; /* by the least bound that holds it; the last: none does */
	uint64_t sum_us;
};
void histogram_add(struct histogram *h, uint64_t us);
extern const uint64_t histogram_bounds_us[HISTOGRAM_BOUNDS];

struct metric_label {
	const char *name, *value;
};

struct metric_buckets {
	const uint64_t *bounds_us; /* n of them */
	const uint64_t *counts;    /* one more: by the least bound that holds it; the last: none */
	size_t n;
	uint64_t sum_us;
	unsigned decimals; /* of the bounds, in seconds, as text: 3 or 6 */
};

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum metric_value { METRIC_NUMBER, METRIC_MICROSECONDS }; /* the latter are told as seconds */

struct metrics_form;
struct metrics { /* one page in the making; errors stick */
	struct buf *out;
	int error;
	const struct metrics_form *form; /* NULL: text */
	void *form_arg;
};
struct metrics_form {
	void (*family)(struct metrics *m, const char *name, enum metric_kind kind,
	               const char *help);
	void (*sample)(struct metrics *m, const char *name, const struct metric_label *labels,
	               size_t n, enum metric_value what, uint64_t value);
	void (*buckets)(struct metrics *m, const char *name, const struct metric_label *labels,
	                size_t n, const struct metric_buckets *b);
};
/* Opens a family; all its samples follow. */
void metrics_family(struct metrics *m, const char *name, enum metric_kind kind, const char *help);
void metrics_put(struct metrics *m, const char *name, const struct metric_label *labels, size_t n,
                 uint64_t value);
void metrics_put_seconds(struct metrics *m, const char *name, const struct metric_label *labels,
                         size_t n, uint64_t us);
/* n: at most METRIC_LABELS_MAX. */
#define METRIC_LABELS_MAX 4
void metrics_put_buckets(struct metrics *m, const char *name, const struct metric_label *labels,
                         size_t n, const struct metric_buckets *b);
void metrics_put_histogram(struct metrics *m, const char *name, const struct histogram *h);
/* A family of one sample without labels. */
void metrics_one(struct metrics *m, const char *name, enum metric_kind kind, const char *help,
                 uint64_t value);
