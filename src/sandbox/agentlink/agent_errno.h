// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/err.h"

/* How the agent's message begins when it does not find the program of a start. */
#define AGENT_NO_PROGRAM "argv[0]: no such program"

/* Turns an errno of the agent into an error for a client; message is the agent's. */
int guest_error(int errnum, const char *message, struct err *err);
