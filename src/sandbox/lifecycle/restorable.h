// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox that outlives its node (`on_node_loss: "restore"`), on the node that runs it, and on
 * the one that takes it over. node/owned.h says which that is; build/shared/generations.c takes and
 * sends its generations.
 *
 *	created ──► first generation durable ──► the cluster has a row of it
 *	                                             │ its node is silent
 *	              stopped, with an origin ◄──────┘ another node has taken it
 *	                 │ the next call: the generation is brought here
 *	                 ▼
 *	              running
 *
 * Where the node may not run it (it has no right, or has not compared yet), it stands still: its
 * processes are frozen, and calls to it get ERR_FENCED. It goes on when the broker has thawed it.
 * Without a row nobody else can have it, so nothing of this holds before its first generation.
 */
#include "base/id.h"
#include "sandbox/model/sandbox.h"

struct snapshot;

/* For the table of parts. */
void restorable_adopt(struct sandbox *s);
void restorable_on_running(struct sandbox *s);
void restorable_cancel(struct sandbox *s); /* it ends */
void restorable_free(struct sandbox *s);

void restorable_look(struct sandbox *s); /* whether it is to stand still, or to go on */
/* Its files are to be brought first: resume_go_on() follows, or its callers are told. */
bool restorable_bring(struct sandbox *s);
void resume_go_on(struct sandbox *s); /* resume.c */
/* A step of its end: the cluster is told that it was deleted, before anybody else is. */
void restorable_disown(struct sandbox *s);

/* What was taken of it here goes; what is stored is another node's now. */
void restorable_drop_generations(struct sandbox *s);

/* fleet/restorable_rows.c: what of it the cluster's rows say. */
void restorables_open(struct fleet *fleet);

/* Who brings snapshots from the store. 0: it is here; 1: fn follows, from the loop. */
typedef int (*restorable_bring_fn)(const char *project_id, const char *snapshot_id,
                                   const char *source_id,
                                   void (*fn)(const struct err *err, void *arg), void *fn_arg,
                                   void *arg, struct err *err);
void restorables_bring_by(struct fleet *fleet, restorable_bring_fn fn, void *arg);

/* For generations. */
void restorables_each(struct fleet *fleet, void (*fn)(struct sandbox *s, void *arg), void *arg);
/* Nothing of it runs, and its files are here. */
bool restorable_is_at_rest(const struct sandbox *s);
/* Whether a generation can be taken now. */
bool restorable_can_take(const struct sandbox *s);
/* Whether its newest generation may still be told to the cluster. */
bool restorable_can_be_owned(const struct sandbox *s);
/* A generation that was taken here, and is neither the newest durable one nor that; or NULL. */
struct snapshot *restorable_other_generation(const struct sandbox *s, const char *but);
/* Another number: its files or its settings may be others. */
uint64_t restorable_stamp(const struct sandbox *s);
/* What else it is, as JSON, for free() behind overwriting. NULL: it is too long. */
char *restorable_record(const struct sandbox *s);
/* The cluster may have a row of it from here on. */
must_check int restorable_set_asked(struct sandbox *s, struct err *err);
struct restorable_generation {
	char id[ID_SIZE];
	uint64_t term, taken_us; /* wall clock */
	bool is_at_rest;
};
/* It is the newest durable one. */
void restorable_set_generation(struct sandbox *s, const struct restorable_generation *g);
const char *restorable_generation(const struct sandbox *s); /* "": none */
bool restorable_has_rested(const struct sandbox *s);        /* since that one was taken */
uint64_t restorable_term(const struct sandbox *s);
/* The rows have to be asked whose it is. */
void restorable_doubt(struct sandbox *s);
