// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The first root of a guest's kernel: the agent as /init and the kernel's modules, in the order in
 * which the agent loads them. It is made from the daemon's own agent each time, so the agent always
 * has the host's version.
 */
#include "base/err.h"

/*
 * kernel_fd: a directory that holds modules/NN-NAME.ko. agent_fd: the
 * agent's binary. On success *ret_fd is a sealed memfd.
 */
must_check int initrd_make(int kernel_fd, int agent_fd, int *ret_fd, struct err *err);
