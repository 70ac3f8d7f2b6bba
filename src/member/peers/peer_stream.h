// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One stream between this gateway and a peer's: a TLS connection to the peer's member on one side,
 * a socket pair to the gateway on the other. Bytes are pumped both ways with a bounded buffer for
 * each, so who does not read holds up who writes. An end is passed on by itself: a half that has
 * ended leaves the other half open.
 *
 *	(connecting) --> handshake --> ready(): may take the stream --> pumping --> gone()
 */
#include "loop/loop.h"
#include "member/peers/peer_tls.h"

struct peer_stream;

struct peer_stream_ops {
	/* The handshake is over. The callee asks for the peer's name, and takes the gateway's end
	 * by peer_stream_take(), or cuts the stream. */
	void (*ready)(struct peer_stream *s, void *arg);
	/* Once, and last; the stream is freed behind it. Before ready(): why, else "". */
	void (*gone)(struct peer_stream *s, const char *why, void *arg);
};

/* fd: a TCP socket, which is the stream's from then on; connected, or connecting. NULL: it failed,
 * and nothing is called. */
struct peer_stream *peer_stream_new(struct loop *loop, struct peer_tls *tls, int fd, bool is_server,
                                    uint64_t handshake_us, const struct peer_stream_ops *ops,
                                    void *arg);
const struct transport *peer_stream_transport(const struct peer_stream *s);
bool peer_stream_is_ready(const struct peer_stream *s);
/* The gateway's end of a new socket pair, which is the caller's; < 0: a negative errno. */
must_check int peer_stream_take(struct peer_stream *s);
void peer_stream_cut(struct peer_stream *s, const char *why); /* gone() is called */
