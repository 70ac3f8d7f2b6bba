// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What is known about the host's KVM. It is not enough that /dev/kvm opens: on some hosts no guest
 * boots with it, or not in a useful time. So the first guest that uses it is a trial. The result is
 * kept in the run directory, which is empty after a reboot, so a restarted broker need not try
 * again.
 */
#include "engine/engine.h"

void kvm_forbid(void);                    /* set to work without it */
void kvm_recall(struct guest_host *host); /* what an earlier broker has seen */
bool kvm_is_usable(void);                 /* it opens, and was not found broken */
/* It opens but cannot run our kernel: vms are emulated from now on. */
void kvm_on_failed(struct guest_host *host);
void kvm_on_served(struct guest_host *host,
                   uint64_t us); /* a guest with KVM serves, after this time */
enum engine_speed kvm_speed(void);
