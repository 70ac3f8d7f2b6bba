// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What sandboxes tell history (history/history.h): when each ran, and what it uses. */
#include "sandbox/model/sandbox_private.h"

void history_on_move(const struct sandbox *s, enum sandbox_state next);
void history_adopt(const struct sandbox *s); /* loaded from its row */
void history_settle(struct fleet *fleet);    /* ends the runs of those that are not alive */
