// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Spares: sandboxes that are ready before they are asked for. A spare has no project, name or row,
 * and is not listed, counted or found. A create that fits takes one and makes it a sandbox like any
 * other; if there is none, it makes a new sandbox.
 */
#include "sandbox/model/sandbox_private.h"

struct pool;
struct spare_kind;

struct pool_timing {
	uint64_t pause_us; /* after a claim, while spares are left */
	uint64_t beat_us;  /* each takes a 64th of the demand */
	uint64_t again_us; /* after a failure; doubled up to 64 times as long */
};

/* Reads the fleet's config; an unknown language is named in err. */
must_check int pool_new(struct fleet *fleet, struct pool **ret, struct err *err);
void pool_free(struct pool *p); /* with its spares, silently; NULL is fine */
void pool_open(struct pool *p); /* begins to fill: the fleet is ready */
/* Ends all spares and makes no more; done once they are gone, from the loop. */
void pool_close(struct pool *p, loop_fn done, void *arg);
void pool_look(struct pool *p); /* the count of sandboxes or creates has changed */

/* A ready spare that would do, or NULL; counts as demand either way. The pool owns it until
 * pool_take(), and may end it before. */
struct sandbox *pool_offer(struct pool *p, const struct spare_kind *kind);
struct share *pool_share(const struct spare *spare); /* of the claim that it is made for */
bool pool_is_short(const struct spare *spare); /* few of its kind are left: it is needed soon */
void pool_take(struct sandbox *s);             /* it has an owner now */
struct sandbox *pool_find(struct pool *p, const char *id); /* a spare, or NULL */
void pool_figures(const struct pool *p, struct pool_figures *ret);

/* Starts a vm that becomes a warm copy (warm_copy.h), unless one is under way or there is no
 * pool. */
must_check int pool_seed(struct pool *p, uint32_t engine, const struct template *t,
                         const struct guest_limits *limits, struct err *err);

/* Events in the life of a spare, called by sandbox.c, end.c, create.c and interpreter.c. */
void pool_on_up(struct sandbox *s);
void pool_on_warm(struct sandbox *s); /* one of its interpreters is ready, or has failed */
void pool_on_failed(struct sandbox *s, const struct err *err);
void pool_on_gone(struct sandbox *s); /* frees it */
