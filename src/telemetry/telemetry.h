// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the daemon tells a collector by OTLP: metrics, traces and log lines, as JSON over HTTP. It
 * is told in batches. Spans and lines wait in queues with a bound; when one is full, the oldest go
 * and are counted. Nothing waits for the collector: if it is away, batches are tried again ever
 * more slowly, and the daemon's work goes on.
 *
 * Without a URL there is one all the same, which only passes clients' trace contexts on.
 */
#include "base/log.h"
#include "event/metrics.h"
#include "outgoing/outgoing_call.h"
#include "telemetry/span.h"

enum telemetry_signal { TELEMETRY_METRICS, TELEMETRY_TRACES, TELEMETRY_LOGS, TELEMETRY_SIGNALS };
extern const char *const telemetry_signal_names[TELEMETRY_SIGNALS];

#define TELEMETRY_HEADERS_MAX 16

struct telemetry_headers { /* of every request to the collector; may hold its keys */
	struct http_field of[TELEMETRY_HEADERS_MAX];
	size_t n;
	char *text;
};
/* A line each: "Name: value". setting names the file in errors. */
must_check int telemetry_headers_read(struct telemetry_headers *h, const char *setting,
                                      const char *path, struct err *err);
void telemetry_headers_done(struct telemetry_headers *h); /* wipes them */

struct telemetry_config {
	const char *url; /* NULL: nothing is sent */
	const struct telemetry_headers *headers;
	bool sends[TELEMETRY_SIGNALS];
	uint64_t interval_us;
	uint32_t traces_percent; /* of requests whose client does not say */
	uint32_t traces_rate;    /* at most, a second and project */
	const char *host_name;
	uint64_t instance;
	struct outgoing outgoing;
	/* Writes a group of metrics, from 0 on, and is called from the loop for each; false: that
	 * was the last one. */
	bool (*put_metrics)(size_t group, struct metrics *m, void *arg);
	void *arg;
};

struct telemetry *telemetry_new(const struct telemetry_config *config); /* copies what it needs */
void telemetry_free(struct telemetry *t);                               /* NULL is fine */
/* Sends what waits. done is called from the loop: when it is sent, or a second later. */
void telemetry_flush(struct telemetry *t, loop_fn done, void *arg);

struct telemetry_counts {
	uint64_t sent[TELEMETRY_SIGNALS];    /* data points, spans, lines */
	uint64_t dropped[TELEMETRY_SIGNALS]; /* likewise */
	uint64_t failed[TELEMETRY_SIGNALS];  /* requests */
	uint64_t queued[TELEMETRY_SIGNALS];
	uint64_t over_rate; /* requests that were not traced because of their project's rate */
};
void telemetry_count(const struct telemetry *t, struct telemetry_counts *ret);
/* For how long what was sent has not been accepted, and why; 0: it is, or nothing is sent. */
uint64_t telemetry_failing_us(const struct telemetry *t, char *why, size_t size);
