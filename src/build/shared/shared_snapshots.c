// SPDX-License-Identifier: Apache-2.0
/*
 * A timer looks for work again and again. What has to be done does not depend on who asked for it:
 * rows of this node say what has to be sent, and notes say which removals the cluster has not heard
 * of yet. So if any process dies, the next gateway goes on.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "build/shared/shared_private.h"
#include "sandbox/snapshot/snapshot_shared.h"
#include "sandbox/storage/shared_template.h"

#include <string.h>

#define SOON_US  (5 * SECOND_US)   /* while something waits */
#define SEE_US   (60 * SECOND_US)  /* what has become of those that are durable */
#define KEEP_US  (600 * SECOND_US) /* a copy that nothing uses */
#define SEEN_MAX 500               /* of one question */

struct snapshot_waits {
	struct list link;
	char id[ID_SIZE], project_id[ID_SIZE];
	struct list waits;
};

struct copy {
	struct list link;
	char id[ID_SIZE], project_id[ID_SIZE];
	uint64_t until_us;
};

struct removal {
	struct list link;
	struct shared_snapshots *s; /* NULL: it has ended */
	void (*fn)(const struct err *err, void *arg);
	void *arg;
};

struct node *shared_snapshots_node(const struct shared_snapshots *s)
{
	struct node *n = fleet_config(s->owner->config.fleet)->node;

	return node_is_in(n) ? n : NULL;
}

void shared_snapshots_look_soon(struct shared_snapshots *s)
{
	loop_timer_set_in(s->look, 0);
}

/* Behind the last answer. */
static void free_late(struct shared_snapshots *s)
{
	if (!s->is_telling && !s->is_seeing)
		free(s);
}

static struct snapshot *find(const struct shared_snapshots *s, const char *project_id,
                             const char *id)
{
	return snapshot_find(s->owner->config.fleet, project_id, id);
}

/* Who waits. */

static void tell(struct snapshot_waits *a, const struct err *err)
{
	struct list waits = LIST_INIT(waits);

	list_remove(&a->link);
	list_for_each (&a->waits, struct shared_wait, w, link) {
		list_remove(&w->link);
		list_append(&waits, &w->link);
	}
	free(a);
	for (struct shared_wait *w; (w = list_first(&waits, struct shared_wait, link));) {
		list_remove(&w->link);
		w->fn(err, w->arg);
	}
}

/* One at a time: who is told may ask for another. */
static bool tell_next(struct shared_snapshots *s)
{
	list_for_each (&s->awaited, struct snapshot_waits, a, link) {
		const struct snapshot *sn = find(s, a->project_id, a->id);
		struct err err;

		if (sn && snapshot_is_durable(sn)) {
			tell(a, NULL);
			return true;
		}
		if (sn && snapshot_again_us(sn) == UINT64_MAX) {
			err = *snapshot_unsent_why(sn);
			tell(a, &err);
			return true;
		}
		if (!sn) {
			(void)err_set(&err, ERR_GONE, 0, "snapshot %s was removed", a->id);
			tell(a, &err);
			return true;
		}
		if (list_empty(&a->waits)) {
			list_remove(&a->link);
			free(a);
			return true;
		}
	}
	return false;
}

static struct snapshot_waits *await(struct shared_snapshots *s, const struct snapshot *sn)
{
	struct snapshot_waits *a;

	list_for_each (&s->awaited, struct snapshot_waits, other, link)
		if (strcmp(other->id, snapshot_id(sn)) == 0)
			return other;
	a = xnew0(struct snapshot_waits);
	(void)snprintf(a->id, sizeof(a->id), "%s", snapshot_id(sn));
	(void)snprintf(a->project_id, sizeof(a->project_id), "%s", snapshot_project_id(sn));
	list_init(&a->waits);
	list_append(&s->awaited, &a->link);
	return a;
}

