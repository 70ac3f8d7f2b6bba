// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A round of collection, which its files share.
 *
 *	collect.c          the duty, and how a round ends
 *	collect_manifests.c   what is needed: rows, keys, manifests
 *	collect_removal.c  what is there, and the removal of what is not needed
 */
#include "base/id.h"
#include "member/collect/collect.h"
#include "member/member_private.h"
#include "object/object_collect.h"

#include <uthash.h>

#define COLLECT_SLOTS 2 /* jobs at a time: uploads and downloads have the other workers */

struct collect_object { /* an object that a row names; sorted by its bytes */
	struct digest digest;
	uint64_t generation;
	uint32_t kind, project;
	uint32_t is_left, zero; /* is_left: of a row that is no more */
};

struct collect_project {
	char id[ID_SIZE];
	uint32_t at; /* in the round's projects */
	struct object_keys keys;
	UT_hash_handle hh;
};

struct collect_removal {
	struct digest name;
	uint64_t bytes;
	bool is_manifest;
};

struct collect_slot {
	struct round *round; /* NULL: it is idle */
	size_t at;
	int fd; /* of a manifest */
};

struct round {
	struct collect *collect;
	uint64_t read_us; /* when the rows began to be read, by the wall's clock */
	uint64_t kept_us; /* when the duty was kept last, by the steady one */
	uint32_t n_compares;
	size_t n_open; /* calls and jobs under way */
	enum trouble trouble;
	char message[MESSAGE_SIZE];
	bool is_over; /* the duty is not this node's any more */

	struct collect_object *refs;
	size_t n_refs, room_refs;
	uint64_t bytes_of_refs;
	char *after; /* where the rows go on */
	struct collect_project **projects, *by_id;
	size_t n_projects, room_projects, next_key;
	size_t next_ref;
	struct object_filter *needed;
	struct collect_slot slots[COLLECT_SLOTS];

	int list_fd;
	bool lists_manifests;
	char at[STORE_AT_SIZE];
	struct collect_removal *victims;
	size_t n_victims, room_victims, next_victim, batch_end;
	uint64_t n_objects, bytes;           /* that are there */
	uint64_t n_waiting, waiting_bytes;   /* not needed, and too young */
	uint64_t n_unneeded, unneeded_bytes; /* and old enough */
	uint64_t n_removed, removed_bytes, n_swept;
};

struct collect {
	struct member *m;
	struct loop_timer *timer;
	uint64_t every_us;
	unsigned most_percent;
	struct round *round; /* NULL: none is under way */
	bool is_asking;
	json_t *figures, *untold; /* of the last round, whoever did it; or NULL */
};

/* collect.c */
/* The first one counts. It ends when nothing is under way any more. */
void round_fail(struct round *r, enum trouble trouble, const char *message);
/* Each answer begins with it: false: the round does not go on, and may be gone. */
must_check bool round_goes_on(struct round *r);
void round_end(struct round *r);
/* Node and secret stand first. arg of fn is the round. */
void round_ask(struct round *r, const char *sql, const char *const *more, size_t n_more,
               database_fn fn);
void round_do(struct round *r, const struct store_job *job, int fd, store_fn fn, void *arg);
/* If that is due, keeps the duty as soon as nothing is under way, then calls next, and returns
 * true. */
must_check bool round_keep_first(struct round *r, void (*next)(struct round *r));
/* Says what is about to be removed: an array of names. */
void round_mark(struct round *r, json_t *names, void (*next)(struct round *r));
void *round_grow(void *rows, size_t n, size_t *room, size_t size);
int round_scratch(struct round *r); /* an empty file, or < 0 and the round has failed */

/* collect_manifests.c */
void round_read_rows(struct round *r); /* then round_list() */
/* collect_removal.c */
void round_list(struct round *r); /* then round_end() */
