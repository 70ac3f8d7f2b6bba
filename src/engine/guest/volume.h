// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Volumes: directories of files that outlive every guest. One is a subvolume beside the layers,
 *
 *	layers/vo_…/keeper	whose it is (kept_layer.h)
 *	layers/vo_…/files	what a guest has of it
 *
 * with its own quota group as the hard limit. A guest gets `files` as an idmapped mount without
 * set-id bits and devices, so the ids on disk are 0 to 65535, whichever guest wrote them. The mark
 * is outside `files`, where no path from inside leads. Several guests can have a volume at the same
 * time.
 */
#include "engine/engine.h"

#define VOLUME_FILES "files"

must_check int volume_refuse_plain(struct err *err); /* that storage has none */
int volume_make(struct guest_host *host, const struct volume_spec *spec, struct err *err);
int volume_discard(struct guest_host *host, const char *id, struct err *err);
void volume_each(struct guest_host *host, void (*fn)(const struct volume_info *info, void *arg),
                 void *arg);
/* The directory that a guest gets. */
must_check int volume_open(struct guest_host *host, const char *id, int *ret_fd, struct err *err);
void volumes_sweep(
	struct guest_host *host); /* what earlier brokers have not finished making or removing */
