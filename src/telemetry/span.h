// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Spans: what one call did, and how long each of its parts took. A request that is traced has one,
 * and what is done for it has spans below that. Whoever works for a request asks for a span by
 * span_begin() and gets NULL where nothing is traced; every call here takes NULL and then does
 * nothing, so that untraced work pays for one comparison.
 *
 * A span has names, ids and figures. It never has code, output, an environment or an error's
 * sentence, which may quote any of those.
 */
#include "telemetry/trace_context.h"

struct telemetry;
struct span;

/* What a request is traced as: its client's context, a span of its own, or both. */
struct trace {
	bool has_client;
	struct trace_context client;
	struct span *span; /* NULL: not recorded */
};

struct trace_wish {
	const char *traceparent; /* NULL: none, or more than one */
	const char *tracestate;  /* NULL: none */
	const char *project_id;
	const char *method, *route; /* of the request; they live for ever */
};

/* NULL: there is nothing to pass on and nothing to record. The caller owns it. */
struct trace *trace_begin(struct telemetry *t, const struct trace_wish *wish);
/* us: how long the request took. error: a short word of our own, which lives for ever; or NULL. */
void trace_end(struct trace *trace, uint64_t us, const char *error);
void trace_drop(struct trace *trace); /* nothing of it is sent; NULL is fine */
/* What is begun until the next such call belongs to this trace; NULL: to none. t may be NULL. */
void trace_enter(struct telemetry *t, const struct trace *trace);

/* Of the trace that was entered; t may be NULL. The name lives for ever. */
struct span *span_begin(struct telemetry *t, const char *name);
void span_put_text(struct span *s, const char *name, const char *text); /* text is copied */
void span_put_number(struct span *s, const char *name, int64_t number);
/* A part has ended that began with the span or with the end of the part before. What took no time
 * to speak of is left out. */
void span_part(struct span *s, const char *name);
void span_end(struct span *s, const char *error); /* as trace_end(); s is gone */
void span_drop(struct span *s);

/* What a process that works for the span is told; TRACEPARENT in its environment. */
struct trace_env {
	char parent[TRACEPARENT_SIZE];
	char state[TRACESTATE_SIZE]; /* "": none */
};
/* False: the client has sent none, or what it sent was to be ignored. s: NULL if none is recorded;
 * then the client's own span is the parent. */
bool trace_env_get(const struct telemetry *t, const struct span *s, struct trace_env *ret);
