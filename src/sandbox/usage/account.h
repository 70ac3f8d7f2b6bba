// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox's account: what it holds of its owners' quotas (tenant/quota.h), from its admission to
 * its end, and its meter (tenant/meter.h), from the moment it runs for somebody until its last
 * counter is in. The state machine calls account_on_move(), and nothing else needs to remember the
 * end.
 */
#include "sandbox/model/sandbox_private.h"

void account_open(struct fleet *fleet); /* before anything is adopted */
void account_close(struct fleet *fleet);
/* Takes what a new one will hold from its owners' quotas, before there is one. As its `held` it is
 * given back when it ends or is freed. key_id may be NULL. */
must_check int account_admit(struct fleet *fleet, const char *project_id, const char *key_id,
                             const struct guest_limits *limits, struct quota_held *ret,
                             struct err *err);
/* The same for limits that it is to get; account_on_limits() follows, whatever came of it. */
must_check int account_admit_limits(struct sandbox *s, const struct guest_limits *limits,
                                    struct err *err);
must_check int account_admit_resume(struct sandbox *s, struct err *err);
void account_adopt(struct sandbox *s);        /* loaded from its row, alive or kept */
void account_settle_old(struct fleet *fleet); /* meters whose sandbox has ended meanwhile */

void account_on_move(struct sandbox *s, enum sandbox_state next);
void account_on_gone(struct sandbox *s, const struct msg_reply *reply); /* of the broker */
void account_on_files_lost(struct sandbox *s); /* of one that does not run */
void account_on_limits(struct sandbox *s);     /* they have changed, or not */
void account_on_reading(struct sandbox *s, const struct guest_usage *now); /* while it runs */
void account_on_exec(struct sandbox *s);
void account_on_call(struct sandbox *s);
void account_free(struct sandbox *s); /* it is about to be freed */
