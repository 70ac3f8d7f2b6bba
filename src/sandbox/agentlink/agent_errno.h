// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/err.h"

/* What an errno of the agent means to a client; message is the agent's. */
int guest_error(int errnum, const char *message, struct err *err);
