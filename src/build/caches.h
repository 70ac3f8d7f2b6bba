// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What `RUN --mount=type=cache` keeps between the builds of a project: directories of one volume,
 * CACHES_VOLUME, by a hash of the mount's id. The volume is the project's, counted and removed like
 * any other; a build that needs it makes it. It is mounted in the sandboxes of parts that have such
 * a mount, and guest/build/mount.sh puts links to its directories where they are wanted.
 *
 * Only builds of the project see it, so what hostile code leaves there meets that project's own
 * builds. For the same reason a part that has seen it is in the step cache for its project alone.
 *
 * Where there can be no volume (plain storage, a full quota), caches begin empty, and the log says
 * so. One that is nearly full is emptied before the next build fills it.
 */
#include "build/build.h"

#define CACHES_VOLUME "build-cache"
#define CACHES_DIR    "/opt/cloche/cache" /* never part of an image */

/* Called once: before caches_begin() returns, or from the loop. is_ours false: somebody else has
 * locked one of them, or makes the volume; look again later. */
typedef void (*caches_done_fn)(struct build *b, bool is_ours);

/* Finds the volume, or makes it, if the part that comes next has caches. */
void caches_begin(struct build *b, caches_done_fn done);
/* Variables for mount.sh. */
void caches_put_env(const struct build *b, json_t *env);
