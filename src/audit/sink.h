// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What both kinds of sinks know of how they fare. A sink fails from its first failed attempt until
 * one works; entries wait in the event log meanwhile. */
#include "event/event.h"

#define SINK_WHY_SIZE 320

struct sink_status {
	const char *name;        /* "s3", "syslog" */
	uint64_t sent, failed;   /* entries; attempts */
	uint64_t lost;           /* entries that were removed before they were sent */
	uint64_t waiting;        /* entries, give or take */
	unsigned failures;       /* one after the other */
	char why[SINK_WHY_SIZE]; /* of the last one */
};

/* Counts a failure; the first of several and each tenth is a line in the log. Returns how long to
 * wait, twice as long each time. */
uint64_t sink_failed(struct sink_status *s, const char *why);
void sink_worked(struct sink_status *s);

/* Entries of a project behind `after` and up to `upto` are gone, and were not sent. */
struct sink_loss {
	const char *project_id; /* "" = none; NULL: of all, and the numbers are places */
	bool is_audit;
	uint64_t after, upto;
};
void sink_tell_loss(const struct sink_status *s, struct event_log *events,
                    const struct sink_loss *loss);
