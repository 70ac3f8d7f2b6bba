// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The zygote's child: from the spawner's clone3() to the exec of the interpreter that will be
 * forked. It becomes a jail like a sandbox's, with these differences:
 *
 *	user namespace	T (spawner.h), as an id that owns nothing, with the two capabilities over T
 *			that setns() asks for
 *	pids		the host's, as it can enter only pid namespaces below its own; without a
 *			/proc it has no names for them
 *	root		the template, read-only; a small /tmp
 *	system calls	a sandbox's, and setns(), which each of its forks takes from itself again
 *
 * So a template's code never has rights over the host. It has rights over the sandboxes of its
 * template, but its code runs there anyway.
 */
#include "engine/jail/jail_child.h"

enum zygote_mount {
	ZYGOTE_MOUNT_TEMPLATE,
	ZYGOTE_MOUNT_BASE, /* the template's image, or the host's /usr */
	ZYGOTE_MOUNT_OWN_TMPFS,
	ZYGOTE_MOUNT_COUNT,
};

#define ZYGOTE_WARM_MAX 1024

struct zygote_orders {              /* with the mounts and, last, the socket to the broker */
	char warm[ZYGOTE_WARM_MAX]; /* modules to load ahead, parted by commas */
	uint32_t is_host;
};

_Noreturn void zygote_child_run(struct jail *jail);
/* The filter that forbids setns(), for the forks. */
extern const struct sock_filter zygote_no_setns[];
extern const size_t zygote_no_setns_len;
