// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The gateway's end: doors are asked for, answers find who asked by their tag, and what the wall
 * tells of its own accord is handed on. A wall that dies is followed by another, whose socket is
 * given to wall_client_attach(); all doors are gone with the old one.
 */
#include "loop/loop.h"
#include "wall/msg.h"

struct wall_client;

/*
 * From the loop; may be NULL. error: 0 or a negative errno; -EPIPE: there is no wall right now.
 * certificate: PEM of what clients inside have to trust, or "".
 */
typedef void (*wall_fn)(int error, const char *certificate, void *arg);

struct wall_ops {
	/* Texts end in a NUL, the id is a sandbox's, numbers are as the wall says them. */
	void (*on_decision)(const struct wall_decision *d, void *arg); /* or WALL_LEARNT */
	void (*on_bytes)(const char *id, uint64_t in_bytes, uint64_t out_bytes, void *arg);
	void (*on_attached)(void *arg); /* a wall without doors is there */
};

struct wall_client *wall_client_new(struct loop *loop);
void wall_client_free(struct wall_client *c); /* without a word; NULL is fine */
/* Set before the first wall_client_attach(). */
void wall_client_set_ops(struct wall_client *c, const struct wall_ops *ops, void *arg);
void wall_client_attach(struct wall_client *c, int fd); /* owns fd */
bool wall_client_is_attached(const struct wall_client *c);
/* Each gives a tag for wall_client_cancel(). fds: WALL_SOCKETS, -1 = none; they stay the caller's.
 */
uint64_t wall_client_open(struct wall_client *c, const char *id, const char *policy,
                          const int fds[WALL_SOCKETS], wall_fn fn, void *arg);
uint64_t wall_client_set_policy(struct wall_client *c, const char *id, const char *policy,
                                wall_fn fn, void *arg);
uint64_t wall_client_close(struct wall_client *c, const char *id, wall_fn fn, void *arg);
void wall_client_ping(struct wall_client *c); /* asks whether it answers */
/* How long there has been no wall, or one that does not answer; 0: it owes nothing. */
uint64_t wall_client_silent_us(const struct wall_client *c);
void wall_client_cancel(struct wall_client *c, uint64_t tag); /* fn is not called; 0 is fine */
