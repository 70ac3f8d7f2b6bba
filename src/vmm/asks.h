// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Requests of the broker to a running cloche-vmm: one message over RUN/sandboxes/ID/vmm.sock
 * (SOCK_SEQPACKET), some with a descriptor, and one message back. The broker closes the connection.
 * That also undoes what an ask holds temporarily, such as a stopped machine; so a killed broker
 * undoes it too.
 */
#include "base/err.h"
#include "proto/port.h"

#include <assert.h>

enum vmm_ask_kind {
	/* Stop the machine, with a consistent disk, until the connection ends. With a descriptor,
	 * open for writing only: also write the state of its devices there. The network card is
	 * unplugged meanwhile. */
	VMM_ASK_SAVE = 1,
	VMM_ASK_PLUG = 16, /* the network card: its tap comes along, unless the machine has it */
	VMM_ASK_PULL,      /* and out again */
	VMM_ASK_USAGE,     /* what only the guest's own kernel counts */
	VMM_ASK_OFF,       /* write back and switch off: the end is the answer */
};

/* A card's two ends. They are the same in each sandbox, which has a net namespace of its own; the
 * network is one that nobody has (RFC 5737). */
/* clang-format off */
#define CARD_BUS      "net0"
#define CARD_MAC      "02:c1:0c:4e:00:02"
#define CARD_GUEST4   {192, 0, 2, 2}
#define CARD_GATEWAY4 {192, 0, 2, 1}
#define CARD_GUEST6   {0xfd, 0x00, 0xc1, 0x0c, 0x00, 0x4e, [15] = 2}
#define CARD_GATEWAY6 {0xfd, 0x00, 0xc1, 0x0c, 0x00, 0x4e, [15] = 1}
/* clang-format on */

struct vmm_ask {
	uint32_t kind;    /* of enum vmm_ask_kind */
	uint32_t has_ip6; /* PLUG: the host has it too */
};

struct vmm_answer {
	struct err err;          /* code ERR_NONE: it is done */
	struct port_usage usage; /* USAGE */
};
/* An older cloche-vmm may answer a newer broker, so these sizes must never change, and error codes
 * keep their numbers: new ones go to the end. */
static_assert(sizeof(struct vmm_ask) == 8, "an older cloche-vmm is asked by another size");
static_assert(sizeof(struct vmm_answer) == 816, "an older cloche-vmm answers by another size");
