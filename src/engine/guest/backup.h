// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The frozen copies that a backup is made from: all that is kept, as it was at one moment. They are
 * beside the originals, which may change and be removed meanwhile:
 *
 *	DATA/layers/backup/sb_…/files		read-only subvolume: a kept layer, running or not
 *	DATA/layers/backup/vo_…/files		the same of a volume
 *	DATA/layers/backup/sn_…/files		the same of a snapshot's files, and beside it its
 *						manifest and memory as hard links
 *	DATA/templates/backup/DIGEST/…		an image and its mark, as hard links
 *
 * There is one set at a time. A start removes what an earlier broker left.
 */
#include "engine/engine.h"

/* The calls of struct engine. */
must_check int backup_freeze(struct guest_host *host, backup_fn fn, void *arg, struct err *err);
int backup_release(struct guest_host *host, guest_gone_fn gone, void *arg);

void backup_sweep(struct guest_host *host); /* what an earlier broker left; blocks */
void backup_leave(struct guest_host *host); /* the broker goes: likewise */
/* How many bytes of a layer the frozen copy holds. With simple quotas they count for the layer as
 * long as the copy exists, even if the guest has removed them. */
uint64_t backup_pinned(const char *id);
