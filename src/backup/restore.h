// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Restores a backup into an empty data directory that no daemon uses, and verifies backups. During
 * a restore the directory holds RESTORE_MARK, and no daemon starts there.
 */
#include "backup/manifest.h"

#include <sys/types.h>

#define RESTORE_MARK "restore.unfinished"

struct restore_spec {
	const char *data_dir;
	uid_t uid; /* of the gateway's user */
	gid_t gid;
	void (*progress)(uint64_t bytes, void *arg); /* more bytes are put back, or checked */
	void *arg;
};

struct restore_result {
	uint64_t bytes;
	uint64_t sandboxes, volumes, snapshots, templates, files;
	uint64_t memories; /* snapshots that have one, which only a host like the first can start */
	bool is_other_kernel;
};

/* The newest backup, or the one whose name or id begins with `which`. */
must_check int restore_find(struct content *c, const char *which, struct manifest *ret,
                            struct err *err);
/* Reads every piece and checks it against its digest. */
must_check int restore_verify(struct content *c, const struct manifest *m,
                              void (*progress)(uint64_t bytes, void *arg), void *arg,
                              struct err *err);
/* Whether a backup can be restored into the directory; changes nothing. run_dir is the run
 * directory of its future daemon, which must neither run nor have left sandboxes running; NULL =
 * none. */
must_check int restore_check(const struct manifest *m, const char *data_dir, const char *run_dir,
                             struct err *err);
must_check int restore_run(struct content *c, const struct manifest *m,
                           const struct restore_spec *spec, struct restore_result *ret,
                           struct err *err);
