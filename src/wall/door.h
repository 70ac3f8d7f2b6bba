// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox's door: the sockets inside its net namespace, what it may reach, and what is on its way
 * through. Who connects is known by the listener that the connection came from, and by nothing
 * that the guest says.
 */
#include "base/list.h"
#include "net/policy/judge.h"
#include "net/policy/learn.h"
#include "wall/msg.h"
#include "wall/transport/bucket.h"
#include "wall/transport/pace.h"
#include "wall/transport/resolver.h"
#include "wall/transport/secure.h"

#include <uthash.h>

struct doors { /* all, and what they share */
	struct loop *loop;
	struct resolver *resolver;
	struct secure *secure; /* NULL: TLS is not opened */
	struct range_site site;
	uint32_t connections_max;  /* of one door, where its policy says nothing */
	size_t n_conns, conns_max; /* of all doors: each takes fds */
	struct door *by_id;
	/* Tells the gateway; may fail, which loses the message. */
	int (*send)(const void *message, size_t len, void *arg);
	void *send_arg;
};

struct door {
	struct doors *all;
	char id[ID_SIZE];
	struct policy *policy;
	struct issuer *issuer; /* made when it is first needed */
	struct door_socket_io {
		struct door *door;
		int fd;
		struct loop_io *io;
	} sockets[WALL_SOCKETS];
	struct list conns; /* struct conn */
	size_t n_conns;
	struct list questions; /* struct question */
	size_t n_questions;
	struct bucket dns_rate, record_rate;
	struct pace in_pace, out_pace;
	uint64_t in_bytes, out_bytes; /* not told yet */
	uint64_t n_left_out;          /* decisions not told */
	struct learner *learner;      /* what was told as learnt; NULL: nothing */
	UT_hash_handle hh;
};

/* Owns policy; takes the fds that it needs, -1 where there is none. Replaces one of that id. */
must_check int doors_open(struct doors *all, const char *id, struct policy *policy,
                          int fds[WALL_SOCKETS], struct door **ret);
struct door *doors_find(struct doors *all, const char *id);
/* Owns policy. What it forbids is cut. */
void door_set_policy(struct door *door, struct policy *policy);
void doors_close(struct door *door); /* cuts all */
/* What has passed, to and from the sandbox: it is told, and spent of the door's pace. */
void door_count(struct door *door, uint64_t in_bytes, uint64_t out_bytes);
/* Tells what has passed since the last time. */
void door_tell_bytes(struct door *door);

/* Its issuer, or NULL where TLS cannot be opened. */
struct issuer *door_issuer(struct door *door);

struct door_record {
	enum wall_verdict verdict;
	size_t rule; /* or JUDGE_NO_RULE */
	const struct hostname *name;
	const struct address *address;
	uint16_t port;
	enum policy_protocol protocol;
	bool is_dns, is_recorded;
	const char *why; /* "" = the rule says it all */
	uint64_t in_bytes, out_bytes, took_us;
};
void door_record(struct door *door, const struct door_record *record);
/*
 * A connection was made. Where the policy records, what has not been seen under it is told,
 * whatever the rate: a name, or the address where there is none or a rule has to name it.
 */
void door_learn(struct door *door, const struct hostname *name, const struct address *address,
                enum judge_dial dial, uint16_t port);
/* The words for a denial: which range was closed, or that no rule allows it. */
const char *door_why(const struct judge_decision *d);
