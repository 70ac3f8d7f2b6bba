// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What is acknowledged as kept is on disk when it is acknowledged. Kept changes are numbered by the
 * store (store_durable()); a reply that tells of one waits for its number:
 *
 *	replies of this turn --> round: sync of the store's log, by the work thread
 *	                                sync of the layers, by the broker, where a kept one is new
 *	                     --> fleet_config.on_durable(): all up to that number may go out
 *
 * One round is for all who asked before it; whoever comes while it runs waits for the next. The
 * loop waits for no disk. A round that fails is told to those who wait for it, and what it was to
 * bring to disk is tried again with the next. New sandboxes among that are undone: who is told of
 * the failure does not know their ids.
 */
#include "base/err.h"

struct durable;
struct fleet;
struct sandbox;

void durable_open(struct fleet *fleet);
void durable_close(struct fleet *fleet);
/* A layer or volume is new, and is to outlive the machine's restart. */
void durable_on_layer(struct fleet *fleet);
void durable_on_create(struct sandbox *s); /* so is that of a new sandbox */
/* The number to wait for, and a round will come; 0: all that is kept is on disk. */
uint64_t durable_ask(struct fleet *fleet);
