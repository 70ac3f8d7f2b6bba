// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/err.h"

/* How the agent begins to say that it does not find the program of a start. */
#define AGENT_NO_PROGRAM "argv[0]: no such program"

/* What an errno of the agent means to a client; message is the agent's. */
int guest_error(int errnum, const char *message, struct err *err);
