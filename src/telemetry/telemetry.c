// SPDX-License-Identifier: Apache-2.0
#include "telemetry/telemetry_private.h"

#include "base/clock.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define RATE_LOOK_US SECOND_US
#define FLUSH_US     SECOND_US /* that the daemon's end waits for the collector */

const char *const telemetry_signal_names[TELEMETRY_SIGNALS] = {
	[TELEMETRY_METRICS] = "metrics",
	[TELEMETRY_TRACES] = "traces",
	[TELEMETRY_LOGS] = "logs",
};

/* Called for each line of this thread. It must not log. */
static void on_log_line(enum log_level level, uint64_t at_us, const char *line, size_t len,
                        void *arg)
{
	struct telemetry *t = arg;
	struct log_record *r = xcalloc(1, sizeof(*r) + len + 1);
	const struct span *span = t->current ? t->current->span : NULL;

	list_init(&r->link);
	r->at_us = at_us;
	r->level = level;
	r->len = len;
	memcpy(r->line, line, len);
	if (span) {
		r->has_trace = true;
		memcpy(r->trace_id, span->trace_id, sizeof(r->trace_id));
		memcpy(r->span_id, span->id, sizeof(r->span_id));
	}
	sender_add(&t->senders[TELEMETRY_LOGS], &r->link);
}

static void on_over_rate(const struct rate_bucket *b, void *arg)
{
	struct telemetry *t = arg;

	t->n_over_rate += b->suppressed;
}

static void on_rate_look(struct loop *loop, void *arg)
{
	struct telemetry *t = arg;

	rate_sweep(&t->rate, loop_now_us(loop), on_over_rate, t);
	loop_timer_set_in(t->rate_look, RATE_LOOK_US);
}

static void open_senders(struct telemetry *t)
{
	struct loop *loop = t->config.outgoing.loop;

	for (unsigned i = 0; i < TELEMETRY_SIGNALS; i++)
		if (t->config.sends[i])
			sender_open(&t->senders[i], t, (enum telemetry_signal)i);
	if (t->config.sends[TELEMETRY_LOGS])
		log_set_sink(on_log_line, t);
	if (!t->config.sends[TELEMETRY_TRACES])
		return;
	t->rate_look = loop_timer_new(loop, on_rate_look, t);
	loop_timer_set_in(t->rate_look, RATE_LOOK_US);
}

struct telemetry *telemetry_new(const struct telemetry_config *config)
{
	struct telemetry *t = xnew0(struct telemetry);

	t->config = *config;
	t->host_name = xstrdup(config->host_name ? config->host_name : "");
	t->rate.per_second = config->traces_rate;
	t->started_us = clock_wall_us();
	if (!config->url)
		memset(t->config.sends, 0, sizeof(t->config.sends));
	else
		open_senders(t);
	return t;
}

void telemetry_free(struct telemetry *t)
{
	if (!t)
		return;
	if (t->config.sends[TELEMETRY_LOGS])
		log_set_sink(NULL, NULL);
	for (unsigned i = 0; i < TELEMETRY_SIGNALS; i++)
		sender_close(&t->senders[i]);
	loop_timer_free(t->rate_look);
	loop_timer_free(t->flush_end);
	rate_done(&t->rate);
	free(t->host_name);
	free(t);
}

static void end_flush(struct loop *loop, void *arg)
{
	struct telemetry *t = arg;
	loop_fn done = take_ptr(t->flushed);

	loop_timer_set(t->flush_end, UINT64_MAX);
	if (done)
		done(loop, t->flushed_arg);
}

void telemetry_on_idle(struct telemetry *t)
{
	if (!t->flushed)
		return;
	for (unsigned i = 0; i < TELEMETRY_SIGNALS; i++)
		if (sender_is_busy(&t->senders[i])) {
			sender_send_now(&t->senders[i]);
			return;
		}
	loop_timer_set_in(t->flush_end, 0);
}

void telemetry_flush(struct telemetry *t, loop_fn done, void *arg)
{
	t->flushed = done;
	t->flushed_arg = arg;
	t->flush_end = loop_timer_new(t->config.outgoing.loop, end_flush, t);
	loop_timer_set_in(t->flush_end, FLUSH_US);
	for (unsigned i = 0; i < TELEMETRY_SIGNALS; i++)
		if (t->config.sends[i])
			sender_send_now(&t->senders[i]);
	telemetry_on_idle(t);
}

void telemetry_count(const struct telemetry *t, struct telemetry_counts *ret)
{
	*ret = (struct telemetry_counts){.over_rate = t ? t->n_over_rate : 0};
	for (unsigned i = 0; t && i < TELEMETRY_SIGNALS; i++) {
		ret->sent[i] = t->senders[i].n_sent;
		ret->dropped[i] = t->senders[i].n_dropped;
		ret->failed[i] = t->senders[i].n_failed;
		ret->queued[i] = t->senders[i].n_queue;
	}
}

uint64_t telemetry_failing_us(const struct telemetry *t, char *why, size_t size)
{
	uint64_t longest_us = 0, now_us;

	if (!t || !t->config.url)
		return 0;
	now_us = loop_now_us(t->config.outgoing.loop);
	for (unsigned i = 0; i < TELEMETRY_SIGNALS; i++) {
		const struct sender *s = &t->senders[i];
		uint64_t us = s->failing_since_us ? MAX(now_us - s->failing_since_us, 1U) : 0;

		if (us <= longest_us)
			continue;
		longest_us = us;
		(void)snprintf(why, size, "%s: %s", s->url, s->why);
	}
	return longest_us;
}
