// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The agent is quiet when nothing of the host's is open in it. Then it can be saved, with all that
 * it runs, and restored elsewhere (proto/quiet.h). Programs go on meanwhile; their output waits
 * here as it does whenever no host is connected.
 */
#include "agent/agent.h"

must_check int quiet_new(struct agent *a, struct quiet **ret, struct err *err);
/* From the next turn on. token: QUIET_TOKEN_SIZE bytes, which whoever ends it must know. */
void quiet_begin(struct quiet *q, const unsigned char *token);
