// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The guests' kernel: a shared template of the name `kernel`, whose image holds what vms start
 * (engine/vm/boot/kernel.h) and no root. It is built and replaced as any other template is; the
 * broker is told which image it is, and looks for itself whether there is a kernel in it.
 */
#include <stdbool.h>

#define GUEST_KERNEL_NAME "kernel"

struct fleet;
struct template;

bool guest_kernel_is(const struct template *t); /* no sandbox can start from it */
/* At the start, and when one was published. */
void guest_kernel_tell(struct fleet *fleet);
