// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Children that the broker does not know of, because a spawner died after it made one and before it
 * answered. They end by themselves when the pipes that they wait on are closed; they only have to
 * be reaped. A child is in the spawner's process group until it has its orders, and leaves the
 * group right after, so the group of a dead spawner holds nothing else.
 */
#include "base/list.h"
#include "loop/loop.h"

#include <sys/types.h>

/* Reaps what dies in the group until none of ours is in it. */
void spawner_orphan_watch(struct list *orphans, struct loop *loop, pid_t group);
void spawner_orphan_done(struct list *orphans); /* what still lives is left to itself */
