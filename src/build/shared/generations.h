// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Generations of sandboxes that outlive their node (sandbox/lifecycle/restorable.h): snapshots of
 * their files that are taken by themselves and sent to the store.
 *
 *	due ──► taken ──► durable ──► row: the newest of the sandbox ──► the one before goes
 *
 * The first is due at once, others `generation_every` after the last if something has run since or
 * settings were changed, and at once when the sandbox has stopped. One that fails is tried again.
 * A gateway that has just started takes no interest in what an earlier one has begun: it removes
 * that, and takes another.
 */
#include "build/build.h"

struct generations;

struct generations *generations_new(struct builds *bs);
void generations_begin(struct generations *g); /* the fleet is ready */
void generations_free(struct generations *g);
