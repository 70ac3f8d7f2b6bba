// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a channel's child tells the agent besides its bytes: why it failed, or flags of its exit. A
 * successful execve() closes the fd, and that says that all went well.
 */
#include "base/err.h"

#include <stdint.h>
#include <stdnoreturn.h>

#define REPORT_FD 4

struct report {
	int32_t errnum; /* 0: it went well, only the flags count */
	uint32_t flags; /* EXIT_TRUNCATED */
	char message[256];
};

/* In the child: tells and ends. */
noreturn void report_failure(const struct err *err);
/* In the child, which goes on. */
void report_flags(uint32_t flags);
