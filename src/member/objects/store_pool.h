// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The workers of the store (store_worker.h), on the loop of who uses them: jobs wait in a queue,
 * and each idle worker takes the first. A worker that dies fails its job, and is not started anew:
 * who confined itself starts no process. With the last one all jobs fail.
 */
#include "loop/loop.h"
#include "member/objects/store_worker.h"

#define STORE_WORKERS 8

struct store_pool;

/* In the order of the queue, or from inside store_pool_do() never. */
typedef void (*store_fn)(const struct store_result *result, void *arg);

/* Owns the sockets, also if it fails. */
must_check int store_pool_new(struct loop *loop, const int *fds, size_t n, struct store_pool **ret);
void store_pool_free(struct store_pool *p);            /* fails what waits; NULL is fine */
size_t store_pool_workers(const struct store_pool *p); /* that live */
/* fd is the caller's, open until the result; -1: none. */
void store_pool_do(struct store_pool *p, const struct store_job *job, int fd, store_fn fn,
                   void *arg);
