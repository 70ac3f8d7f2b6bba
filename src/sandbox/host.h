// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end of the broker's socket: requests go out with a tag, replies find their request
 * by it. Every request has exactly one end: the broker's reply, a timeout, or the broker's death.
 */
#include "broker/msg.h"
#include "loop/loop.h"
#include "tenant/share.h"

struct host;

/*
 * reply->err tells whether it worked. fd is the callee's, -1 = none came. A MSG_LIST is called for
 * each row and once with an empty id, MSG_SEAL and MSG_IMAGES as msg.h tells.
 */
typedef void (*host_fn)(const struct msg_reply *reply, int fd, void *arg);
/* Of a MSG_DOOR: fds has DOOR_SOCKETS of them, -1 where there is none. What the callee does not
 * take with take_fd() is closed behind it. */
typedef void (*host_door_fn)(const struct msg_reply *reply, int *fds, void *arg);

struct host_ops {
	void (*on_ended)(const struct msg_reply *reply, void *arg); /* MSG_ENDED */
	void (*on_disk)(const struct host_disk *disk, void *arg);   /* MSG_DISK */
	void (*on_lost)(void *arg); /* the broker is gone; every request has failed before this */
};

/* Owns fd, also on failure. vm_boot_us: what the broker gives a vm to boot. */
must_check int host_new(struct loop *loop, int fd, uint64_t vm_boot_us, const struct host_ops *ops,
                        void *arg, struct host **ret, struct err *err);
void host_free(struct host *host); /* what is under way is not called */
/* How long an answer is waited for: longer than the broker itself may take. */
uint64_t host_patience_us(const struct msg_request *req, uint64_t vm_boot_us);
/* Asks; magic and tag are filled in here. fn is called from the loop, never from inside this call.
 * ret_tag may be NULL. */
must_check int host_ask(struct host *host, const struct msg_request *req, host_fn fn, void *arg,
                        uint64_t *ret_tag, struct err *err);
/* The same on account of a project: creates and deletes of jails wait here while the broker has
 * enough to do, and projects take turns (base/fair.h). share may be NULL. */
must_check int host_ask_for(struct host *host, struct share *share, const struct msg_request *req,
                            host_fn fn, void *arg, uint64_t *ret_tag, struct err *err);
/* Asks for a sandbox's door; as host_ask() otherwise. */
must_check int host_ask_door(struct host *host, const char *id, host_door_fn fn, void *arg,
                             uint64_t *ret_tag, struct err *err);
/* Asks whether the broker answers; fn as of a MSG_PROBE. One at a time: else nothing is sent. */
void host_ping(struct host *host, host_fn fn, void *arg);
/* How long the broker has answered nothing since it was last asked so; 0: it owes no answer. */
uint64_t host_silent_us(const struct host *host);
bool host_is_gone(const struct host *host); /* the broker is, and with it soon this process */
void host_cancel(struct host *host, uint64_t tag); /* fn is not called; 0 and unknown are fine */
