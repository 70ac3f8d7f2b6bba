// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An entry as a message of syslog: RFC 5424, framed by octet counting (RFC 6587, RFC 5425), so that
 * no byte of it can end it. Facility "log audit", severity "informational". The text is the entry's
 * line with its hash, so that what a receiver keeps can be checked.
 */
#include "event/event.h"
#include "net/match/host.h"

/* -E2BIG if it does not fit. */
must_check int syslog_line_put(struct buf *out, const char *host_name,
                               const struct event_line *line);

/* Where a receiver is: tcp://HOST[:PORT] or tls://HOST[:PORT], also with "syslog+" before it. */
struct syslog_place {
	char host[HOST_SIZE]; /* a name, or an address without brackets */
	uint16_t port;
	bool is_tls;
	char url[HOST_SIZE + 16]; /* as tcp://HOST:PORT */
};
must_check int syslog_place_parse(const char *text, const char *field, struct syslog_place *ret,
                                  struct err *err);
