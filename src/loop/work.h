// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One thread for calls that wait for the disk, so that the loop does not. Jobs run one behind the
 * other, in the order in which they came; what became of each is told on the loop's thread.
 *
 * The thread is made before its process gives up the right to make one (daemon/confine/confine.h),
 * and learns of its loop later. A job may touch nothing but what its arg leads to.
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
/* Waits for the job that is under way; those behind it are not run, and nobody is told. NULL is
 * fine. */
void work_free(struct work *w);
