// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Compares two or three snapshots of one template: what has changed from the first to the second,
 * and which of those changes the third has made differently.
 *
 *	/shown/N	their roots, put together anew (engine/jail/rootfs.c, in a vm init.c)
 *	/shown/N.root	what each has written over its template
 *	/shown/N.usr	likewise, where /usr is an overlay of its own
 *	/shown/t	the template alone, in the place of the first one where only one is shown
 *
 * Only files that one of them has written are read: the template's other files are the same in all.
 * So the cost depends on what was changed, not on the template's size. Directories come before
 * their contents, names in byte order. What belongs to one machine, such as its names and the
 * certificates that it trusts, does not count as a change.
 */
#include "agent/archive/entry_compare.h"

struct change {
	const char *path; /* from "/" */
	uint32_t changes; /* CHANGE_… */
	const struct entry_version *old, *now;
	const struct entry_version *ours; /* the third's; the first's where there is none */
};

struct tree_compare_ops {
	/* Directories whose conflict is about all that is in them are told once, unless: */
	bool takes_theirs; /* each path in which the third differs from the second is told then */
	int (*on_change)(const struct change *ch, void *arg, struct err *err); /* not 0 ends it */
};

/* 0, or what on_change said, or an error. */
must_check int tree_compare_run(const char *shown, const struct tree_compare_ops *ops, void *arg,
                                struct err *err);
