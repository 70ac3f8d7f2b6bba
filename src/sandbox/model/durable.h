// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Makes sure that a durable change is on disk before it is acknowledged. The store numbers durable
 * changes (store_durable()), and a reply about one waits for its number:
 *
 *	replies of this turn --> round: sync of the store's log, by the work thread
 *	                                sync of the layers, by the broker, where a kept one is new
 *	                     --> fleet_config.on_durable(): all up to that number may go out
 *
 * A round serves all replies that asked before it; later ones wait for the next round. The loop
 * never waits for a disk. If a round fails, its waiting replies get the error, and the next round
 * tries to sync the same data again. New sandboxes among them are undone, because a client that
 * gets the error does not know their ids.
 */
#include "base/err.h"

struct durable;
struct fleet;
struct sandbox;

void durable_open(struct fleet *fleet);
void durable_close(struct fleet *fleet);
/* A layer or volume is new and must survive a reboot. */
void durable_on_layer(struct fleet *fleet);
void durable_on_create(struct sandbox *s); /* so is that of a new sandbox */
/* The number to wait for; a round will come. 0: everything is on disk already. */
uint64_t durable_ask(struct fleet *fleet);
