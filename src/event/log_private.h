// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The members of an event log: log.c writes it, log_read.c reads it. */
#include "event/chains.h"
#include "event/event.h"
#include "event/rate.h"

#define WRITE_BATCH 256 /* entries a transaction */

/* One batch of entries on their way to the disk. */
struct batch {
	struct event_row rows[WRITE_BATCH];
	size_t n;
	struct chain *moved[WRITE_BATCH];
	const struct event_chain_row *chains[WRITE_BATCH]; /* what is to be written of those */
	size_t n_moved;
};

struct event_log {
	struct loop *loop;
	struct store_events *rows;
	struct event_limits limits;
	struct chains chains;
	struct list waiting, watches;
	struct list later; /* of the audit log: they join those that wait in a while */
	size_t n_waiting, n_later;
	bool is_told;
	char helpers_project_id[ID_SIZE];
	bool is_write_due;
	struct loop_timer *retry, *sweep, *retain, *join;
	struct rate rate;
	char key_id[ID_SIZE], request_id[EVENT_REQUEST_ID_SIZE]; /* the origin */
	char client[EVENT_CLIENT_SIZE], agent[EVENT_AGENT_SIZE];
	char person[EVENT_PERSON_SIZE];
	uint64_t suppressed, lost, lost_untold;
	struct batch batch; /* in the making; large, so it is not on the stack */
};
