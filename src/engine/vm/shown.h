// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The disks of snapshots that a machine is to look into (shown, of struct guest_spec), one clone of
 * each in its layer, LAYER/shownN, with which they go. They are clones because a kernel has to
 * write to a disk that was saved while it was in use before it can read it. It is the guest's
 * kernel that does: to the host a disk is bytes.
 */
#include "engine/guest/start_steps.h"

/* A step of a start. 1: they are being made, and guest_on_cloned() is called when they are there.
 */
must_check int shown_clone(struct start *s, struct err *err);
size_t shown_count(const struct guest_spec *spec);
