// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Saved machines that were booted ahead, from which vms start (warm_copy.c). */
#include "sandbox/model/sandbox_private.h"

typedef void (*warm_copy_fn)(void *arg);

/* Makes a new vm start from a copy, if one fits. has_interpreters: it also takes over the
 * interpreters that run in the copy. */
void warm_copy_apply(struct sandbox *s, bool has_interpreters);
/* The start from a copy failed. Returns true if the sandbox is to be created again without one. */
bool warm_copy_on_failed(struct sandbox *s, const struct err *err);
/* Called when it runs: if it had to boot, makes a copy for the next one. */
void warm_copy_want(struct sandbox *s);
/* Starts making a copy, unless there is one, or one is being made, or the last try was recent. */
void warm_copy_make(struct fleet *fleet, uint32_t engine, const struct template *t,
                    const struct guest_limits *limits);
bool warm_copy_has(const struct fleet *fleet, const struct digest *image,
                   const struct guest_limits *limits);

/* Makes a copy of a seed; done is called once, on success or failure. */
must_check int warm_copy_take(struct sandbox *s, warm_copy_fn done, void *arg, struct err *err);
void warm_copy_on_seed_failed(struct fleet *fleet, const struct err *err);

void warm_copy_drop_image(struct fleet *fleet, const struct digest *image); /* of a template */
size_t warm_copy_count_image(const struct fleet *fleet, const struct digest *image);
void warm_copy_settle(struct fleet *fleet); /* what the broker has not is not there */
