// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * An imprint: the memory of a sandbox's only interpreter, with which copies of the sandbox go on.
 * It takes the place of CRIU in a fork where nothing else runs, and is several times as fast.
 *
 *	imprint_take() ──► on_begun: the memory is fixed ── files are copied ──► imprint_release()
 *	              └──► on_whole: its bytes are there ──► imprint_enter() for each copy
 *
 * It is kept for the next fork as long as nothing runs in the source: a call, an exec or a file
 * operation there ends it at once, so its memory is never in their way.
 *
 * Every way to fail ends in a reason, and the caller forks by CRIU. The bytes are a sealed memfd,
 * which the gateway only hands on: from the source's agent to those of its copies, who give it to
 * nobody but a process that they have seen behind all walls. It is charged to the source's memory.
 */
#include "sandbox/snapshot/snapshot.h"

struct imprint;

struct imprint_ops { /* called from the loop, each once; why NULL: it went well */
	void (*on_begun)(const char *why, void *arg);
	void (*on_whole)(const char *why, void *arg); /* also before on_begun() has returned */
};

/* NULL: it cannot be, for the reason *ret_why. */
struct imprint *imprint_take(struct sandbox *s, const struct imprint_ops *ops, void *arg,
                             const char **ret_why);
/* Calls of the source go on. False: something was started in it meanwhile. */
bool imprint_release(struct imprint *im);
/* The copy will enter: what can be done before the bytes are there. */
void imprint_prepare(struct imprint *im, struct sandbox *copy);
/* Its interpreter goes on in that copy; done gets the reason if it does not. */
typedef void (*imprint_entered_fn)(const char *why, void *arg);
void imprint_enter(struct imprint *im, struct sandbox *copy, imprint_entered_fn done, void *arg);
void imprint_free(struct imprint *im); /* NULL is fine */
/* The same, but the source's next fork may have it if it comes soon. */
void imprint_keep(struct imprint *im);
