// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Some kernel resources are not counted by control groups; all sandboxes of a host share them. A
 * sandbox gets a share: what the host has, divided by the possible number of sandboxes, but not
 * less than programs need. If the host has little, a smaller number of sandboxes can use it up;
 * `cloche doctor` says so. docs/design/kernel-resources.md has the whole list.
 */
#include <stddef.h>
#include <stdint.h>

enum kernel_share {
	SHARE_INOTIFY_INSTANCES,
	SHARE_INOTIFY_WATCHES,
	SHARE_TERMINALS,
	SHARE_OPEN_FILES,
	SHARE_COUNT
};

struct kernel_share_row {
	const char *name;
	const char *sysctl;   /* what the host has */
	const char *reserve;  /* a sysctl with the number that sandboxes may not use; or NULL */
	uint64_t least, most; /* of one sandbox */
};
extern const struct kernel_share_row kernel_share_rows[SHARE_COUNT];

/* The value of a sysctl ("fs.file-max"); UINT64_MAX if this kernel does not have it. */
uint64_t kernel_sysctl(const char *name);
/* What the host has for sandboxes; UINT64_MAX: there is no bound. */
uint64_t kernel_share_there(enum kernel_share what);
/* One sandbox's share of what is there. */
uint64_t kernel_share_of(uint64_t there, uint64_t sandboxes, uint64_t least, uint64_t most);
void kernel_shares_read(uint32_t sandboxes, uint64_t ret[SHARE_COUNT]);

/* The limit of open files for a process, so that all processes of a sandbox together stay within
 * its share. */
uint32_t kernel_share_open_files(const uint64_t shares[SHARE_COUNT], uint32_t open_files,
                                 uint32_t pids);
