// SPDX-License-Identifier: Apache-2.0
#include "event/chains.h"

#include "base/auto.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

#define POWER_LOSS (UINT64_C(1) << 20) /* more entries than SQLite's WAL can lose */

/* Numbers behind those that may have been seen and then lost with the power. */
static uint64_t behind(const struct chains *chains, const char *boot_id, uint64_t number)
{
	return number > 0 && strcmp(boot_id, chains->boot_id) != 0 ? number + POWER_LOSS : number;
}

/* Looks where the entries end: they and the row are written together, unless somebody changed one.
 */
static int look_at_ends(const struct chains *chains, struct chain *c, struct err *err)
{
	struct event_chain_row *row = &c->row;
	uint64_t last_seq;
	int r = store_events_ends(chains->rows, row->project_id, row->anchor_seq, &last_seq,
	                          &c->first_us, err);

	if (r < 0)
		return r;
	if (last_seq != row->head_seq && row->count != 0)
		log_error("events.broken", "project='%s' last=%" PRIu64 " head=%" PRIu64,
		          row->project_id, last_seq, row->head_seq);
	c->skipped_to = behind(chains, row->boot_id, MAX(last_seq, row->head_seq));
	(void)snprintf(row->boot_id, sizeof(row->boot_id), "%s", chains->boot_id);
	return 0;
}

static uint64_t age_of(const struct chains *chains, const char *name)
{
	struct chain_age *age;

	HASH_FIND(hh, chains->ages, name, strcspn(name, "/"), age);
	return age ? age->age_us : 0;
}

void chains_set_age(struct chains *chains, const char *project_id, uint64_t age_us)
{
	struct chain_age *age;

	HASH_FIND_STR(chains->ages, project_id, age);
	if (age) {
		HASH_DEL(chains->ages, age);
		free(age);
	}
	if (age_us > 0) {
		age = xnew0(struct chain_age);
		(void)snprintf(age->project_id, sizeof(age->project_id), "%s", project_id);
		age->age_us = age_us;
		HASH_ADD_STR(chains->ages, project_id, age);
	}
	for (struct chain *c = chains->all; c; c = c->hh.next)
		c->age_us = age_of(chains, c->row.project_id);
}

static struct chain *add_chain(struct chains *chains, const struct event_chain_row *row)
{
	struct chain *c = xnew0(struct chain);

	c->row = *row;
	c->age_us = age_of(chains, row->project_id);
	HASH_ADD_STR(chains->all, row.project_id, c);
	chains->n_kept += row->count > 0;
	chains->count += row->count;
	chains->bytes += row->bytes;
	chains->removed_place = MAX(chains->removed_place, row->anchor_place);
	return c;
}

static int load_row(const struct event_chain_row *row, bool is_gone, void *arg)
{
	struct chains *chains = arg;
	struct chain *c = add_chain(chains, row);

	c->is_forgettable = is_gone && row->count == 0;
	chains->place = MAX(chains->place, behind(chains, row->boot_id, row->head_place));
	return 0;
}

/* A project that is gone and has no entries any more is forgotten, but for the newest place of all.
 */
static int forget_gone(struct chains *chains, struct err *err)
{
	struct chain *c, *next;
	uint64_t newest = 0;
	int r = 0;

	for (c = chains->all; c; c = c->hh.next)
		newest = MAX(newest, c->row.head_place);
	HASH_ITER (hh, chains->all, c, next) {
		if (!c->is_forgettable || c->row.head_place == newest || r < 0)
			continue;
		r = store_events_forget(chains->rows, c->row.project_id, err);
		HASH_DEL(chains->all, c);
		free(c);
	}
	return r;
}

static int find_former_first(const struct event_row *row, void *arg)
{
	struct chains *chains = arg;

	chains->former_first_us = row->at_us;
	return 1;
}

int chains_load(struct chains *chains, struct store_events *rows, const char *boot_id,
                struct err *err)
{
	int r;

