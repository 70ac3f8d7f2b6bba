// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the broker's files: its state, and a box for each guest. */
#include "base/list.h"
#include "broker/broker.h"
#include "broker/finals.h"
#include "broker/slots.h"
#include "broker/wire.h"

enum box_state { BOX_STARTING, BOX_RUNNING, BOX_KILLING };

struct waiter { /* a delete or stop that is not answered yet */
	struct list link;
	uint32_t op;
	uint64_t tag;
};

struct box {
	struct list link;
	struct broker *broker;
	const struct engine *engine;
	struct guest_host *host; /* the engine's */
	enum box_state state;
	bool has_slot;
	bool is_deleted; /* a kept layer is removed too */
	struct guest_spec spec;
	struct guest *guest; /* NULL once the engine has it back */
	uint64_t create_tag;
	struct guest_usage final; /* once its last process is dead */
	struct freeze *freeze;    /* that is not answered yet, or NULL */
	struct list waiters;      /* for its end; not empty while starting: kill it once it has */
};

struct broker {
	struct broker_config config;
	const struct engine *base;             /* the first: what all guests share is its */
	struct guest_host *hosts[ENGINES_MAX]; /* by row: what it was given by probe() */
	struct err no_engine[ENGINES_MAX];     /* by row: why this host has none; or ERR_NONE */
	struct wire *wire;
	loop_fn over;
	void *over_arg;
	bool is_gone; /* the gateway */
	bool is_over;
	struct loop_timer *last_words;
	struct finals finals;
	struct list boxes;
	struct list seals;        /* under way */
	struct list takes;        /* of images from other nodes, under way */
	struct list sealed_waits; /* files of snapshots that are hashed */
	struct list copies;       /* of volumes, under way */
	size_t n_boxes;
	bool is_freezing;          /* for a backup: no further request is read */
	struct loop_child *syncer; /* brings the layers to disk, for sync_tag; or NULL */
	uint64_t sync_tag;
	size_t in_flight, n_forks; /* slow requests, and how many of them are forks */
	struct slots slots;
};

/* box.c */
struct box *box_find(struct broker *b, const char *id);
struct box *box_new(struct broker *b); /* without a guest; the caller sets its state */
void box_free(struct box *box);        /* it has no waiters */
void box_wait(struct box *box, const struct msg_request *req); /* answers req at its end */
void box_kill(struct box *box);                                /* it is running */
void box_end(void *arg); /* nothing is left of it: answers its waiters, frees it */
void box_reply_init(struct msg_reply *reply, uint32_t op, uint64_t tag, const char *id);
void box_on_guest_started(struct guest *g, const struct err *err, void *arg);
void box_on_guest_ended(struct guest *g, int wait_status, void *arg);
void box_on_final(const char *id, const struct guest_usage *usage, void *arg); /* arg: broker */

/* freeze.c */
/* 0: it is frozen. 1: the answer comes later. */
must_check int freeze_begin(struct box *box, uint64_t tag, struct err *err);
void freeze_cancel(struct box *box); /* answers one under way with an error */
void freeze_free(struct box *box);   /* the same without an answer */

/* requests.c: a wire_ops.on_request, with the broker as arg */
void requests_on_request(const struct msg_request *req, ssize_t len, size_t n_fds, void *arg);

/* NULL with an error unless it exists and runs. */
struct box *requests_find_running(struct broker *b, const char *id, struct err *err);

/* doors.c: as the functions of requests.c */
int doors_do_open(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                  int *fds);
int doors_do_close(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds);
int doors_do_dial(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                  int *fds);

/* seals.c: likewise */
int seals_do_seal(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                  int *fds);
int seals_do_cancel(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int seals_do_images(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int seals_do_remove(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int seals_do_kernel(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
/* snapshots.c: likewise */
int snapshots_do_take(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds);
int snapshots_do_list(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds);
int snapshots_do_remove(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                        int *fds);
/* backups.c: likewise */
int backups_do_freeze(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds);
int backups_do_release(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                       int *fds);
/* volumes.c: likewise */
int volumes_do_make(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int volumes_do_copy(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int volumes_do_list(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int volumes_do_owner(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds);
int volumes_do_remove(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds);
void volumes_free(struct broker *b); /* the engine has left */
void seals_free(struct broker *b);   /* likewise */
/* exchange.c: likewise */
int exchange_do_share(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds);
int exchange_do_fetch(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds);
int exchange_do_take(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds);
int exchange_do_drop(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds);
int exchange_do_key(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
void exchange_free(struct broker *b); /* the engine has left */
/* sealed.c: likewise */
int sealed_do_open(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds);
int sealed_do_close(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds);
int sealed_do_drop(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds);
void sealed_free(struct broker *b); /* the engine has left */
/* sync.c: likewise */
int sync_do(struct broker *b, const struct msg_request *req, struct msg_reply *reply, int *fds);

/* broker.c */
void broker_look_again(struct broker *b); /* for engines that were missing: it costs a few stats */
const struct err *broker_lacks(struct broker *b, uint32_t engine); /* NULL: it is there */
void broker_set_engine(struct box *box, uint32_t engine);
/* A request whose reply comes later, and its reply. */
void broker_work_begin(struct broker *b);
void broker_work_end(struct broker *b);
void broker_set_freezing(struct broker *b, bool on);
