// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Confines the daemon's own parts: after its start each keeps only what it needs. The table in
 * SECURITY.md says what each part keeps, and a test compares it with /proc.
 *
 *	gateway		reads what strangers send: no root, no capability, no path but its own
 *			directory, no way to start a program, to open a socket or to map code
 *	dialer		the same, but it sees the host's files as anybody does (its resolver
 *			reads some), and makes sockets and children
 *	wall		the same as the gateway, without files, with sockets
 *	launcher	root with two capabilities; it starts nothing itself (part_starter.h)
 *	member		as the gateway, with sockets: its directory has what libpq reads
 *	broker		root, without what only CRIU, or nobody, needs; a list of calls is refused
 */
#include "base/err.h"
#include "loop/work.h"

#include <sys/types.h>

enum confine_part {
	CONFINE_GATEWAY,
	CONFINE_DIALER,
	CONFINE_WALL,
	CONFINE_LAUNCHER,
	CONFINE_BROKER,
	CONFINE_MEMBER,
	CONFINE_PART_COUNT
};

struct confine_plan {
	enum confine_part part;
	const char *root_dir; /* becomes "/"; NULL: all of the host's */
	uid_t uid;            /* 0: it stays root */
	gid_t gid;
	/* It gets one more thread, and can make no other after that; NULL: none. */
	struct work **ret_work;
};

/* Confines the calling process for good; it must be root and have one thread. */
must_check int confine(const struct confine_plan *plan, struct err *err);
/* Called once, before any part is forked: drops what neither they nor their children need. */
must_check int confine_all(struct err *err);

/*
 * confine_calls.c: only filters the system calls. A refused call fails with EPERM, and the first
 * one of its kind is logged by its name (`daemon.call_refused`). 0 or a negative errno.
 */
must_check int confine_calls(enum confine_part part);
