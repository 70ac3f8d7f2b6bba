// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The tmpfs at RUN/stage. CRIU keeps there, for all its runs, what it has found out about the
 * kernel (criu.h): that saves a third of its time. No sandbox sees it.
 */
#include "base/err.h"

struct criu_tmpfs {
	int fd;
	char *path;
};

must_check int criu_tmpfs_open(struct criu_tmpfs *s, const char *run_dir, struct err *err);
void criu_tmpfs_close(struct criu_tmpfs *s);
