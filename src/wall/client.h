// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end of the socket to the wall. It asks for doors, finds the caller of each answer
 * by its tag, and passes on what the wall reports by itself. When a wall dies, another is started,
 * and its socket is given to wall_client_attach(); the doors of the old one are gone.
 */
#include "loop/loop.h"
#include "wall/msg.h"

struct wall_client;

/*
 * Called from the loop; may be NULL. error: 0 or a negative errno; -EPIPE: there is no wall right
 * now. certificate: PEM of the authority that programs in the sandbox must trust, or "".
 */
typedef void (*wall_fn)(int error, const char *certificate, void *arg);

struct wall_ops {
	/* Texts are NUL-terminated and the id is a sandbox's; numbers are as the wall sent them,
	 * unchecked. */
	void (*on_decision)(const struct wall_decision *d, void *arg); /* or WALL_LEARNT */
	void (*on_bytes)(const char *id, uint64_t in_bytes, uint64_t out_bytes, void *arg);
	void (*on_attached)(void *arg); /* a wall without doors is there */
	/* The id is a sandbox's and so is that of the member. Answered by wall_client_dialled(). */
	void (*on_dial)(const struct wall_dial *d, void *arg);
};

struct wall_client *wall_client_new(struct loop *loop);
void wall_client_free(struct wall_client *c); /* no callback is called; NULL is fine */
/* Set before the first wall_client_attach(). */
void wall_client_set_ops(struct wall_client *c, const struct wall_ops *ops, void *arg);
void wall_client_attach(struct wall_client *c, int fd); /* owns fd */
bool wall_client_is_attached(const struct wall_client *c);
/* Each returns a tag for wall_client_cancel(). fds: WALL_SOCKETS of them, -1 = none; the caller
 * still owns them. is_trusting: the caller sees to it that programs inside trust the certificate
 * that it is told.
 */
uint64_t wall_client_open(struct wall_client *c, const char *id, const char *policy,
                          bool is_trusting, const int fds[WALL_SOCKETS], wall_fn fn, void *arg);
uint64_t wall_client_set_policy(struct wall_client *c, const char *id, const char *policy,
                                bool is_trusting, wall_fn fn, void *arg);
uint64_t wall_client_close(struct wall_client *c, const char *id, wall_fn fn, void *arg);
/* Members as wall/group/group.h has them; id: the caller's for the group. */
uint64_t wall_client_set_group(struct wall_client *c, const char *id, const char *members,
                               wall_fn fn, void *arg);
/* fd: connected, or -1; the caller still owns it. error: 0 or a positive errno, with a why. */
void wall_client_dialled(struct wall_client *c, uint64_t dial, int fd, int error, const char *why);
void wall_client_ping(struct wall_client *c); /* asks whether it answers */
/* For how long there has been no wall, or one that does not answer; 0: it owes no answer. */
uint64_t wall_client_silent_us(const struct wall_client *c);
void wall_client_cancel(struct wall_client *c, uint64_t tag); /* fn is not called; 0 is fine */
