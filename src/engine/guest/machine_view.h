// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a sandbox sees of its machine: files in its own tmpfs (own_tmpfs.h) that the child mounts
 * over those of /proc, and a directory as /sys. Nobody inside can write to them, not even its root.
 * The broker rewrites the files through its own fd when limits change.
 */
#include "engine/engine.h"

#include <sched.h>

#define MACHINE_VIEW_SYS_DIR "sys"

extern const char *const machine_view_proc_files[]; /* of these names below /proc */
extern const size_t machine_view_proc_files_len;
/* What is shown instead of a file below /proc/sys that would show counts or names of the host. */
extern const struct machine_view_setting {
	const char *name, *place; /* of it in the view, and below /proc */
	const char *text;         /* NULL: its own of each sandbox */
} machine_view_settings[];
extern const size_t machine_view_settings_len;

/* *ret_fd is a detached mount. */
must_check int machine_view_make(const struct guest_limits *limits, int *ret_fd, struct err *err);
/* The boot id, which is new in each view. A sandbox that is restored with its memory keeps the one
 * that its programs know. */
#define MACHINE_VIEW_BOOT_ID_SIZE 37 /* with its newline */
must_check int machine_view_set_boot_id(int fd, const char id[MACHINE_VIEW_BOOT_ID_SIZE]);
must_check int machine_view_update(int fd, const struct guest_limits *limits, struct err *err);

/* The CPUs that a sandbox of this slot sees: as many as its limit, taken in turn from those that we
 * may use, so that small sandboxes are spread. */
void machine_view_pick_cpus(uint32_t slot, const struct guest_limits *limits, cpu_set_t *ret);
