// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end of the broker's socket: requests are sent with a tag, by which replies find
 * their request. Every request ends exactly once: by the broker's reply, a timeout, or the broker's
 * death.
 */
#include "broker/msg.h"
#include "loop/loop.h"
#include "tenant/share.h"

struct broker_client;

/*
 * reply->err tells whether it worked. For MSG_LIST it is called for each row and once with an empty
 * id; for MSG_SEAL and MSG_IMAGES see msg.h.
 */
typedef void (*broker_client_fn)(const struct msg_reply *reply, void *arg);
/* For a request whose reply brings descriptors: DOOR_SOCKETS of them for MSG_DOOR, else one; -1 for
 * none. Those that the callee does not take with take_fd() are closed after the call. */
typedef void (*broker_client_fds_fn)(const struct msg_reply *reply, int *fds, void *arg);

struct broker_client_ops {
	void (*on_ended)(const struct msg_reply *reply, void *arg); /* MSG_ENDED */
	void (*on_disk)(const struct host_disk *disk, void *arg);   /* MSG_DISK */
	void (*on_lost)(void *arg); /* the broker is gone; every request has failed before this */
};

/* Owns fd, also on failure. vm_boot_us: what the broker gives a vm to boot. */
must_check int broker_client_new(struct loop *loop, int fd, uint64_t vm_boot_us,
                                 const struct broker_client_ops *ops, void *arg,
                                 struct broker_client **ret, struct err *err);
void broker_client_free(struct broker_client *client); /* pending callbacks are not called */
/* How long we wait for an answer: longer than the broker itself may take. */
uint64_t broker_client_patience_us(const struct msg_request *req, uint64_t vm_boot_us);
/* Asks; magic and tag are filled in here. fn is called from the loop, never from inside this call.
 * ret_tag may be NULL. */
must_check int broker_client_ask(struct broker_client *client, const struct msg_request *req,
                                 broker_client_fn fn, void *arg, uint64_t *ret_tag,
                                 struct err *err);
/* The same for a project: creates and deletes of jails wait here while the broker has enough to do,
 * and projects take turns (base/fair.h). share may be NULL. */
must_check int broker_client_ask_for(struct broker_client *client, struct share *share,
                                     const struct msg_request *req, broker_client_fn fn, void *arg,
                                     uint64_t *ret_tag, struct err *err);
/* The same for a reply that brings descriptors. */
must_check int broker_client_ask_fds(struct broker_client *client, struct share *share,
                                     const struct msg_request *req, broker_client_fds_fn fn,
                                     void *arg, uint64_t *ret_tag, struct err *err);
/* Asks whether the broker answers; fn as of a MSG_PROBE. One at a time: else nothing is sent. */
void broker_client_ping(struct broker_client *client, broker_client_fn fn, void *arg);
/* For how long the broker has not answered since the last ping; 0: it owes no answer. */
uint64_t broker_client_silent_us(const struct broker_client *client);
bool broker_client_is_gone(
	const struct broker_client *client); /* the broker is, and with it soon this process */
void broker_client_cancel(struct broker_client *client,
                          uint64_t tag); /* fn is not called; 0 and unknown are fine */
