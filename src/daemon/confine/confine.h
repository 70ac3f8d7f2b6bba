// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The walls of the daemon's own parts: each keeps what it needs after its start, and nothing else.
 * The table in SECURITY.md says what is left of each, and a test holds it against /proc.
 *
 *	gateway		reads what strangers send: no root, no capability, no path but its own
 *			directory, no way to start a program, to open a socket or to map code
 *	dialer		the same, but it sees the host's files as anybody does (its resolver
 *			reads some), and makes sockets and children
 *	wall		the same as the gateway, without files, with sockets
 *	launcher	root with two capabilities; it starts nothing itself (part_starter.h)
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
	CONFINE_PART_COUNT
};

struct confine_plan {
	enum confine_part part;
	const char *root_dir; /* becomes "/"; NULL: all of the host's */
	uid_t uid;            /* 0: it stays root */
	gid_t gid;
	/* It has one thread beside from then on, and can make no other; NULL: none. */
	struct work **ret_work;
};

/* Irrevocable, for the calling single-threaded process, which must be root. */
must_check int confine(const struct confine_plan *plan, struct err *err);
/* Once, before any part is forked: what none of them needs, nor what they start. */
must_check int confine_all(struct err *err);

/*
 * confine_calls.c: the system calls alone. A call that is refused fails with EPERM, and the first
 * one of its kind is told in the log by its name (`daemon.call_refused`). 0 or a negative errno.
 */
must_check int confine_calls(enum confine_part part);