	*chains = (struct chains){.rows = rows};
	(void)snprintf(chains->boot_id, sizeof(chains->boot_id), "%s", boot_id);
	r = store_events_load_former(rows, &chains->former, err);
	if (r == 0)
		r = store_events_load(rows, load_row, chains, err);
	if (r == 0)
		r = forget_gone(chains, err);
	for (struct chain *c = chains->all; r == 0 && c; c = c->hh.next)
		r = look_at_ends(chains, c, err);
	if (r == 0 && chains->former.count > 0)
		r = store_events_each(
			rows, &(struct event_range){.after = chains->former.anchor_seq, .n = 1},
			find_former_first, chains, err);
	chains->count += chains->former.count;
	chains->bytes += chains->former.bytes;
	chains->removed_place = MAX(chains->removed_place, chains->former.anchor_seq);
	chains->next_place = chains->place;
	return r;
}

void chains_done(struct chains *chains)
{
	struct chain *c, *next;
	struct chain_age *age, *next_age;

	HASH_ITER (hh, chains->all, c, next) {
		HASH_DEL(chains->all, c);
		free(c);
	}
	HASH_ITER (hh, chains->ages, age, next_age) {
		HASH_DEL(chains->ages, age);
		free(age);
	}
}

const struct chain *chains_find(const struct chains *chains, const char *project_id)
{
	struct chain *c;

	HASH_FIND_STR(chains->all, project_id, c);
	return c;
}

static int make_chain(struct chains *chains, const char *project_id, struct chain **ret,
                      struct err *err)
{
	struct event_chain_row row = {0};
	struct chain *c;
	int r;

	(void)snprintf(row.project_id, sizeof(row.project_id), "%s", project_id);
	c = add_chain(chains, &row);
	r = look_at_ends(chains, c, err);
	if (r < 0) {
		HASH_DEL(chains->all, c);
		free(c);
		return r;
	}
	*ret = c;
	return 0;
}

int chain_move(struct chains *chains, const char *project_id, struct chain **ret, bool *ret_is_new,
               struct err *err)
{
	struct chain *c = unconst(chains_find(chains, project_id));
	int r = c ? 0 : make_chain(chains, project_id, &c, err);

	if (r < 0)
		return r;
	*ret_is_new = !c->is_moving;
	if (!c->is_moving) {
		c->is_moving = true;
		c->next = c->row;
		c->next.head_seq = MAX(c->next.head_seq, c->skipped_to);
	}
	*ret = c;
	return 0;
}

static void take_over(struct chains *chains, struct chain *c, const struct event_chain_row *row)
{
	chains->n_kept = chains->n_kept + (row->count > 0) - (c->row.count > 0);
	chains->count = chains->count + row->count - c->row.count;
	chains->bytes = chains->bytes + row->bytes - c->row.bytes;
	c->row = *row;
}

void chains_settle(struct chains *chains, struct chain *const *moved, size_t n, bool is_written)
{
	for (size_t i = 0; i < n; i++) {
		if (is_written)
			take_over(chains, moved[i], &moved[i]->next);
		moved[i]->is_moving = false;
	}
	if (is_written)
		chains->place = chains->next_place;
	chains->next_place = chains->place;
}

void chain_shorten(struct chains *chains, struct chain *chain, const struct event_chain_row *row,
                   uint64_t first_us)
{
	take_over(chains, chain, row);
	chain->first_us = first_us;
	chains->removed_place = MAX(chains->removed_place, row->anchor_place);
}

void chains_shorten_former(struct chains *chains, const struct event_chain_row *row,
                           uint64_t first_us)
{
	chains->count = chains->count + row->count - chains->former.count;
	chains->bytes = chains->bytes + row->bytes - chains->former.bytes;
	chains->former = *row;
	chains->former_first_us = first_us;
	chains->removed_place = MAX(chains->removed_place, row->anchor_seq);
}
