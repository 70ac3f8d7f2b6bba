// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The vm's guest_kind, and the state that a vm has for it. */
#include "engine/guest/guest_kind.h"

struct vm_own {
	struct ask *off;   /* it is switching itself off, or NULL */
	int tap_fd;        /* of its card, until the machine has it */
	bool has_ip6;      /* its door */
	bool is_unplugged; /* its door was opened while it was stopped: it has no card yet */
	uint64_t begun_us; /* its start */
	struct machine_save *save; /* that is under way, or NULL */
};

static inline struct vm_own *vm_own(const struct guest *g)
{
	return g->own;
}

extern const struct guest_kind vm_kind;
extern const struct engine vm_engine; /* vm.c */
