// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of shared templates have in common.
 *
 *	shared_template.c	compares this node with the cluster; names, lists, removals
 *	shared_send.c		sends a template that was made here to the others
 *	shared_fetch.c		fetches one from the others
 */
#include "sandbox/storage/shared_template.h"
#include "sandbox/storage/storage.h"

#include <uthash.h>

struct shared_state { /* why one that is here is not what all nodes have; gone when it is */
	char template_id[ID_SIZE];
	char replaces[ID_SIZE]; /* what had its name in the cluster when it was made, or "" */
	bool is_refused;        /* another one has the name: nothing is tried */
	uint64_t again_us;      /* steady: not before that */
	struct err why;         /* code ERR_NONE: it is on its way */
	UT_hash_handle hh;
};

struct shared_templates {
	struct fleet *fleet;
	struct shared_state *notes;
	struct shared_send *send; /* under way; one at a time */
	struct list fetches;
	struct list removals; /* not told to the others yet */
	bool is_removing;
	struct loop_timer *look;
	bool has_begun;
};

struct node *shared_node(const struct fleet *fleet);
struct shared_state *shared_state_of(struct shared_templates *s, const char *template_id);
void shared_state_drop(struct shared_templates *s, const char *template_id);
void shared_look_soon(struct shared_templates *s);

/* shared_send.c: is told by the note, and looks again when it has ended. */
void shared_send_begin(struct shared_templates *s, const struct template *t,
                       struct shared_state *note);
void shared_send_free(struct shared_templates *s);

/* shared_fetch.c */
void shared_fetches_close(struct shared_templates *s);
/* Bytes that have come, of one that is under way; -1: it is not. */
int64_t shared_fetched_bytes(const struct shared_templates *s, const char *template_id);
