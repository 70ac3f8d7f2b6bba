// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a backup is copied from: all that is kept, as it was at one moment. It lies beside the
 * originals, which go on and may be removed meanwhile:
 *
 *	DATA/layers/backup/sb_…/files		read-only subvolume: a kept layer, running or not
 *	DATA/layers/backup/vo_…/files		the same of a volume
 *	DATA/layers/backup/sn_…/files		the same of a snapshot's files, and beside it its
 *						manifest and memory as hard links
 *	DATA/templates/backup/DIGEST/…		an image and its mark, as hard links
 *
 * There is one at a time. A start removes what an earlier broker left.
 */
#include "engine/engine.h"

/* As struct engine has them. */
must_check int backup_freeze(struct guest_host *host, backup_fn fn, void *arg, struct err *err);
int backup_release(struct guest_host *host, guest_gone_fn gone, void *arg);

void backup_sweep(struct guest_host *host); /* what an earlier broker left; blocks */
void backup_leave(struct guest_host *host); /* the broker goes: likewise */
/* What the frozen copy pins of a layer: with simple quotas it counts for the layer for as long as
 * the copy is there, also when the guest has removed it. */
uint64_t backup_pinned(const char *id);
