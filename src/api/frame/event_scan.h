// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Looks through the event log of one sandbox for one reply, a bounded stretch a turn, so that a
 * long log holds up nobody. The client may leave meanwhile; then the scan ends with it.
 *
 *	event_scan_start() --> line() for each entry --> end() --> reply
 *	                                   client gone --> free()
 */
#include "event/event.h"
#include "http/server.h"

struct sandbox;

struct event_scan_ops {
	/* An entry that matches. > 0: that is enough. */
	int (*line)(const struct event_line *line, void *arg);
	/* All was looked through, up to the cursor `after`, or line() had enough: answers, and
	 * frees arg. */
	void (*end)(struct http_req *req, uint64_t after, void *arg);
	/* There is nobody to answer any more, or the log cannot be read and that was told. */
	void (*free)(void *arg);
};

/* The entries after `after` of a sandbox's own; types as in struct event_filter. From here on arg
 * is the scan's. */
void event_scan_start(struct http_req *req, struct event_log *events, const struct sandbox *s,
                      uint64_t types, uint64_t after, const struct event_scan_ops *ops, void *arg);
