// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of the member share: struct member, and the calls between them.
 *
 *	member.c         wiring: the two connections, the gateway, the state that is told
 *	beats.c          the connection for beats: hello, epoch, join, beat
 *	node_watch.c       the beats of other nodes, and what follows when one is silent
 *	rewind.c         whether the database has lost something
 *	follow_up.c      what else a beat's answer says that there is to do
 *	own_certificate.c  what this node shows to its peers, renewed in time
 *	renewals.c       the certificates of others, where the authority's key is
 *	member_status.c  all of it as JSON
 *	heard_nodes.c    the nodes as their beats tell of them, for the gateway
 */
#include "cluster/watch.h"
#include "member/collect/collect.h"
#include "member/database/database.h"
#include "member/directory.h"
#include "member/gateway_calls.h"
#include "member/gateway_link.h"
#include "member/member.h"
#include "member/object_calls.h"
#include "member/papers/node_certificate.h"
#include "member/peers/peers.h"

#define WATCHES      3
#define MESSAGE_SIZE 300 /* of what is wrong */

struct watched {
	struct watch watch;
	uint64_t claimed_epoch; /* that there is nothing more to claim of */
};

struct own_certificate {
	char *key, *certificate; /* NULL: none */
	struct peer_tls *tls;    /* of these */
	struct certificate_dates term;
	char *next_key, *request;   /* of the one that is to follow; NULL: it is not wanted yet */
	char *text;                 /* that it is asked for with, and of when that is */
	uint64_t text_s, look_us;   /* it is not asked for before look_us */
	enum trouble trouble, told; /* why it is not there */
	char why[200];
	uint32_t n_renewed; /* since this member began */
	bool is_asking;
};

struct member {
	struct member_config config;
	struct own_certificate own;
	struct database *beats, *work;
	struct fence fence;
	struct gateway_calls calls;
	struct object_calls objects;
	struct collect *collect;
	uint64_t change; /* the newest that the database knows of */
	json_t *load;    /* how full this node is, as its gateway says; or NULL */
	json_t *sample;  /* how full some others are, of the last beat; or NULL */
	uint32_t n_wanted, n_compares, n_rewinds, n_takeovers;
	uint64_t rewound_s; /* when that was noticed last; 0: never */
	struct fence_rules rules;
	struct loop_timer *beat, *fence_timer;
	struct watched watches[WATCHES];
	char server[64];
	char node_text[16];
	enum fence_state state;
	uint64_t state_since_us;
	enum trouble trouble;
	char message[MESSAGE_SIZE];
	enum trouble told_trouble;
	uint64_t answered_us, round_trip_us, sent_us;
	int64_t skew_us;
	struct gateway_link *link; /* NULL: there is no gateway */
	struct peers *peers;       /* NULL: it has no certificate */
	struct directory directory;
	uint64_t directory_asked, directory_us;
	json_t *heard;           /* rows of the directory, for people; NULL: it was not read yet */
	json_t *heard_problem;   /* of all of them; or NULL */
	uint64_t heard_us;       /* wall clock, of when they were read */
	uint64_t heard_asked_us; /* when somebody has asked for them last; 0: never */
	bool has_taken_over;     /* a node, since the directory was read */
	bool is_signing, is_renewing;
	uint64_t renewals_us;           /* when it looks for them again */
	bool is_count_due, is_counting; /* of the writes that the database knows */
};

/* member.c */
const char *member_state_name(enum fence_state state);
void member_look(struct member *m); /* at the clock; tells if the state is another one */
void member_tell_gateway(const struct member *m);
void member_set_trouble(struct member *m, enum trouble trouble, const char *message);
/* Node and secret stand first in each call but hello. */
must_check int member_call(struct member *m, struct database *db, const char *sql,
                           const char *const *more, size_t n_more, database_fn fn);
void member_on_work_done(const struct database_answer *answer, void *arg); /* logs a failure */

/* beats.c */
extern const struct database_ops beats_ops;
void beats_on_timer(struct loop *loop, void *arg);

/* node_watch.c */
void node_watch_saw(struct member *m, const PGresult *rows, uint64_t received_us);
json_t *node_watch_status(const struct member *m);

/* rewind.c */
void rewind_look(struct member *m, const char *server); /* an answer of this server has come */
void rewind_on_write(void *arg); /* the database counts fewer writes than before */

/* own_certificate.c */
void own_certificate_open(struct member *m);
void own_certificate_look(struct member *m);
/* What is wrong with it, and the sentence. */
enum trouble own_certificate_problem(const struct member *m, char ret[MESSAGE_SIZE]);

/* renewals.c */
void renewals_look(struct member *m);

/* member_status.c: [{code, message, hint}], what keeps it from its right first. */
json_t *member_problems(const struct member *m);

/* heard_nodes.c */
void heard_nodes_set(struct member *m, const json_t *directory); /* it was read, and is right */
void heard_nodes_take(struct member *m, uint32_t seq, const json_t *call); /* of the gateway */
/* Whether the directory is to be read again for those who look, or may look soon. */
bool heard_nodes_are_due(const struct member *m);

/* follow_up.c */
void follow_up(struct member *m, const PGresult *rows);
