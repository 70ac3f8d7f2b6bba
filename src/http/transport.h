// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A non-blocking connected socket, with or without TLS. TLS may have to write in order to read and
 * the other way round: after -EAGAIN, read_wants and write_wants say which event to wait for.
 */
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct tls_context;
struct ssl_st;

struct transport {
	int fd;
	struct ssl_st *ssl;               /* NULL = bare */
	uint32_t read_wants, write_wants; /* EPOLLIN or EPOLLOUT */
};

void transport_init(struct transport *t, int fd); /* owns fd from here on */
must_check int transport_start_tls(struct transport *t, struct tls_context *ctx,
                                   const char *server_name, struct err *err);
/* With TLS: 0 once the handshake is over, -EAGAIN as of a write, or another negative errno. Reads
 * and writes do it by themselves; this is for who wants to know first what was agreed on. */
must_check int transport_handshake(struct transport *t);
/* Bytes, 0 at a proper end, -EAGAIN, or another negative errno. Never raises SIGPIPE. */
must_check ssize_t transport_read(struct transport *t, void *data, size_t size);
must_check ssize_t transport_write(struct transport *t, const void *data, size_t len);
/* Bytes that TLS has taken from the socket and epoll does not know of. */
bool transport_has_pending(const struct transport *t);
void transport_shutdown(struct transport *t); /* nothing more will be written */
void transport_close(struct transport *t);    /* twice is fine */
/* Closes so that the peer sees an error and not an end. */
void transport_reset(struct transport *t);
