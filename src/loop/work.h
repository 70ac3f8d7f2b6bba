// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One thread for calls that wait for the disk, so that the loop need not. Jobs run one after the
 * other, in the order in which they came; the result of each is reported on the loop's thread.
 *
 * The thread is made before its process gives up the right to make threads
 * (daemon/confine/confine.h), and gets its loop later. A job may touch only what its arg points to.
 */
#include "loop/loop.h"

struct work;

/* The result of a job is an errno, negative, or 0. */
typedef int (*work_fn)(void *arg);
typedef void (*work_done_fn)(int result, void *arg);

must_check int work_new(struct work **ret);
must_check int work_attach(struct work *w, struct loop *loop);
/* done is called from the loop, never from inside this call. */
void work_do(struct work *w, work_fn run, work_done_fn done, void *arg);
/* Waits for the running job. Jobs behind it are dropped without a report. NULL is fine. */
void work_free(struct work *w);
