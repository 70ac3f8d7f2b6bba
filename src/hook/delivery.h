// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Sends one request over a connected socket and reports the status of the reply. Only the head of
 * the reply is read; a redirect is a status like any other and is not followed.
 */
#include "base/buf.h"
#include "loop/loop.h"

struct delivery;
struct tls_context;

/* Called once, from the loop: the status of the reply, or 0 and why there is none. */
typedef void (*delivery_fn)(int status, const char *why, void *arg);

/* Owns fd and takes the contents of request. tls NULL: plain TCP; else the certificate must be for
 * server_name. */
must_check int delivery_new(struct loop *loop, int fd, struct tls_context *tls,
                            const char *server_name, struct buf *request, delivery_fn fn, void *arg,
                            struct delivery **ret, struct err *err);
void delivery_free(struct delivery *d); /* fn is not called any more; NULL is fine */
