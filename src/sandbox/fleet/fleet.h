// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * All sandboxes of this daemon, and the one connection to the broker through which they come to be.
 * Finding always names the project, so there is no way to reach another's sandbox by forgetting a
 * check.
 */
#include "sandbox/model/find.h"
#include "sandbox/model/fleet_config.h"

/* Loads the store's sandboxes, asks the broker who is alive, reconnects to those, closes the books
 * of the others; then ready is called. */
must_check int fleet_new(const struct fleet_config *config, loop_fn ready, void *arg,
                         struct fleet **ret, struct err *err);
void fleet_free(struct fleet *fleet);
bool fleet_is_ready(const struct fleet *fleet);
const struct fleet_config *fleet_config(const struct fleet *fleet);
/* The broker's word about this host: cpus, memory, isolation. Valid once ready. */
const struct msg_reply *fleet_host(const struct fleet *fleet);
/* Has the broker say it again, and the wall that it lives; fleet_host() is fresh once the broker
 * has answered. */
void fleet_ping(struct fleet *fleet);
uint64_t fleet_broker_silent_us(const struct fleet *fleet); /* it owes an answer for so long */
uint64_t fleet_wall_silent_us(const struct fleet *fleet);   /* likewise */
/* The disk below sandboxes and daemon, as the broker told last. */
const struct host_disk *fleet_disk(const struct fleet *fleet);
const struct fleet_counts *fleet_counts(const struct fleet *fleet);
void fleet_count_states(const struct fleet *fleet, size_t ret[SANDBOX_STATE_COUNT]);
struct loop_stats fleet_broker_turns(const struct fleet *fleet); /* as of a moment ago */
size_t fleet_count(const struct fleet *fleet);                   /* alive */
void fleet_pool(const struct fleet *fleet, struct pool_figures *ret);
/* Deletes what belongs to nobody, and makes no more; done as below. */
void fleet_close_pool(struct fleet *fleet, loop_fn done, void *arg);
/* Deletes all that live, of all projects, and stops the persistent ones; done once nothing runs
 * (cloche run without a daemon, `serve --rm`). */
void fleet_delete_all(struct fleet *fleet, loop_fn done, void *arg);
