// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The zygotes: one for `host`, from the start on, and those of the most recently used images. The
 * zygote of an image is started when one of its sandboxes first wants a fork; that sandbox starts
 * its interpreter the ordinary way. The least recently used zygote is ended for a new one. A
 * template without Python is tried only once.
 */
#include "engine/jail/zygote/zygote.h"

#define ZYGOTES_MAX 5 /* some 10 MiB each, and what their warm modules take */

struct zygotes {
	struct guest_host *host;
	struct zygote all[ZYGOTES_MAX]; /* the first is host's */
	uint64_t used[ZYGOTES_MAX];     /* numbers of the last forks; 0: unused */
	uint64_t last;
};

void zygotes_init(struct zygotes *zs, struct guest_host *host, const char *warm);
void zygotes_done(struct zygotes *zs);
void zygotes_start(struct zygotes *zs); /* that of host */
/* The image's zygote, which may have to be started first. */
struct zygote *zygotes_take(struct zygotes *zs, const struct digest *image);
struct zygote *zygotes_find(struct zygotes *zs, const struct digest *image); /* or NULL */
unsigned zygotes_deaths(const struct zygotes *zs); /* the most that one has, without a fork */
void zygotes_drop(struct zygotes *zs, const struct digest *image); /* its image goes */
