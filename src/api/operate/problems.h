// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What is wrong with the daemon or its host right now, for /v1/health, /v1/ready, /metrics, the
 * event log and `cloche doctor`. Each problem is a row of one table in problems.c: its code, what
 * finds it, the first thing to do about it, and whether new work can be taken meanwhile.
 *
 * Every LOOK_US all rows are looked at, and broker, wall and dialer are asked for a sign of life.
 * A problem begins and ends with a line in the log and an entry in the event log.
 */
#include "audit/sinks.h"
#include "event/event.h"
#include "event/metrics.h"
#include "hook/hook.h"
#include "oidc/provider.h"
#include "sandbox/fleet/fleet.h"
#include "telemetry/telemetry.h"

struct problems;

struct problems_config {
	struct loop *loop;
	struct fleet *fleet;
	struct store *store;
	struct event_log *events;
	struct dialer *dialer;
	struct secrets *secrets;
	struct hooks *hooks;
	struct telemetry *telemetry;
	struct provider *provider;          /* of logins; NULL: there is none */
	const struct cluster_word *cluster; /* what the member has said last; zero: it is alone */
	const struct audit_sinks *audit;
};

struct problems *problems_new(const struct problems_config *config);
void problems_free(struct problems *p); /* NULL is fine */
void problems_ask(struct problems *p);  /* somebody wants to know: the next look is a closer one */
size_t problems_count(const struct problems *p);
bool problems_block(const struct problems *p); /* one of them: no new work can be taken */
void problems_to_json(const struct problems *p, struct json_writer *w, const char *name);
/* The first that blocks, as an error of its own: 0 where there is none. */
int problems_refuse(const struct problems *p, struct err *err);
void problems_to_metrics(const struct problems *p, struct metrics *m); /* a gauge for each code */
