// SPDX-License-Identifier: Apache-2.0
/*
 * Which requests are traced is decided once, at their beginning. A client that says whether its
 * trace is recorded is heeded, as its other spans would have a hole otherwise; of the others a
 * share is chosen by chance. In either case a project has a rate that it cannot pass, so a tenant
 * that marks every request as sampled costs no more than that.
 */
#include "telemetry/span.h"

#include "base/clock.h"
#include "base/id.h"
#include "telemetry/telemetry_private.h"

#include <stdio.h>
#include <string.h>

#define PART_LEAST_US 10

static bool is_chosen(const struct telemetry *t)
{
	uint32_t random;

	if (t->config.traces_percent == 0 || t->config.traces_percent >= 100)
		return t->config.traces_percent > 0;
	random_bytes(&random, sizeof(random));
	return random % 100 < t->config.traces_percent;
}

static bool is_recorded(struct telemetry *t, const struct trace *trace, const char *project_id)
{
	if (!t->config.sends[TELEMETRY_TRACES])
		return false;
	if (trace->has_client ? !trace->client.is_sampled : !is_chosen(t))
		return false;
	return rate_take(&t->rate, project_id, project_id, 1, loop_now_us(t->config.outgoing.loop));
}

static struct span *span_new(struct telemetry *t, const char *name, uint64_t begun_us)
{
	struct span *s = xnew0(struct span);

	s->telemetry = t;
	s->name = name;
	s->begun_us = s->part_us = begun_us;
	list_init(&s->link);
	random_bytes(s->id, sizeof(s->id));
	return s;
}

void span_free(struct span *s)
{
	for (size_t i = 0; i < s->n_attributes; i++)
		free(s->attributes[i].text);
	free(s);
}

static struct span *span_of_request(struct telemetry *t, const struct trace *trace,
                                    const struct trace_wish *wish)
{
	struct span *s = span_new(t, wish->route, clock_wall_us());

	s->method = wish->method;
	span_put_text(s, "http.request.method", wish->method);
	span_put_text(s, "http.route", wish->route);
	span_put_text(s, "cloche.project.id", wish->project_id);
	if (trace->has_client) {
		memcpy(s->trace_id, trace->client.trace_id, sizeof(s->trace_id));
		memcpy(s->parent_id, trace->client.span_id, sizeof(s->parent_id));
	} else {
		random_bytes(s->trace_id, sizeof(s->trace_id));
	}
	return s;
}

struct trace *trace_begin(struct telemetry *t, const struct trace_wish *wish)
{
	struct trace trace = {0}, *ret;
	bool records;

	if (!t)
		return NULL;
	trace.has_client =
		wish->traceparent && trace_context_parse(wish->traceparent, &trace.client) == 0;
	if (trace.has_client && wish->tracestate && trace_state_is_valid(wish->tracestate))
		(void)snprintf(trace.client.state, sizeof(trace.client.state), "%s",
		               wish->tracestate);
	records = is_recorded(t, &trace, wish->project_id);
	if (!trace.has_client && !records)
		return NULL;
	if (records)
		trace.span = span_of_request(t, &trace, wish);
	ret = xnew0(struct trace);
	*ret = trace;
	return ret;
}

void trace_end(struct trace *trace, uint64_t us, const char *error)
{
	if (!trace)
		return;
	if (trace->span) /* its head came before anybody asked for a span */
		trace->span->begun_us = clock_wall_us() - us;
	span_end(trace->span, error);
	free(trace);
}

void trace_drop(struct trace *trace)
{
	if (!trace)
		return;
	span_drop(trace->span);
	free(trace);
}

void trace_enter(struct telemetry *t, const struct trace *trace)
{
	if (t)
		t->current = trace;
}

static struct span *child_of(const struct span *parent, const char *name, uint64_t begun_us)
{
	struct span *s = span_new(parent->telemetry, name, begun_us);

	memcpy(s->trace_id, parent->trace_id, sizeof(s->trace_id));
	memcpy(s->parent_id, parent->id, sizeof(s->parent_id));
	return s;
}

struct span *span_begin(struct telemetry *t, const char *name)
{
	if (!t || !t->current || !t->current->span)
		return NULL;
	return child_of(t->current->span, name, clock_wall_us());
}

static struct span_attribute *add(struct span *s, const char *name)
{
	struct span_attribute *a;

	if (!s || s->n_attributes == SPAN_ATTRIBUTES_MAX)
		return NULL;
	a = &s->attributes[s->n_attributes++];
	*a = (struct span_attribute){.name = name};
	return a;
}

void span_put_text(struct span *s, const char *name, const char *text)
{
	struct span_attribute *a = add(s, name);

	if (a)
		a->text = xstrdup(text ? text : "");
}

void span_put_number(struct span *s, const char *name, int64_t number)
{
	struct span_attribute *a = add(s, name);

	if (a)
		a->number = number;
}

static void queue(struct span *s, uint64_t ended_us)
{
	s->ended_us = MAX(ended_us, s->begun_us); /* the clock may have been set */
	sender_add(&s->telemetry->senders[TELEMETRY_TRACES], &s->link);
}

void span_part(struct span *s, const char *name)
{
	uint64_t now_us;

	if (!s)
		return;
	now_us = clock_wall_us();
	if (now_us >= s->part_us + PART_LEAST_US)
		queue(child_of(s, name, s->part_us), now_us);
	s->part_us = now_us;
}

void span_end(struct span *s, const char *error)
{
	if (!s)
		return;
	s->error = error;
	queue(s, clock_wall_us());
}

void span_drop(struct span *s)
{
	if (s)
		span_free(s);
}

bool trace_env_get(const struct telemetry *t, const struct span *s, struct trace_env *ret)
{
	const struct trace_context *client;

	if (!t || !t->current || !t->current->has_client)
		return false;
	client = &t->current->client;
	if (s)
		trace_context_format(s->trace_id, s->id, true, ret->parent);
	else
		trace_context_format(client->trace_id, client->span_id, client->is_sampled,
		                     ret->parent);
	(void)snprintf(ret->state, sizeof(ret->state), "%s", client->state);
	return true;
}
