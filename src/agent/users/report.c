// SPDX-License-Identifier: Apache-2.0
#include "agent/users/report.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

void report_failure(const struct err *err)
{
	struct report report = {.errnum = err->errnum > 0 ? err->errnum : EINVAL};

	(void)snprintf(report.message, sizeof(report.message), "%.*s",
	               (int)sizeof(report.message) - 1, err->message);
	(void)!fd_write_all(REPORT_FD, &report, sizeof(report));
	_exit(127);
}

void report_flags(uint32_t flags)
{
	struct report report = {.flags = flags};

	(void)!fd_write_all(REPORT_FD, &report, sizeof(report));
}
