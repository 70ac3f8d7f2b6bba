// SPDX-License-Identifier: Apache-2.0
/* The host's disk as broker and gateway judge it alike. */
#include "base/units.h"
#include "engine/engine.h"

#include <assert.h>
#include <inttypes.h>

static const char *const names[] = {
	[DISK_OK] = "ok",
	[DISK_FULL] = "full",
	[DISK_READ_ONLY] = "read_only",
};
static_assert(ARRAY_SIZE(names) == DISK_STATE_COUNT, "a state has no name");

const char *disk_state_name(uint32_t state)
{
	return state < DISK_STATE_COUNT ? names[state] : "unknown";
}

int host_disk_check(const struct host_disk *disk, struct err *err)
{
	switch (disk->state) {
	case DISK_OK:
		return 0;
	case DISK_READ_ONLY:
		(void)err_set(err, ERR_UNAVAILABLE, EROFS,
		              "the filesystem of the sandboxes' files failed");
		return err_hint(err, "the kernel's log (dmesg) says why; restart the daemon: "
		                     "it ends what runs and mounts the filesystem again");
	default:
		(void)err_set(err, ERR_HOST_DISK_FULL, 0,
		              "the host's disk is full: %" PRIu64 " MiB are free, %" PRIu64
		              " of them are kept for the daemon's own files, and sandboxes have "
		              "%" PRIu64 " left",
		              disk->free_bytes / MIB, disk->reserve_bytes / MIB,
		              disk->layers_free_bytes / MIB);
		return err_hint(err, "make room in the daemon's data directory, or delete "
		                     "sandboxes, snapshots, volumes or templates; what runs goes "
		                     "on");
	}
}
