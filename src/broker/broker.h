// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The root process: takes requests from the gateway (msg.h), checks them as untrusted, and lets the
 * engines carry them out. It reads no file and no text that a client or guest has shaped. It has
 * one thread, with a loop.
 *
 * Sandboxes outlive it: when the gateway closes its end of the socket, the broker finishes its work
 * and leaves them running, for the next broker to adopt.
 */
#include "broker/msg.h"

struct broker;

struct broker_config {
	struct loop *loop;
	struct engine_host host;        /* handed to each engine's probe(); loop is filled in */
	int gateway_fd;                 /* SOCK_SEQPACKET; the broker owns it, also on failure */
	struct guest_limits max_limits; /* the hard bounds: no gateway can go past them */
	uint32_t sandboxes_max;         /* 1 to BROKER_SLOTS */
	uint32_t first_slot, n_slots;   /* uid ranges for new sandboxes; 0: all from the first on */
};

#define BROKER_SLOTS    32768 /* uid ranges to pick from: UID_BASE + 32768 * 65536 fits 32 bits */
#define BROKER_UID_BASE UINT64_C(0x30000000) /* of the first */
#define BROKER_UIDS     UINT64_C(65536)      /* in each */

/* Probes the engines, adopts what an earlier broker left, then serves. over is called once, when
 * the gateway is gone and nothing is in flight any more. */
must_check int broker_new(const struct broker_config *config, loop_fn over, void *arg,
                          struct broker **ret, struct err *err);
void broker_free(
	struct broker *broker); /* NULL is fine; sandboxes stay, each engine's leave() is called */
