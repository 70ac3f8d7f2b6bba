// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the broker asks of a running cloche-vmm: one message over RUN/sandboxes/ID/vmm.sock
 * (SOCK_SEQPACKET), with a descriptor where the ask has one, and one message back. The connection
 * stays until the broker ends it; what lasts no longer than the ask's purpose is undone then, also
 * by the end of a broker that was killed.
 */
#include "base/err.h"

enum vmm_ask_kind {
	VMM_ASK_PING = 1, /* answers, and does nothing */
};

struct vmm_ask {
	uint32_t kind; /* of enum vmm_ask_kind */
	uint32_t reserved;
};

struct vmm_answer {
	struct err err; /* code ERR_NONE: it is done */
};
