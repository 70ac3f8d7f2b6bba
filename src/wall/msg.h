// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Messages between gateway and wall, by SOCK_SEQPACKET: a fixed head, and in some a text after it.
 * The wall trusts the gateway, which tells it what to enforce. The gateway does not trust the wall:
 * it checks sizes, ids and texts (wall/client.c).
 */
#include "base/id.h"
#include "net/match/address.h"
#include "net/match/hostname.h"

#define WALL_MAGIC     0x77616c31 /* "wal1" */
#define WALL_TEXT_MAX  ((size_t)64 * 1024)
#define WALL_SOCKETS   4 /* of a door, in the order of enum door_socket */
#define WALL_WHY_SIZE  80
#define WALL_GROUP_MAX 64 /* members of a group */

enum wall_op {
	/* gateway to wall; each is answered with its tag */
	WALL_OPEN = 1, /* a door: its policy as text, and fds: those that sockets names */
	WALL_POLICY,   /* of an open door; forbidden connections are cut before the answer */
	WALL_CLOSE,    /* cuts all; a closed one is fine */
	WALL_PING,     /* is it there? of no sandbox */
	WALL_GROUP,    /* its members as text (wall/group/group.h); the id is the group's */
	/* What a WALL_DIAL came to: its tag in dial, and the connected socket, or error and why in
	 * the text. */
	WALL_DIALLED,
	/* wall to gateway */
	/* error: 0 or a positive errno. If programs inside are to trust an issuer, the text is its
	 * certificate (PEM). */
	WALL_ANSWER = 16,
	WALL_DECISION,
	WALL_BYTES,  /* that passed since the last one */
	WALL_LEARNT, /* as WALL_DECISION: a policy that records saw something new */
	WALL_DIAL,   /* a sandbox wants to reach a member of its group */
};

struct wall_head {
	uint32_t magic, op;
	uint64_t tag;
	char id[ID_SIZE]; /* of the sandbox */
	uint32_t error;
	uint16_t sockets;     /* bits: which of the fds come along */
	uint16_t is_trusting; /* with a policy: programs inside get to trust the answer's issuer */
	uint64_t dial;
};

enum wall_verdict {
	WALL_DENIED,
	WALL_ALLOWED,
	WALL_FAILED, /* allowed, and then not reached */
	WALL_VERDICT_COUNT,
};

struct wall_decision {
	struct wall_head head;
	uint32_t verdict;
	uint32_t rule;     /* WALL_NO_RULE: none */
	uint32_t protocol; /* enum policy_protocol */
	uint16_t port;
	uint8_t is_dns;      /* a name was asked for */
	uint8_t is_recorded; /* allowed only because the policy records */
	uint64_t in_bytes, out_bytes, took_us;
	uint64_t n_left_out;          /* decisions before it that were over the rate */
	char name[HOSTNAME_SIZE + 1]; /* "" = none */
	char address[ADDRESS_SIZE];   /* that was dialled, by the wall if it dialled; "" = none */
	char why[WALL_WHY_SIZE];
};
#define WALL_NO_RULE UINT32_MAX

struct wall_dial { /* head: its tag is the wall's own */
	struct wall_head head;
	char member[ID_SIZE]; /* the sandbox that is meant */
	uint16_t port;
};

struct wall_bytes {
	struct wall_head head;
	uint64_t in_bytes, out_bytes; /* to and from the sandbox */
};
