// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The member's end of the socket to the gateway (src/daemon/gateway/cluster_link.h is the other;
 * they speak cluster/message.h).
 *
 * Only the newest state waits for the gateway: a newer word replaces the one before it, and a
 * changed list of nodes is sent from its beginning. While answers wait, no request is read. So a
 * gateway that does not read costs the member a bounded amount of memory.
 */
#include "base/json/json.h"
#include "cluster/message.h"
#include "loop/loop.h"

struct gateway_link;

/* Each asks for an answer with the same seq. */
struct gateway_link_ops {
	void (*open)(uint32_t seq, uint32_t node, void *arg); /* gateway_link_opened() */
	/* fd: came with it, and is the callee's; -1: none. gateway_link_answer() */
	void (*call)(uint32_t seq, const char *name, const json_t *call, int fd, void *arg);
	void (*ended)(void *arg);
};

must_check int gateway_link_new(struct loop *loop, int fd, const struct gateway_link_ops *ops,
                                void *arg, struct gateway_link **ret);
void gateway_link_free(struct gateway_link *l); /* NULL is fine */
void gateway_link_word(struct gateway_link *l, const struct cluster_word *word);
/* Copies the rows. */
void gateway_link_nodes(struct gateway_link *l, const struct cluster_node_row *rows, size_t n);
/* error 0: fd is the stream, which stays the caller's. */
void gateway_link_opened(struct gateway_link *l, uint32_t seq, int error, const char *message,
                         int fd);
/* -EAGAIN: the gateway does not take what it has. fd stays the caller's. */
must_check int gateway_link_arrived(struct gateway_link *l, uint32_t from, int fd);
void gateway_link_answer(struct gateway_link *l, uint32_t seq, const json_t *answer);
/* {"error": {"code": …, "message": …}} */
void gateway_link_refuse(struct gateway_link *l, uint32_t seq, const char *code,
                         const char *message);
