// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Notifies systemd (sd_notify(3)) without its library: a datagram to the socket that NOTIFY_SOCKET
 * names, a path or an abstract name. Without that socket nothing is sent.
 */
#include <stdint.h>

void notify_send(const char *state); /* such as "READY=1" */
/* "STATUS=…", what `systemctl status` shows. */
__attribute__((format(printf, 1, 2))) void notify_status(const char *format, ...);
/* A start that goes on, and shall not be ended for taking long (EXTEND_TIMEOUT_USEC). */
void notify_starting(uint64_t seconds);
/* The longest time between two WATCHDOG=1 that systemd allows, or UINT64_MAX for none. */
uint64_t notify_watchdog_us(void);
