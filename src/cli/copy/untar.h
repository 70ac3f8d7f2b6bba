// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Unpacks a tar stream that a sandbox made into a directory of the user's. The writer is hostile
 * until shown otherwise: what no honest one writes ends the work (an absolute name, "..", a device,
 * a name that leads through a symbolic link, a broken header); what an honest one may have but is
 * not safe here is left out and told of (a link that points out of the directory, a fifo).
 */
#include "base/err.h"

struct untar;

/* One entry was left out. */
typedef void (*untar_skip_fn)(const char *name, const char *why, void *arg);

/* dir_fd stays the caller's and must outlive the untar. skip may be NULL. */
struct untar *untar_new(int dir_fd, untar_skip_fn skip, void *arg);
/* Takes the next stretch of the archive. After a failure only untar_free() may follow. */
must_check int untar_feed(struct untar *u, const char *data, size_t len, struct err *err);
/* The stream is over: an error if the archive was cut short. */
must_check int untar_finish(struct untar *u, struct err *err);
void untar_free(struct untar *u); /* removes a file that is not complete; NULL is fine */
DEFINE_FREEP(struct untar, untar_free)