int shared_snapshot_await(struct builds *bs, const struct shared_snapshot_id *ref,
                          const json_t *with, struct shared_wait *w, struct err *err)
{
	struct shared_snapshots *s = bs->shared;
	struct snapshot *sn = find(s, ref->project_id, ref->snapshot_id);
	auto_free char *text = with ? json_dumps(with, JSON_COMPACT) : NULL;
	int r;

	if (!sn || (ref->source_id && strcmp(ref->source_id, snapshot_source_id(sn)) != 0))
		return err_set(err, ERR_NOT_FOUND, 0, "there is no snapshot '%.64s'",
		               ref->snapshot_id);
	if (snapshot_is_durable(sn))
		return 0;
	if (!shared_snapshots_node(s))
		return err_set(err, ERR_UNSUPPORTED, 0, "this node is in no cluster");
	if (text && strlen(text) > SHARED_SNAPSHOT_WITH_MAX)
		return err_set(err, ERR_TOO_LARGE, 0,
		               "what goes along with a snapshot is too long");
	r = snapshot_want_sent(sn, with, err);
	if (r < 0)
		return r;
	list_init(&w->link);
	list_append(&await(s, sn)->waits, &w->link);
	shared_snapshots_look_soon(s);
	return 1;
}

/* What is removed. */

static void on_removed(const json_t *answer, const struct err *failure, void *arg)
{
	struct removal *r = arg;
	struct err err = {0};

	if (failure)
		err = *failure;
	else if (strcmp(node_result(answer), "ok") != 0)
		(void)node_refuse(&err, "this node has just rejoined the cluster");
	if (r->s) {
		list_remove(&r->link);
		r->fn(err.code ? &err : NULL, r->arg);
	}
	free(r);
}

void shared_snapshot_remove(struct builds *bs, const struct shared_snapshot_id *ref,
                            void (*fn)(const struct err *err, void *arg), void *arg)
{
	struct removal *r = xnew0(struct removal);

	*r = (struct removal){.s = bs->shared, .fn = fn, .arg = arg};
	list_append(&bs->shared->removals, &r->link);
	node_remove_snapshot(fleet_config(bs->config.fleet)->node, ref->project_id,
	                     ref->snapshot_id, on_removed, r);
}

static void tell_next_note(struct shared_snapshots *s);

static void on_note_told(const json_t *answer, const struct err *err, void *arg)
{
	struct shared_snapshots *s = arg;
	struct fleet *fleet;
	struct snapshot_removal *note;

	s->is_telling = false;
	if (!s->owner) {
		free_late(s);
		return;
	}
	fleet = s->owner->config.fleet;
	note = snapshot_first_removal(fleet);
	if (err || strcmp(node_result(answer), "ok") != 0 || !note)
		return; /* the next look */
	snapshot_removal_told(fleet, note);
	tell_next_note(s);
}

static void tell_next_note(struct shared_snapshots *s)
{
	const struct snapshot_removal *note = snapshot_first_removal(s->owner->config.fleet);

	if (!note || s->is_telling || node_check(shared_snapshots_node(s), NULL) < 0)
		return;
	s->is_telling = true;
	node_remove_snapshot(shared_snapshots_node(s), note->project_id, note->id, on_note_told, s);
}

/* Asks about those that are durable: another node may have removed one, and a database that was set
 * back may not know one. */

struct seen_question {
	json_t *ids;
	size_t skip;
};

static void add_durable(struct snapshot *sn, void *arg)
{
	struct seen_question *see = arg;

	if (!snapshot_is_durable(sn))
		return;
	if (see->skip > 0)
		see->skip--;
	else if (json_array_size(see->ids) < SEEN_MAX)
		(void)json_array_append_new(see->ids, json_string(snapshot_id(sn)));
}

static bool names(const json_t *ids, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach(ids, i, one)
	{
		if (json_is_string(one) && strcmp(json_string_value(one), id) == 0)
			return true;
	}
	return false;
}

