// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define STATUS_SIZE 600
#define STARTING_US (120 * SECOND_US) /* from now on; the launcher calls every few seconds */

void notify_send(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	auto_fd int fd = -1;
	size_t len = path ? strlen(path) : 0;

	if (len == 0 || len >= sizeof(un.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(un.sun_path, path, len);
	if (un.sun_path[0] == '@')
		un.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* A reader that reads nothing must not block the launcher. */
	if (fd < 0 ||
	    sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&un,
	           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_warn("daemon.notify_failed", "socket='%s' errno=%d", path, errno);
}

void notify_status(const char *format, ...)
{
	char text[STATUS_SIZE] = "STATUS=";
	const size_t at = strlen(text);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text + at, sizeof(text) - at, format, args);
	va_end(args);
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ' ';
	notify_send(text);
}

void notify_starting(uint64_t seconds)
{
	char text[STATUS_SIZE];

	(void)snprintf(text, sizeof(text),
	               "EXTEND_TIMEOUT_USEC=%" PRIu64 "\nSTATUS=starting, for %" PRIu64 " s",
	               (uint64_t)STARTING_US, seconds);
	notify_send(text);
}

uint64_t notify_watchdog_us(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t us, whose;

	if (!usec || parse_u64(usec, UINT64_MAX, &us) < 0 || us == 0)
		return UINT64_MAX;
	if (pid && (parse_u64(pid, INT32_MAX, &whose) < 0 || (pid_t)whose != getpid()))
		return UINT64_MAX;
	return us / 2;
}
