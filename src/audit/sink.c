// SPDX-License-Identifier: Apache-2.0
#include "audit/sink.h"

#include "base/log.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>

#define FIRST_US SECOND_US
#define MOST_US  (60 * SECOND_US)

uint64_t sink_failed(struct sink_status *s, const char *why)
{
	uint64_t pause_us = FIRST_US << MIN(s->failures, 10U);

	if (s->failures % 10 == 0)
		log_warn("audit.not_sent", "sink=%s failures=%u why='%s'", s->name, s->failures + 1,
		         why);
	s->failures++;
	s->failed++;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
	return MIN(pause_us, MOST_US);
}

void sink_worked(struct sink_status *s)
{
	if (s->failures > 0)
		log_info("audit.sent_again", "sink=%s failures=%u", s->name, s->failures);
	s->failures = 0;
	s->why[0] = '\0';
}

void sink_tell_loss(const struct sink_status *s, struct event_log *events,
                    const struct sink_loss *loss)
{
	struct json_writer *w;
	struct event e;

	log_error("audit.lost", "sink=%s project='%s' after=%" PRIu64 " upto=%" PRIu64, s->name,
	          loss->project_id ? loss->project_id : "", loss->after, loss->upto);
	w = event_begin(&e, events, EVENT_NOT_SENT, NULL, NULL);
	json_put_str(w, "sink", s->name);
	if (loss->project_id) {
		json_put_str(w, "project_id", loss->project_id[0] ? loss->project_id : NULL);
		json_put_bool(w, "audit", loss->is_audit);
	}
	json_put_u64(w, "after", loss->after);
	json_put_u64(w, "upto", loss->upto);
	event_end(&e);
}
