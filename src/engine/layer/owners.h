// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The owners of layers. All layers and volumes of one owner (a project) together may use a share of
 * the room. An owner that fills its share gets EDQUOT, and the others keep theirs.
 *
 *	0/LAYER --.
 *	0/LAYER ---+--> 1/OWNER: at most SHARE percent of what the layers can have
 *	0/VOLUME -'
 *
 * The kernel enforces it, by a quota group above those of the layers. Metering could not: between
 * two readings a project with many sandboxes can fill any disk. Admission by the sum of disk limits
 * would be wasteful, since most sandboxes use little of their limit.
 *
 * This needs simple quotas (Linux 6.7): there a byte counts for the layer that wrote it, also in
 * snapshots, and a layer can join a group at any time. Older quotas would have to count the whole
 * filesystem again. A share of 100 means no limit, and costs nothing.
 */
#include "engine/layer/storage.h"

struct owners {
	uint32_t share; /* percent; 0: nobody has one */
	uint64_t limit; /* of each, in bytes */
	uint64_t *numbers;
	size_t n;
};

void owners_open(struct owners *o, const struct storage *s, uint32_t share);
void owners_close(struct owners *o); /* zeros are fine */
void owners_set_room(struct owners *o, const struct storage *s, uint64_t bytes);
must_check int owners_assign(struct owners *o, const struct storage *s, const char *layer,
                             uint64_t owner, struct err *err);
