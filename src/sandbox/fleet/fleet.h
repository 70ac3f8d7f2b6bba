// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * All sandboxes of this daemon, and the one connection to the broker, which makes them. Look-ups
 * always name the project, so a forgotten check cannot give access to another project's sandbox.
 */
#include "sandbox/model/find.h"
#include "sandbox/model/fleet_config.h"

/* Loads the store's sandboxes, asks the broker which are alive, reconnects to those and ends the
 * others; then ready is called. */
must_check int fleet_new(const struct fleet_config *config, loop_fn ready, void *arg,
                         struct fleet **ret, struct err *err);
void fleet_free(struct fleet *fleet);
bool fleet_is_ready(const struct fleet *fleet);
/* All sandboxes are known: their names are compared with those that the cluster knows. */
void fleet_share_names(struct fleet *fleet);
const struct fleet_config *fleet_config(const struct fleet *fleet);
struct create_queue *fleet_creates(const struct fleet *fleet); /* that wait for room */
/* What the broker reports about this host: cpus, memory, isolation. Valid once ready. */
const struct msg_reply *fleet_host(const struct fleet *fleet);
/* Asks the broker for the key of what the gateways of its cluster share; fn is called once, from
 * the loop, with NULL if there is none, unless the fleet is freed first. */
void fleet_ask_cluster_key(struct fleet *fleet, void (*fn)(const uint8_t key[32], void *arg),
                           void *arg);
/* Asks the broker for it again, and pings the wall; fleet_host() is fresh once the broker has
 * answered. */
void fleet_ping(struct fleet *fleet);
uint64_t fleet_broker_silent_us(const struct fleet *fleet); /* how long it owes an answer */
uint64_t fleet_wall_silent_us(const struct fleet *fleet);   /* likewise */
/* The state of the host's disk, as the broker last reported it. */
const struct host_disk *fleet_disk(const struct fleet *fleet);
const struct fleet_counts *fleet_counts(const struct fleet *fleet);
void fleet_count_states(const struct fleet *fleet, size_t ret[SANDBOX_STATE_COUNT]);
struct loop_stats fleet_broker_turns(const struct fleet *fleet); /* as of a moment ago */
size_t fleet_count(const struct fleet *fleet);                   /* alive */
void fleet_pool(const struct fleet *fleet, struct pool_figures *ret);
/* Deletes all spares and makes no more; done as below. */
void fleet_close_pool(struct fleet *fleet, loop_fn done, void *arg);
/* Deletes all living sandboxes of all projects, and stops the persistent ones; done is called once
 * nothing runs (cloche run without a daemon, `serve --rm`). */
void fleet_delete_all(struct fleet *fleet, loop_fn done, void *arg);
