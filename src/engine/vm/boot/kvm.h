// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What is known of the host's KVM. That /dev/kvm opens says little: there are hosts where no guest
 * boots by it, or none in a useful time. So the first guest that is started by it is the trial, and
 * what came of it is kept in the run directory, which goes with the host's start: a broker that
 * starts anew need not try again.
 */
#include "engine/engine.h"

void kvm_forbid(void);                    /* told to do without it */
void kvm_recall(struct guest_host *host); /* what an earlier broker has seen */
bool kvm_is_usable(void);                 /* it opens, and was not found broken */
/* It opens, and cannot run our kernel: vms are emulated from now on. */
void kvm_on_failed(struct guest_host *host);
void kvm_on_served(struct guest_host *host, uint64_t us); /* a guest by it, after so long */
enum engine_speed kvm_speed(void);
