// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox's account: what it holds of its owners' quotas (tenant/quota.h), from admission to its
 * end, and its meter (tenant/meter.h), from the moment it runs for an owner until its last counter
 * was read. The state machine calls account_on_move(), so no other code has to remember the end.
 */
#include "sandbox/model/sandbox_private.h"

struct samples;

struct account {
	struct meter *meter;           /* while it has an owner and runs */
	int calls_counter;             /* how many it has had */
	struct guest_usage base_usage; /* of the time before it had an owner */
	struct guest_usage last_usage; /* once it is gone */
	bool has_last_usage;
	struct quota_held held;                 /* of its project's and key's quotas */
	unsigned n_limits_due;                  /* changes of limits under way */
	uint64_t reading;                       /* the request for it */
	uint64_t read_next_us, charge_until_us; /* steady; 0 = not known */
	struct guest_usage seen;                /* by the last reading */
	uint64_t seen_us;                       /* wall clock; 0 = none of this run */
	struct samples *samples;                /* readings before it, or NULL */
};

void account_open(struct fleet *fleet); /* before anything is adopted */
void account_close(struct fleet *fleet);
/* Takes what a new sandbox will hold from its owners' quotas, before it exists. It becomes the
 * sandbox's `held`, which is given back when it ends or is freed. key_id may be NULL. */
must_check int account_admit(struct fleet *fleet, const char *project_id, const char *key_id,
                             const struct guest_limits *limits, struct quota_held *ret,
                             struct err *err);
/* Fails if it can never be admitted, whatever else ends. */
must_check int account_check_possible(struct fleet *fleet, const char *project_id,
                                      const char *key_id, const struct guest_limits *limits,
                                      struct err *err);
/* Whether it would be admitted beside what *ahead says; if so, adds it to that. */
bool account_has_room(struct fleet *fleet, const char *project_id, const char *key_id,
                      const struct guest_limits *limits, struct quota_held *ahead);
/* As account_admit(), for new limits; account_on_limits() must follow, also after a failure. */
must_check int account_admit_limits(struct sandbox *s, const struct guest_limits *limits,
                                    struct err *err);
must_check int account_admit_resume(struct sandbox *s, struct err *err);
void account_init(struct sandbox *s);
void account_adopt(struct sandbox *s);        /* loaded from its row, alive or kept */
void account_settle_old(struct fleet *fleet); /* closes meters whose sandbox has ended */

void account_on_move(struct sandbox *s, enum sandbox_state next);
void account_on_gone(struct sandbox *s, const struct msg_reply *reply); /* of the broker */
void account_on_files_lost(struct sandbox *s); /* for a sandbox that does not run */
void account_on_limits(struct sandbox *s);     /* they have changed, or not */
void account_on_reading(struct sandbox *s, const struct guest_usage *now); /* while it runs */
void account_on_exec(struct sandbox *s);
void account_on_call(struct sandbox *s);
void account_free(struct sandbox *s); /* it is about to be freed */
