// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Whose a layer is. All layers and volumes of one owner, a project, may fill a share of the room
 * together; who fills it gets EDQUOT, and the others keep theirs.
 *
 *	0/LAYER --.
 *	0/LAYER ---+--> 1/OWNER: at most SHARE percent of what the layers can have
 *	0/VOLUME -'
 *
 * The kernel holds it, by a quota group above those of the layers. Metering could not: between two
 * readings a project with many sandboxes fills any disk. To admit by the sum of disk limits would
 * forbid what makes sandboxes cheap, that most of them use little of their limit.
 *
 * Only with simple quotas (Linux 6.7): there a byte counts for whoever wrote it, snapshots of it
 * too, and a layer can be put into a group at any time. Older ones would have to count the whole
 * filesystem again. A share of 100 is none, and costs nothing.
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
