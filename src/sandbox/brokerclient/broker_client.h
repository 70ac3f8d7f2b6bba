// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end of the broker's socket: requests go out with a tag, replies find their request
 * by it. Every request has exactly one end: the broker's reply, a timeout, or the broker's death.
 */
#include "broker/msg.h"
#include "loop/loop.h"
#include "tenant/share.h"

struct broker_client;

/*
 * reply->err tells whether it worked. A MSG_LIST is called for
 * each row and once with an empty id, MSG_SEAL and MSG_IMAGES as msg.h tells.
 */
typedef void (*broker_client_fn)(const struct msg_reply *reply, void *arg);
/* Of a request whose reply brings descriptors: a MSG_DOOR has DOOR_SOCKETS of them, any other one;
 * -1 where there is none. What the callee does not take with take_fd() is closed behind it. */
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
void broker_client_free(struct broker_client *client); /* what is under way is not called */
/* How long an answer is waited for: longer than the broker itself may take. */
uint64_t broker_client_patience_us(const struct msg_request *req, uint64_t vm_boot_us);
/* Asks; magic and tag are filled in here. fn is called from the loop, never from inside this call.
 * ret_tag may be NULL. */
must_check int broker_client_ask(struct broker_client *client, const struct msg_request *req,
                                 broker_client_fn fn, void *arg, uint64_t *ret_tag,
                                 struct err *err);
/* The same on account of a project: creates and deletes of jails wait here while the broker has
 * enough to do, and projects take turns (base/fair.h). share may be NULL. */
must_check int broker_client_ask_for(struct broker_client *client, struct share *share,
                                     const struct msg_request *req, broker_client_fn fn, void *arg,
                                     uint64_t *ret_tag, struct err *err);
/* The same for a reply that brings descriptors. */
must_check int broker_client_ask_fds(struct broker_client *client, struct share *share,
                                     const struct msg_request *req, broker_client_fds_fn fn,
                                     void *arg, uint64_t *ret_tag, struct err *err);
/* Asks whether the broker answers; fn as of a MSG_PROBE. One at a time: else nothing is sent. */
void broker_client_ping(struct broker_client *client, broker_client_fn fn, void *arg);
/* How long the broker has answered nothing since it was last asked so; 0: it owes no answer. */
uint64_t broker_client_silent_us(const struct broker_client *client);
bool broker_client_is_gone(
	const struct broker_client *client); /* the broker is, and with it soon this process */
void broker_client_cancel(struct broker_client *client,
                          uint64_t tag); /* fn is not called; 0 and unknown are fine */
