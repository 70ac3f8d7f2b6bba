// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Children of the broker's that it never got to know: a spawner died between the birth of one and
 * its answer. They end by themselves with the pipes that they wait on; what is left to do is to
 * reap them. Until it has its orders a child is in the spawner's process group, and leaves it right
 * behind, so the group of a dead spawner holds nothing else.
 */
#include "base/list.h"
#include "loop/loop.h"

#include <sys/types.h>

/* Reaps what dies in the group until none of ours is in it. */
void spawner_orphan_watch(struct list *orphans, struct loop *loop, pid_t group);
void spawner_orphan_done(struct list *orphans); /* what still lives is left to itself */
