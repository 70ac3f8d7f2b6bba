// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's walls: it reads what strangers send, so it keeps nothing that it does not need. No
 * root, no capability, no path but its own directory, no way to start a program, to open a socket
 * or to map code.
 */
#include "base/err.h"
#include "loop/work.h"

#include <sys/types.h>

/* Irrevocable, for the calling single-threaded process, which must be root. root_dir becomes "/".
 * It has one thread beside from then on, *ret_work, and can make no other; NULL: none. */
must_check int confine(const char *root_dir, uid_t uid, gid_t gid, struct work **ret_work,
                       struct err *err);
/* The same for the dialer, which keeps the host's files as anybody sees them (its resolver reads
 * some), and may make sockets and children. */
must_check int confine_dialer(uid_t uid, gid_t gid, struct err *err);
/* The same for the wall: no file has a name there, and it makes sockets but no process. */
must_check int confine_wall(const char *root_dir, uid_t uid, gid_t gid, struct err *err);
/* The last of its steps alone, for its test. */
must_check int confine_syscalls(struct err *err);
