// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The streams between this node's gateway and those of its peers: one TLS connection each. A
 * member listens at its node's address, and connects to the addresses in the directory. Whoever
 * shows a certificate of the cluster's authority that names a node of the directory is that node,
 * and nobody else is anybody. What a stream says is the gateways' business.
 *
 * Bounds: of streams in all and with each peer, of handshakes under way, and of their time.
 */
#include "base/json/json.h"
#include "loop/loop.h"
#include "member/directory.h"
#include "member/name_resolver.h"
#include "member/peers/peer_tls.h"

struct peers;

struct peers_ops {
	/* fd: the gateway's end, which is the callee's. -EAGAIN: it is not wanted. */
	int (*arrived)(uint32_t from, int fd, void *arg);
	/* Of peers_open(): error 0 and the gateway's end, or a negative errno and why. */
	void (*opened)(uint32_t seq, int error, const char *why, int fd, void *arg);
};

struct peers_config {
	struct loop *loop;
	struct name_resolver *resolver;
	struct peer_tls *tls;
	const char *cluster_id, *address; /* of this node; borrowed */
	uint32_t node;
	const struct directory *directory;
	const struct peers_ops *ops;
	void *arg;
};

struct peers *peers_new(const struct peers_config *config); /* listens, or tries until it can */
/* Streams from now on show this certificate; those before it stay. */
void peers_show(struct peers *p, struct peer_tls *tls);
void peers_open(struct peers *p, uint32_t seq, uint32_t node);
/* Nodes that the directory does not have any more lose their streams. */
void peers_look(struct peers *p);
json_t *peers_status(const struct peers *p);
