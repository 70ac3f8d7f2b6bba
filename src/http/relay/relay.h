// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One HTTP request of a client, passed on to another server over a stream socket, and its answer
 * back to the client.
 *
 *	relay_begin() --> relay_use() --> head, body --> head of the answer --> its body --> end
 *	     ^                |                                          +--> 101: bytes as they are
 *	     +----------------+ the server ended without a byte, and again() said yes
 *
 * Whose server it is, how it is reached, what the heads say and what a failure says is the owner's
 * (struct relay_ops). A relay lies in its owner, who calls relay_stop() when the request is over
 * (http_on_done()), and relay_done() a turn of the loop later: the relay may be on the stack.
 */
#include "http/parse.h"
#include "http/server.h"

enum relay_fault {
	RELAY_NO_HTTP,       /* the answer is none, or it has no end where it needs one */
	RELAY_UNASKED,       /* 101 to a request that asked for none */
	RELAY_HEAD_ENDLESS,  /* of the answer */
	RELAY_BAD_BODY,      /* of the answer: its chunks */
	RELAY_NO_ANSWER,     /* the connection ended before one */
	RELAY_CUT_SHORT,     /* it ended within one */
	RELAY_BODY_TOO_FAST, /* the request's came faster than the server took it */
	RELAY_UNWATCHED,     /* the stream cannot be watched */
	RELAY_FAULT_COUNT
};

struct relay_ops {
	/* Writes the head for the server. -E2BIG, -EINVAL */
	int (*put_request)(struct buf *out, void *arg);
	/* Puts the fields of the server's answer into the reply. */
	void (*put_reply)(const struct http_head *head, void *arg);
	/* The server gave no answer, or not all of one: the owner calls relay_abandon(). */
	void (*failed)(enum relay_fault fault, void *arg);
	/* So many bytes went to the server, and came from it; may be NULL. */
	void (*moved)(size_t out, size_t in, void *arg);
	/* The stream ended before any byte of an answer, and nothing of the body was sent. True:
	 * the owner has called relay_begin() and will give another stream. May be NULL. */
	bool (*again)(void *arg);
	/* Sees the head of the answer before the client does. True: the server has done nothing and
	 * taken nothing of the body, and the owner, who has called relay_stop(), does something
	 * else with the request. May be NULL. */
	bool (*turned_away)(const struct http_head *head, void *arg);
	/* The stream is good for another request; the fd is the callee's. NULL: it is closed. */
	void (*keep)(int fd, void *arg);
	bool takes_until_close; /* an answer whose end is that of the connection */
};

struct relay { /* all private, but for is_over and has_met_end, which may be read */
	const struct relay_ops *ops;
	void *arg;
	struct http_req *req;
	struct loop *loop;
	int fd;
	struct loop_io *io;
	struct buf in, out;
	struct http_head head; /* of the answer */
	struct http_decoder decoder;
	uint64_t moved_us; /* when the server last took something */
	unsigned n_interims;
	bool holds_body; /* until the server asks for it */
	bool has_body;   /* some of the request's was taken from the client */
	bool has_sent_all;
	bool has_answer; /* any byte of it */
	bool has_head, is_tunnel;
	bool is_over; /* the answer has ended, one way or another */
	bool has_met_end;
};

void relay_init(struct relay *r, struct http_req *req, const struct relay_ops *ops, void *arg);
/* The body has been read: put_request() writes it, too. Before relay_begin(). */
void relay_body_is_read(struct relay *r, size_t len);
/* It is sent when the server asks for it (100), as the head says that it should. Likewise. */
void relay_hold_body(struct relay *r);
/* Writes the request's head, in place of what there is; a stream that it had is closed. What
 * put_request() gives. */
must_check int relay_begin(struct relay *r);
/* Sends it over a connected socket, which the relay owns from here on. */
void relay_use(struct relay *r, int fd);
/* Ends it without a whole answer, if it has not ended. True: no reply has begun, so the caller
 * gives one; else the client's connection is cut, so that it sees a broken answer and not a short
 * one. */
must_check bool relay_abandon(struct relay *r);
/* The server has taken nothing for so long, though something waits for it. */
bool relay_is_stuck(const struct relay *r, uint64_t for_us);
void relay_stop(struct relay *r);
void relay_done(struct relay *r);
