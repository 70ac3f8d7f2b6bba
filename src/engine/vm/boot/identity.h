// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What must be the same for a saved machine to go on: the QEMU and its command line, which make its
 * devices; the agent, which the daemon must understand; and the processor, which its kernel has
 * seen. All of these are compared before a state is loaded; nothing is converted.
 */
#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>

struct identity {
	struct digest qemu;   /* the program, and with KVM the processor */
	struct digest cloche; /* agent, cloche-vmm and fittings */
	struct digest kernel; /* of a copy that is warm only: others keep theirs */
};

/* The part that is the same for all machines; blocks for some milliseconds. */
must_check int identity_read(const char *qemu, bool is_kvm, const int *own_fds, size_t n_own,
                             struct identity *ret, struct err *err);
/* Identifies a file by its size and times: a kernel that has no digest. */
must_check int identity_of_file(int fd, struct digest *ret);
