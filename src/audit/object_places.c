// SPDX-License-Identifier: Apache-2.0
#include "audit/object_places.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static struct audit_row row_of(const struct object_places *p, const struct object_place *pl)
{
	return (struct audit_row){.sink = p->sink,
	                          .chain = pl->chain,
	                          .seq = pl->seq,
	                          .upto = pl->upto,
	                          .sealed_us = pl->sealed_us,
	                          .begin_seq = pl->begin_seq,
	                          .begin_hash = pl->begin_hash};
}

int object_places_save(struct object_places *p, const struct object_place *pl)
{
	const struct audit_row row = row_of(p, pl);
	struct err err;
	int r = store_audit_put(p->rows, &row, &err);

	if (r < 0)
		log_error("audit.not_saved", "sink=s3 error='%s'", err.message);
	return r;
}

struct object_place *object_places_find(struct object_places *p,
                                        const struct event_chain_status *chain)
{
	char name[CHAIN_NAME_SIZE];
	struct object_place *pl;

	chain_name(name, chain->project_id, /* is_former= */ false, chain->is_audit);
	HASH_FIND_STR(p->all, name, pl);
	if (pl)
		return pl;
	pl = xnew0(struct object_place);
	pl->is_audit = chain->is_audit;
	memset(pl->begin_hash, '0', sizeof(pl->begin_hash) - 1);
	/* A chain that came later is sent from its first entry on, whatever is left of it. */
	if (p->is_first || !chain->is_cut) {
		pl->seq = pl->begin_seq = chain->anchor_seq;
		memcpy(pl->begin_hash, chain->anchor_hash, sizeof(pl->begin_hash));
	}
	(void)snprintf(pl->project_id, sizeof(pl->project_id), "%s", chain->project_id);
	(void)snprintf(pl->chain, sizeof(pl->chain), "%s", name);
	HASH_ADD_STR(p->all, chain, pl);
	return pl;
}

static void tell_loss(struct object_places *p, struct object_place *pl)
{
	pl->told_upto = pl->lost_upto;
	sink_tell_loss(p->status, p->events,
	               &(struct sink_loss){.project_id = pl->project_id,
	                                   .is_audit = pl->is_audit,
	                                   .after = pl->lost_after,
	                                   .upto = pl->lost_upto});
}

void object_places_lost(struct object_places *p, struct object_place *pl, uint64_t upto)
{
	const uint64_t known = MAX(pl->lost_upto, pl->seq);

	if (upto <= known)
		return;
	p->status->lost += upto - known;
	pl->lost_upto = upto;
	if (pl->is_lossy)
		return;
	pl->is_lossy = true;
	pl->lost_after = pl->seq;
	tell_loss(p, pl);
}

void object_places_sent_again(struct object_places *p, struct object_place *pl)
{
	if (pl->is_lossy && pl->lost_upto > pl->told_upto)
		tell_loss(p, pl);
	pl->is_lossy = false;
}

static int load_row(const struct audit_row *row, void *arg)
{
	struct object_places *p = arg;
	const size_t id_len = strcspn(row->chain, "/");
	struct object_place *pl = xnew0(struct object_place);

	*pl = (struct object_place){.seq = row->seq,
	                            .upto = row->upto,
	                            .sealed_us = row->sealed_us,
	                            .begin_seq = row->begin_seq,
	                            .is_audit = row->chain[id_len] != '\0'};
	(void)snprintf(pl->chain, sizeof(pl->chain), "%s", row->chain);
	(void)snprintf(pl->project_id, sizeof(pl->project_id), "%.*s", (int)id_len, row->chain);
	(void)snprintf(pl->begin_hash, sizeof(pl->begin_hash), "%s", row->begin_hash);
	HASH_ADD_STR(p->all, chain, pl);
	return 0;
}

static void forget(struct object_places *p, struct object_place *pl)
{
	HASH_DEL(p->all, pl);
	free(pl);
}

/* The sending begins with what there is now. */
static void begin_with(const struct event_chain_status *chain, void *arg)
{
	struct object_places *p = arg;

	(void)!object_places_save(p, object_places_find(p, chain));
}

/* Chains of projects that are gone, and have no entries any more. */
static void forget_gone(struct object_places *p)
{
	struct event_chain_status chain;
	struct object_place *pl = NULL, *next = NULL;

	HASH_ITER (hh, p->all, pl, next) {
		event_log_chain(p->events, pl->project_id, pl->is_audit, &chain);
		if (chain.head_seq > 0)
			continue;
		(void)!store_audit_remove(p->rows, p->sink, pl->chain, NULL);
		forget(p, pl);
	}
}

struct place_walk {
	const struct object_places *places;
	uint64_t waiting;
};

static void count_waiting(const struct event_chain_status *chain, void *arg)
{
	struct place_walk *count = arg;
	char name[CHAIN_NAME_SIZE];
	const struct object_place *pl;
	uint64_t seq;

	chain_name(name, chain->project_id, /* is_former= */ false, chain->is_audit);
	HASH_FIND_STR(count->places->all, name, pl);
	seq = MAX(pl ? pl->seq : 0, chain->anchor_seq);
	count->waiting += MIN(chain->head_seq - MIN(seq, chain->head_seq), chain->count);
}

uint64_t object_places_waiting(const struct object_places *p)
{
	struct place_walk count = {.places = p};

	event_log_each_chain(p->events, count_waiting, &count);
	return count.waiting;
}

int object_places_open(struct object_places *p, struct store *store, struct err *err)
{
	int r = store_audit_open(store, &p->rows, err);

	if (r == 0)
		r = store_audit_each(p->rows, p->sink, load_row, p, err);
	if (r < 0)
		return r;
	p->is_first = !p->all;
	forget_gone(p);
	if (p->is_first)
		event_log_each_chain(p->events, begin_with, p);
	p->is_first = false;
	return 0;
}

void object_places_close(struct object_places *p)
{
	struct object_place *pl = NULL, *next = NULL;

	HASH_ITER (hh, p->all, pl, next) {
		forget(p, pl);
	}
	store_audit_close(p->rows);
}
