// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox's door: the sockets in its net namespace, its policy, and its open connections. The
 * wall knows the sandbox by the listener that a connection came from, never by anything that the
 * guest says.
 */
#include "base/list.h"
#include "net/match/host.h"
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
	uint32_t connections_max;  /* of one door, if its policy has no limit */
	size_t n_conns, conns_max; /* of all doors: each takes fds */
	struct door *by_id;
	struct group *groups;         /* group/group.h */
	struct group_member *members; /* of all groups, by the sandbox's id */
	struct conn *dials;           /* that wait for the gateway, by their tag (conn_member.c) */
	uint64_t last_dial;
	/* Sends a message to the gateway; if it fails, the message is lost. */
	int (*send)(const void *message, size_t len, void *arg);
	void *send_arg;
};

#define DOOR_H2_HOSTS 16
struct door_h2_host { /* a server that speaks HTTP/2 (proxy_version.c) */
	struct host host;
	uint16_t port;
	uint64_t until_us; /* 0: the place is free */
};

struct door {
	struct doors *all;
	char id[ID_SIZE];
	struct policy *policy;
	bool is_trusting;      /* programs inside trust its issuer */
	struct issuer *issuer; /* its own, made when it is first needed */
	struct door_socket_io {
		struct door *door;
		int fd;
		struct loop_io *io;
	} sockets[WALL_SOCKETS];
	struct list conns; /* struct conn */
	size_t n_conns;
	size_t n_wide_h2; /* connections of HTTP/2 that may hold much (h2.c) */
	struct door_h2_host h2_hosts[DOOR_H2_HOSTS];
	struct list questions; /* struct question */
	size_t n_questions;
	struct bucket dns_rate, record_rate, sign_rate, dial_rate;
	struct pace in_pace, out_pace;
	uint64_t in_bytes, out_bytes; /* not told yet */
	uint64_t n_left_out;          /* decisions not reported */
	struct learner *learner;      /* what was reported as learnt; NULL: nothing */
	UT_hash_handle hh;
};

/* Owns policy; takes the fds that it needs, -1 = none. Replaces a door of that id. */
must_check int doors_open(struct doors *all, const char *id, struct policy *policy,
                          int fds[WALL_SOCKETS], struct door **ret);
struct door *doors_find(struct doors *all, const char *id);
/* Owns policy. Cuts the connections that it forbids. */
void door_set_policy(struct door *door, struct policy *policy);
void doors_close(struct door *door); /* cuts all */
/* Counts bytes to and from the sandbox: they are reported, and taken from the door's pace. */
void door_count(struct door *door, uint64_t in_bytes, uint64_t out_bytes);
/* Reports the bytes since the last time. */
void door_tell_bytes(struct door *door);

/* The issuer that programs inside trust: the sandbox's own if the policy looks into TLS, else that
 * of refusals. NULL if the wall cannot terminate TLS. */
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
 * A connection was made. If the policy records and has not seen this target before, it is reported,
 * whatever the rate: the name, and the address if there is no name or a rule must name the address.
 */
void door_learn(struct door *door, const struct hostname *name, const struct address *address,
                enum judge_dial dial, uint16_t port);
/* The words for a denial: which range was closed, or that no rule allows it. */
const char *door_why(const struct judge_decision *d);