struct seen_answer {
	const json_t *gone, *missing;
	struct snapshot *to_drop;
};

static void look_at_fate(struct snapshot *sn, void *arg)
{
	struct seen_answer *fates = arg;
	struct err err;

	if (!snapshot_is_durable(sn))
		return;
	if (names(fates->gone, snapshot_id(sn)) &&
	    !(snapshot_is_automatic(sn) && snapshot_is_used(sn)))
		fates->to_drop = sn;
	else if (names(fates->missing, snapshot_id(sn)) && !snapshot_is_fetched(sn) &&
	         snapshot_set_durable(sn, false, &err) < 0)
		log_warn("snapshot.not_saved", "error='%s'", err.message);
}

/* Of a pass that went on to its end. */
static void note_pass(struct shared_snapshots *s)
{
	if (!s->has_pass || s->pass != node_n_compares(shared_snapshots_node(s))) {
		s->has_pass = false;
		return;
	}
	s->seen += SEEN_MAX;
	if (s->is_more) {
		s->see_us = 0;
		return;
	}
	s->passed = s->pass;
	s->has_passed = true;
	s->has_pass = false;
}

static void on_seen(const json_t *answer, const struct err *err, void *arg)
{
	struct shared_snapshots *s = arg;
	struct seen_answer fates = {.gone = json_object_get(answer, "gone"),
	                            .missing = json_object_get(answer, "missing")};

	s->is_seeing = false;
	if (!s->owner) {
		free_late(s);
		return;
	}
	if (err || !json_is_array(fates.gone) || !json_is_array(fates.missing))
		s->has_pass = false;
	for (bool is_more = !err; is_more; is_more = fates.to_drop != NULL) {
		fates.to_drop = NULL;
		snapshot_each(s->owner->config.fleet, look_at_fate, &fates);
		if (fates.to_drop) {
			snapshot_drop(fates.to_drop);
			s->has_pass = false; /* the others stand elsewhere now */
		}
	}
	note_pass(s);
	shared_snapshots_look_soon(s);
}

static void see(struct shared_snapshots *s, uint64_t now_us)
{
	struct node *n = shared_snapshots_node(s);
	struct seen_question seeing = {0};
	auto_json json_t *ids = json_array();
	const bool is_news = !s->has_passed || s->passed != node_n_compares(n);

	if (s->is_seeing || (s->see_us > now_us && !is_news) || node_check(n, NULL) < 0)
		return;
	if (!s->has_pass || s->pass != node_n_compares(n))
		s->seen = 0;
	s->has_pass = true;
	s->pass = node_n_compares(n);
	seeing = (struct seen_question){.ids = ids, .skip = s->seen};
	snapshot_each(s->owner->config.fleet, add_durable, &seeing);
	s->see_us = now_us + SEE_US;
	s->is_more = json_array_size(ids) == SEEN_MAX;
	if (json_array_size(ids) == 0) {
		note_pass(s);
		return;
	}
	s->is_seeing = true;
	node_seen_snapshots(shared_snapshots_node(s), ids, on_seen, s);
}

/* Copies. */

void shared_snapshots_keep_a_while(struct shared_snapshots *s, const struct snapshot *sn)
{
	struct copy *c = xnew0(struct copy);

	(void)snprintf(c->id, sizeof(c->id), "%s", snapshot_id(sn));
	(void)snprintf(c->project_id, sizeof(c->project_id), "%s", snapshot_project_id(sn));
	c->until_us = clock_steady_us() + KEEP_US;
	list_append(&s->copies, &c->link);
}

static void drop_old_copies(struct shared_snapshots *s, uint64_t now_us)
{
	list_for_each (&s->copies, struct copy, c, link) {
		struct snapshot *sn;

		if (c->until_us > now_us)
			continue;
		sn = find(s, c->project_id, c->id);
		list_remove(&c->link);
		free(c);
		if (sn && snapshot_is_fetched(sn) && !snapshot_is_used(sn))
			snapshot_drop(sn); /* one that is used goes with its last user */
	}
}

