// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The guests' kernel: a shared template named `kernel`, whose image holds the kernel of vms
 * (engine/vm/boot/kernel.h) and no root. It is built and replaced like any other template. The
 * broker is told which image it is, and checks itself that it has a kernel.
 */
#include <stdbool.h>

#define GUEST_KERNEL_NAME "kernel"

struct fleet;
struct template;

bool guest_kernel_is(const struct template *t); /* no sandbox can start from it */
bool guest_kernel_is_there(const struct fleet *fleet);
/* Called at the start, and when one was published. */
void guest_kernel_tell(struct fleet *fleet);
