// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What a machine that was saved can only go on with. Its devices are those of one QEMU with one
 * command line; its agent is one that this host's daemon understands; its kernel has seen one
 * processor. All of these are compared before a state is loaded, and nothing is ever converted.
 */
#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>

struct identity {
	struct digest qemu;   /* the program, and with KVM the processor */
	struct digest cloche; /* agent, cloche-vmm and fittings */
	struct digest kernel; /* of a copy that is warm only: others keep theirs */
};

/* What is the same for all machines; blocks for some milliseconds. */
must_check int identity_read(const char *qemu, bool is_kvm, const int *own_fds, size_t n_own,
                             struct identity *ret, struct err *err);
/* Of a file, by its size and times where fd is a kernel that has no digest. */
must_check int identity_of_file(int fd, struct digest *ret);
