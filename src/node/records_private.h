// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What the files of records share.
 *
 *	records.c       asks for changes, and says what the database has not
 *	record_apply.c  one record of the database into this node's own tables
 *	record_send.c   a record that all nodes are to have
 *	shared_images.c  templates of all nodes
 *	sealed_records.c  what the database can neither read nor make
 *	unknown_key.c   requests with a key that nobody knows here yet
 */
#include "base/digest.h"
#include "base/list.h"
#include "node/node_private.h"

#include <uthash.h>

#define ASKED_SLOTS 1024
#define NUMBER_MAX  INT64_C(1000000000000000)

struct records {
	struct node *node;
	struct loop_timer *look, *ask;
	uint64_t applied;
	uint64_t fresh_us; /* when it had all changes last */
	bool is_whole;     /* since the start, all were had once */
	bool is_looking, is_asking;
	uint32_t n_compares;      /* of the word; another number: all is compared again */
	uint64_t epoch;           /* likewise */
	bool is_saying, has_said; /* what the database has not */
	bool has_default;
	struct shared *shared;
	struct shared_images *images;
	struct sealed_records *sealed;
	struct list waiters;
	size_t n_waiters;
	bool is_answered;     /* those that were woken last have their answer */
	uint64_t asked_us;    /* when changes were asked for last */
	uint64_t answered_us; /* what had changed by then is known here */
	struct {
		uint64_t print, us; /* of a digest; when it was known to be unknown */
	} unknown[ASKED_SLOTS];
};

/* records.c */
void records_begin_again(struct records *r); /* all is asked for anew */
void records_ask_changes(struct records *r);
bool records_is_held(const struct records *r); /* the database's answers can be had */
bool records_is_current(const struct records *r);
bool records_is_shared(const struct records *r, const char *kind, const char *id);
void records_note_shared(struct records *r, const char *kind, const char *id);

/* record_apply.c */
void record_apply(struct records *r, const json_t *one);

/* record_send.c */
json_t *record_of_key(const char *name, enum key_scope scope, uint64_t created_us,
                      uint64_t expires_us);
json_t *record_of_project(const char *name, uint64_t created_us);
void record_hash_hex(const unsigned char hash[32], char ret[DIGEST_HEX]);

/* shared_images.c */
struct shared_images *shared_images_new(void);
void shared_images_free(struct records *r);
must_check int shared_images_apply(struct records *r, const char *id, const char *project_id,
                                   json_t *record, bool is_gone, struct err *err);
void shared_images_drop_project(struct records *r, const char *project_id);
void shared_images_forget(struct records *r); /* all is heard anew */
void shared_images_look(struct records *r);   /* all is known again */

/* sealed_records.c */
struct sealed_records *sealed_records_new(struct node *n);
void sealed_records_free(struct sealed_records *s);
must_check int sealed_records_apply(struct records *r, const char *kind, const char *id,
                                    const char *project_id, const json_t *record, bool is_gone,
                                    struct err *err);
void sealed_records_forget_project(struct records *r, const char *project_id);
void sealed_records_begin_again(struct records *r);
void sealed_records_say(struct records *r); /* what the database has not */
bool sealed_records_look(struct records *r);
void sealed_records_want_key(struct records *r);

/* unknown_key.c */
void unknown_keys_init(struct records *r);
void unknown_keys_done(struct records *r);
void records_wake_askers(struct records *r, bool is_answered);
