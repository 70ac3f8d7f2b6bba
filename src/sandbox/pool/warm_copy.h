// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Machines that were booted ahead, saved, and are what vms start from (warm_copy.c). */
#include "sandbox/model/sandbox_private.h"

typedef void (*warm_copy_fn)(void *arg);

/* A vm that is about to be created goes on from a copy, if there is one that fits.
 * has_interpreters: and has those that run in it. */
void warm_copy_apply(struct sandbox *s, bool has_interpreters);
/* It could not: true if it is to be created anew, without. */
bool warm_copy_on_failed(struct sandbox *s, const struct err *err);
/* It runs: if it had to boot, the next one shall not. */
void warm_copy_want(struct sandbox *s);
/* Begins a copy, unless there is one, or is being made, or the last try is not long ago. */
void warm_copy_make(struct fleet *fleet, uint32_t engine, const struct template *t,
                    const struct guest_limits *limits);
bool warm_copy_has(const struct fleet *fleet, const struct digest *image,
                   const struct guest_limits *limits);

/* Makes a copy of a seed; done is told once, whatever came of it. */
must_check int warm_copy_take(struct sandbox *s, warm_copy_fn done, void *arg, struct err *err);
void warm_copy_on_seed_failed(struct fleet *fleet, const struct err *err);

void warm_copy_drop_image(struct fleet *fleet, const struct digest *image); /* its template goes */
size_t warm_copy_count_image(const struct fleet *fleet, const struct digest *image);
void warm_copy_settle(struct fleet *fleet); /* what the broker has not is not there */
