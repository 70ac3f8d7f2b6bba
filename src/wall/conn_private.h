// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What conn.c, conn_first_bytes.c and conn_member.c share. */
#include "net/packet/clienthello.h"
#include "wall/conn.h"
#include "wall/dns_tcp.h"
#include "wall/proxy.h"
#include "wall/signer.h"
#include "wall/transport/pump.h"
#include "wall/transport/reach.h"

struct conn {
	struct door *door;
	struct list link;
	int fd; /* the guest's; -1 once something below has it */
	struct loop_io *io;
	struct loop_timer *timer;
	uint64_t started_us;
	bool is_over;
	/* what is known */
	struct address dialled, resolved;
	uint16_t port;
	enum judge_name_state name_state;
	struct hostname name;
	enum policy_protocol protocol;
	enum judge_dial dial;     /* how it is led on */
	struct policy_target via; /* with DIAL_PROXY */
	bool is_resolved;
	bool is_made_up;                /* what it dialled belongs to nobody */
	struct judge_decision decision; /* the last */
	/* its first bytes */
	struct buf first;
	struct clienthello hello;
	struct clienthello_reader reader;
	bool is_tls_read;    /* the reader is in use */
	bool is_slow;        /* has sent nothing in time, and gets more time */
	const char *refusal; /* why it is denied, once that is sure; NULL: it is not */
	/* what carries it on, one at a time */
	struct reach *reach;
	struct pump *pump;
	struct proxy *proxy;
	struct dns_tcp *dns;
	struct signer *signer;
	uint64_t in_bytes, out_bytes;
	/* to a member of the group */
	char member[ID_SIZE]; /* "": it is none */
	uint64_t dial_tag;    /* while the gateway is asked; 0: it is not */
	UT_hash_handle hh_dial;
};

/* conn.c */
void conn_judge(struct conn *c);
void conn_reset(struct conn *c, enum wall_verdict verdict, const char *why);
/* is_tls: the wall terminates TLS, with a certificate for the name that the guest sent or the
 * address that it dialled. */
void conn_proxy(struct conn *c, bool is_tls);
struct judge_facts conn_facts(const struct conn *c);
void conn_pump(struct conn *c, int up_fd); /* owns up_fd */

/* conn_first_bytes.c */
void conn_peek(struct conn *c); /* waits for the first bytes; conn_judge() when they tell enough */
/* Whether this is a usual port of HTTP or TLS, or one that rules name for them. */
bool conn_guest_speaks_first(const struct conn *c);
void conn_on_silence(struct loop *loop, void *conn);

/* conn_member.c */
bool conn_begin_member(struct conn *c); /* whether it dialled a member; then it is carried on */
bool conn_member_is_allowed(const struct conn *c); /* both are still in one group */
void conn_leave_member(struct conn *c);
/* Counts bytes at the other end; they are those to and from this one. */
void conn_count_member(const struct conn *c, uint64_t in_bytes, uint64_t out_bytes);
