// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The chains of the event log, in memory: one for each project, and one for entries of no project.
 * A chain numbers its entries by itself and each has the hash of the one before in its chain, so
 * what one project does moves no number that another sees. All entries also have a place in one
 * order, which only views of the whole host tell.
 *
 * A chain is changed in two steps: chain_move() works on a copy, and chains_settle() takes the
 * copies over once they are written, or drops them.
 *
 * Entries from before there were chains of projects are in the former chain
 * (store/tables/events.h).
 */
#include "store/tables/events.h"

#include <uthash.h>

struct chain {
	struct event_chain_row row, next; /* as it is written, as it is to be */
	bool is_moving;
	bool is_forgettable; /* at a start: nobody will ever ask for it */
	uint64_t skipped_to; /* the next number is behind this one */
	uint64_t first_us;   /* the time of its oldest entry; 0 = none */
	uint64_t age_us;     /* how old its entries may get; 0 = as the limits say */
	UT_hash_handle hh;
};

struct chain_age { /* that was set for a project */
	char project_id[ID_SIZE];
	uint64_t age_us;
	UT_hash_handle hh;
};

struct chains {
	struct store_events *rows;
	char boot_id[40];
	struct chain *all; /* by project_id */
	struct chain_age *ages;
	size_t n_kept; /* that have entries */
	struct event_chain_row former;
	uint64_t former_first_us;
	uint64_t count, bytes;  /* of all, the former included */
	uint64_t place;         /* of the newest entry, or behind it after a restart */
	uint64_t next_place;    /* while chains are moving */
	uint64_t removed_place; /* the highest of those that were removed */
};

must_check int chains_load(struct chains *chains, struct store_events *rows, const char *boot_id,
                           struct err *err);
void chains_done(struct chains *chains);
const struct chain *chains_find(const struct chains *chains, const char *project_id); /* or NULL */
/* The project's chain, to which entries are to be added; made if there is none. Its next is a copy
 * of its row until chains_settle(). *ret_is_new: it was not moving before. */
must_check int chain_move(struct chains *chains, const char *project_id, struct chain **ret,
                          bool *ret_is_new, struct err *err);
void chains_settle(struct chains *chains, struct chain *const *moved, size_t n, bool is_written);
/* How old the entries of a project's chains may get; 0: as old as those of all. */
void chains_set_age(struct chains *chains, const char *project_id, uint64_t age_us);
/* Takes over what is left of a chain after entries were removed from its beginning. */
void chain_shorten(struct chains *chains, struct chain *chain, const struct event_chain_row *row,
                   uint64_t first_us);
void chains_shorten_former(struct chains *chains, const struct event_chain_row *row,
                           uint64_t first_us);
