// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The disks of snapshots that a machine is shown (shown of struct guest_spec): a clone of each,
 * LAYER/shownN, removed with the layer. They are clones because a kernel must write to a disk that
 * was saved in use before it can read it. Only the guest's kernel does that; the host never mounts
 * the disk.
 */
#include "engine/guest/start_steps.h"

/* A step of a start. 1: they are being made, and guest_on_cloned() is called when they are
 * there. */
must_check int shown_clone(struct start *s, struct err *err);
size_t shown_count(const struct guest_spec *spec);
