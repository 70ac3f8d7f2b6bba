// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What systemd is told of the daemon (sd_notify(3)), without its library: a datagram to the socket
 * that NOTIFY_SOCKET names, a path or an abstract name. Without that socket nothing is sent.
 */
#include <stdint.h>

void notify_send(const char *state); /* such as "READY=1" */
/* "STATUS=…", what `systemctl status` shows. */
__attribute__((format(printf, 1, 2))) void notify_status(const char *format, ...);
/* How often systemd wants to hear WATCHDOG=1 at most, or UINT64_MAX: it does not. */
uint64_t notify_watchdog_us(void);