/* The look. */

struct survey {
	struct snapshot *to_send;
	bool is_waiting;
	uint64_t now_us;
};

static void look_at(struct snapshot *sn, void *arg)
{
	struct survey *v = arg;

	if (!snapshot_is_unsent(sn) || snapshot_again_us(sn) == UINT64_MAX)
		return;
	v->is_waiting = true;
	if (snapshot_again_us(sn) <= v->now_us &&
	    (!v->to_send || (snapshot_is_wanted(sn) && !snapshot_is_wanted(v->to_send))))
		v->to_send = sn;
}

/* All that this node has is in the rows: once a minute, as a node that says it late hinders nothing
 * but a collection. */
static bool tell_all(struct shared_snapshots *s, const struct survey *v)
{
	struct node *n = shared_snapshots_node(s);

	if (v->is_waiting || s->send || !s->has_passed || s->passed != node_n_compares(n) ||
	    !shared_templates_are_told(s->owner->config.fleet) || node_check(n, NULL) < 0)
		return false;
	if (s->told != s->passed || s->told_us + SEE_US <= v->now_us)
		node_tell_objects(n, s->passed);
	else
		return true;
	s->told = s->passed;
	s->told_us = v->now_us;
	return true;
}

static void on_look(struct loop *loop, void *arg)
{
	struct shared_snapshots *s = arg;
	struct survey v = {.now_us = clock_steady_us()};

	(void)loop;
	if (!s->has_begun)
		return;
	if (!shared_snapshots_node(s)) {
		if (fleet_config(s->owner->config.fleet)->node)
			loop_timer_set_in(s->look, SOON_US); /* it may join yet */
		return;
	}
	while (tell_next(s))
		;
	drop_old_copies(s, v.now_us);
	tell_next_note(s);
	see(s, v.now_us);
	snapshot_each(s->owner->config.fleet, look_at, &v);
	if (v.to_send && !s->send && node_check(shared_snapshots_node(s), NULL) == 0 &&
	    node_knows_images(shared_snapshots_node(s)))
		snapshot_send_begin(s, v.to_send);
	loop_timer_set_in(s->look, !tell_all(s, &v) || v.is_waiting ||
	                                           snapshot_first_removal(s->owner->config.fleet)
	                                   ? SOON_US
	                                   : SEE_US);
}

static void on_changed(void *arg)
{
	shared_snapshots_look_soon(arg);
}

void shared_snapshots_begin(struct builds *bs)
{
	bs->shared->has_begun = true;
	snapshots_follow(bs->config.fleet, on_changed, bs->shared);
	shared_snapshots_look_soon(bs->shared);
}

void shared_snapshots_open(struct builds *bs)
{
	struct shared_snapshots *s = xnew0(struct shared_snapshots);

	s->owner = bs;
	list_init(&s->fetches);
	list_init(&s->awaited);
	list_init(&s->copies);
	list_init(&s->removals);
	s->look = loop_timer_new(bs->config.loop, on_look, s);
	bs->shared = s;
}

void shared_snapshots_close(struct builds *bs)
{
	struct shared_snapshots *s = take_ptr(bs->shared);

	snapshots_follow(bs->config.fleet, NULL, NULL);
	snapshot_send_close(s);
	snapshot_fetches_close(s);
	list_for_each (&s->awaited, struct snapshot_waits, a, link) {
		list_for_each (&a->waits, struct shared_wait, w, link)
			list_remove(&w->link);
		list_remove(&a->link);
		free(a);
	}
	list_for_each (&s->copies, struct copy, c, link) {
		list_remove(&c->link);
		free(c);
	}
	list_for_each (&s->removals, struct removal, r, link) {
		list_remove(&r->link);
		r->s = NULL; /* the answer frees it */
	}
	loop_timer_free(take_ptr(s->look));
	s->owner = NULL;
	free_late(s);
}
