// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Sends every entry of the event log and the audit log to a syslog server, in the order of their
 * places, as they come. One connection, TCP or TLS; one batch of messages in memory, and all others
 * wait in the log.
 *
 * Syslog acknowledges nothing: a peer that dies takes with it what it had not read. So the place
 * that is written down stays some seconds behind what was written, and a new connection goes on
 * from there. What was sent shortly before a break comes twice, with the same "place" and "hash".
 */
#include "audit/sink.h"
#include "audit/syslog_line.h"
#include "outgoing/outgoing_call.h"
#include "store/store.h"

struct syslog_feed;

struct syslog_feed_config { /* all of it is borrowed */
	struct outgoing outgoing;
	struct event_log *events;
	struct store *store;
	const char *url; /* as syslog_place_parse() has it */
	const char *host_name;
	uint64_t settle_us; /* how long a connection must go on until what was written counts; 0: 5
	                       s */
};

must_check int syslog_feed_open(const struct syslog_feed_config *config, struct syslog_feed **ret,
                                struct err *err);
void syslog_feed_close(struct syslog_feed *f); /* NULL is fine */
void syslog_feed_status(const struct syslog_feed *f, struct sink_status *ret);
