// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox's account: its meter (tenant/meter.h), from the moment it runs for somebody until its
 * last counter is in. The state machine calls account_on_move() and nothing else needs to remember.
 */
#include "sandbox/inside.h"

void account_open(struct fleet *fleet); /* before anything is adopted */
void account_close(struct fleet *fleet);
void account_adopt(struct sandbox *s);        /* loaded from its row, alive */
void account_settle_old(struct fleet *fleet); /* meters whose sandbox has ended meanwhile */

void account_on_move(struct sandbox *s, enum sandbox_state next);
void account_on_gone(struct sandbox *s, const struct msg_reply *reply); /* of the broker */
void account_on_limits(struct sandbox *s);                              /* they have changed */
void account_on_exec(struct sandbox *s);
void account_on_call(struct sandbox *s);
void account_free(struct sandbox *s); /* it is about to be freed */
