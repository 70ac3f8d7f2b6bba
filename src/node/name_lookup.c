// SPDX-License-Identifier: Apache-2.0
/*
 * Which node has the sandbox of a name.
 *
 *	unknown --> pending --> asked --> known (a node, or nobody) --> unknown
 *
 * An answer "that node has it" is used for KNOWN_US. It does no harm if it is old: that node looks
 * for itself, and if the sandbox is not there any more, the answer is dropped at once
 * (node_forget_name()). So it is used for longer while the database is away.
 *
 * An answer "nobody has it" is used only for callers who came before the question was sent.
 * Otherwise a client that has just made the sandbox on another node would be refused here.
 *
 * Names that nobody has must not flood the database. All callers who want the same name share one
 * question. Each project may ask BUDGET questions a second that find nobody; those that find
 * somebody are not counted. Further callers wait, and above ASKERS_MAX they are refused. Projects
 * take turns.
 */
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define KNOWN_US      (2 * SECOND_US)
#define NOBODY_US     SECOND_US
#define STALE_US      (300 * SECOND_US) /* without the database */
#define BUDGET        20                /* questions of a project in a second that find nobody */
#define BURST_US      (2 * SECOND_US)   /* what it may spend ahead */
#define PRICE_US      (SECOND_US / BUDGET)
#define ASKERS_MAX    256  /* of a project */
#define UNDER_WAY_MAX 16   /* of all: the member keeps room for other calls */
#define NAMES_MAX     1024 /* of a project */
#define NAMES_TOTAL   16384
#define SWEEP_US      SECOND_US
#define WORD_SIZE     64 /* of the longest name, and its NUL */

struct asker {
	struct list link;
	node_found_fn fn;
	void *arg;
	uint64_t since_us;
};

struct lookup_project {
	struct list link;
	char id[ID_SIZE];
	uint64_t owes_until_us;
	struct list pending; /* of struct lookup */
	struct list names;   /* oldest first */
	unsigned n_names, n_askers;
	UT_hash_handle hh;
};

struct lookup {
	struct list link;    /* of its project's names */
	struct list pending; /* link; in no list: it is not */
	struct lookup_project *project;
	struct name_lookup *of;
	char key[ID_SIZE + WORD_SIZE]; /* project/name */
	bool is_asked, is_known;
	uint32_t node; /* where is_known: 0 = nobody */
	uint64_t asked_us, known_us;
	struct list askers;
	UT_hash_handle hh;
};

struct name_lookup {
	struct node *node;
	struct lookup *by_key;
	struct lookup_project *by_id;
	struct list projects; /* in turn */
	unsigned under_way;
	struct loop_timer *pump, *sweep;
};

static void pump(struct name_lookup *l);

static bool is_held(const struct name_lookup *l)
{
	return fence_allows(node_state(l->node), FENCE_AGREE);
}

static bool is_idle(const struct lookup *w)
{
	return !w->is_asked && list_empty(&w->askers) && list_empty(&w->pending);
}

static void drop(struct lookup *w)
{
	list_remove(&w->link);
	list_remove(&w->pending);
	w->project->n_names--;
	HASH_DEL(w->of->by_key, w);
	free(w);
}

/* Whether somebody may be told of it. nobody: not by an answer to an older question. */
static bool is_good(const struct lookup *w, uint64_t since_us, uint64_t now)
{
	if (!w->is_known)
		return false;
	if (w->node == 0)
		return w->asked_us >= since_us && now - w->known_us < NOBODY_US;
	return now - w->known_us < (is_held(w->of) ? KNOWN_US : STALE_US);
}

static struct asker *take_asker(struct list *askers)
{
	struct asker *a = list_first(askers, struct asker, link);

	if (a)
		list_remove(&a->link);
	return a;
}

static void add_asker(struct lookup *w, struct asker *a)
{
	list_append(&w->askers, &a->link);
	w->project->n_askers++;
	if (!w->is_asked && list_empty(&w->pending))
		list_append(&w->project->pending, &w->pending);
}

/* Those who came after the question was sent go on waiting if it has found nobody. Whoever is told
 * may ask again, and what is known of the name may go with that. */
static void tell(struct lookup *w, const struct err *err)
{
	const uint32_t node = err ? 0 : w->node;
	struct list all = LIST_INIT(all), now = LIST_INIT(now);
	struct asker *a;

	while ((a = take_asker(&w->askers))) {
		w->project->n_askers--;
		list_append(&all, &a->link);
	}
	while ((a = take_asker(&all)))
		if (!err && node == 0 && w->asked_us < a->since_us)
			add_asker(w, a);
		else
			list_append(&now, &a->link);
	while ((a = take_asker(&now))) {
		a->fn(node, err, a->arg);
		free(a);
	}
}

/* 0: what it says is in *ret; -EINVAL: it has another shape. */
static int read_answer(const json_t *answer, uint32_t *ret)
{
	const json_t *holder = json_object_get(answer, "holder"),
		     *node = json_object_get(answer, "node");
	json_int_t number = json_integer_value(node);

	*ret = 0;
	if (json_is_null(holder) && json_is_null(node))
		return 0;
	if (!json_is_string(holder) || !names_has_kind(json_string_value(holder)) ||
	    !json_is_integer(node) || number <= 0 || number > INT32_MAX)
		return -EINVAL;
	*ret = (uint32_t)number;
	return 0;
}

static void know(struct lookup *w, uint32_t node)
{
	w->is_known = true;
	w->node = node;
	w->known_us = clock_steady_us();
}

static void on_answer(const json_t *answer, const struct err *failure, void *arg)
{
	struct lookup *w = arg;
	struct name_lookup *l = w->of;
	struct err err = {0};
	uint32_t node = 0;

	w->is_asked = false;
	l->under_way--;
	if (failure) {
		err = *failure;
	} else if (read_answer(answer, &node) < 0) {
		log_warn("cluster.name_refused", "error='the answer has another shape'");
		(void)node_refuse(&err, "the database's answer about a name has another shape");
	} else {
		know(w, node);
	}
	if (!err.code && node != 0)
		w->project->owes_until_us -= MIN(w->project->owes_until_us, PRICE_US);
	if (err.code && w->is_known && w->node != 0 && clock_steady_us() - w->known_us < STALE_US)
		err = (struct err){0}; /* that node looks for itself */
	tell(w, err.code ? &err : NULL);
	pump(l);
}

static void ask(struct lookup *w)
{
	const char *name = strchr(w->key, '/') + 1;
	auto_json json_t *call = json_pack("{ss ss ss}", "call", "named", "project_id",
	                                   w->project->id, "name", name);

	list_remove(&w->pending);
	w->is_asked = true;
	w->asked_us = clock_steady_us();
	w->project->owes_until_us = MAX(w->project->owes_until_us, w->asked_us) + PRICE_US;
	w->of->under_way++;
	node_call(w->of->node, call, on_answer, w);
}

static void fail_pending(struct name_lookup *l)
{
	struct err err;
	struct lookup *w;

	(void)node_refuse(&err, "this node does not reach the database");
	list_for_each (&l->projects, struct lookup_project, p, link)
		while ((w = list_first(&p->pending, struct lookup, pending))) {
			list_remove(&w->pending);
			tell(w, &err);
		}
}

/* One of each project that may ask; false: nobody may. */
static bool ask_round(struct name_lookup *l, uint64_t now)
{
	bool has_asked = false;

	list_for_each (&l->projects, struct lookup_project, p, link) {
		struct lookup *w = list_first(&p->pending, struct lookup, pending);

		if (!w || l->under_way >= UNDER_WAY_MAX)
			continue;
		if (p->owes_until_us > now + BURST_US) {
			loop_timer_set_in(l->pump, PRICE_US);
			continue;
		}
		ask(w);
		has_asked = true;
	}
	return has_asked;
}

static void pump(struct name_lookup *l)
{
	if (!is_held(l)) {
		fail_pending(l);
		return;
	}
	while (l->under_way < UNDER_WAY_MAX && ask_round(l, clock_steady_us()))
		continue;
}

static void on_pump(struct loop *loop, void *arg)
{
	(void)loop;
	pump(arg);
}

static void on_sweep(struct loop *loop, void *arg)
{
	struct name_lookup *l = arg;
	uint64_t now = clock_steady_us();

	(void)loop;
	list_for_each (&l->projects, struct lookup_project, p, link) {
		list_for_each (&p->names, struct lookup, w, link)
			if (is_idle(w) &&
			    (!w->is_known || now - w->known_us >= (w->node ? STALE_US : NOBODY_US)))
				drop(w);
		if (p->n_names == 0 && p->owes_until_us <= now) {
			list_remove(&p->link);
			HASH_DEL(l->by_id, p);
			free(p);
		}
	}
	if (!list_empty(&l->projects))
		loop_timer_set_in(l->sweep, SWEEP_US);
}

static struct lookup_project *project_of(struct name_lookup *l, const char *id)
{
	struct lookup_project *p = NULL;

	HASH_FIND_STR(l->by_id, id, p);
	if (p)
		return p;
	p = xnew0(struct lookup_project);
	(void)snprintf(p->id, sizeof(p->id), "%s", id);
	list_init(&p->pending);
	list_init(&p->names);
	list_append(&l->projects, &p->link);
	HASH_ADD_STR(l->by_id, id, p);
	if (!loop_timer_is_set(l->sweep))
		loop_timer_set_in(l->sweep, SWEEP_US);
	return p;
}

static bool make_key(const char *project_id, const char *name, char ret[ID_SIZE + WORD_SIZE])
{
	return strlen(project_id) < ID_SIZE && strlen(name) < WORD_SIZE &&
	       snprintf(ret, ID_SIZE + WORD_SIZE, "%s/%s", project_id, name) > 0;
}

static struct lookup *find(struct name_lookup *l, const char *project_id, const char *name)
{
	char key[ID_SIZE + WORD_SIZE];
	struct lookup *w = NULL;

	if (make_key(project_id, name, key))
		HASH_FIND_STR(l->by_key, key, w);
	return w;
}

static void drop_oldest(struct lookup_project *p)
{
	list_for_each (&p->names, struct lookup, old, link)
		if (is_idle(old)) {
			drop(old);
			return;
		}
}

/* Another of the project gives way, or of the one that has most. NULL: somebody waits for each. */
static struct lookup *add(struct name_lookup *l, const char *project_id, const char *name)
{
	struct lookup_project *p = project_of(l, project_id), *largest = p;
	struct lookup *w;

	if (p->n_names >= NAMES_MAX)
		drop_oldest(p);
	if (HASH_COUNT(l->by_key) >= NAMES_TOTAL) {
		list_for_each (&l->projects, struct lookup_project, other, link)
			if (other->n_names > largest->n_names)
				largest = other;
		drop_oldest(largest);
	}
	if (p->n_names >= NAMES_MAX || HASH_COUNT(l->by_key) >= NAMES_TOTAL)
		return NULL;
	w = xnew0(struct lookup);
	w->of = l;
	w->project = p;
	list_init(&w->pending);
	list_init(&w->askers);
	if (!make_key(project_id, name, w->key)) {
		free(w);
		return NULL;
	}
	list_append(&p->names, &w->link);
	p->n_names++;
	HASH_ADD_STR(l->by_key, key, w);
	return w;
}

int node_find_name(struct node *n, const struct node_name *wanted, uint32_t *ret_node,
                   node_found_fn fn, void *arg, struct err *err)
{
	struct name_lookup *l = n->lookup;
	struct lookup *w = find(l, wanted->project_id, wanted->name);
	struct asker *a;
	int r;

	*ret_node = 0;
	if (w && is_good(w, wanted->since_us, clock_steady_us())) {
		*ret_node = w->node;
		return 1;
	}
	r = node_check(n, err);
	if (r < 0)
		return r;
	if (!w)
		w = add(l, wanted->project_id, wanted->name);
	if (!w || w->project->n_askers >= ASKERS_MAX) {
		(void)err_set(
			err, ERR_LIMIT, 0,
			"too many calls of this project wait for names that are not known here");
		return err_hint(err, "use sandboxes' ids, or try again a little later");
	}
	a = xnew0(struct asker);
	*a = (struct asker){.fn = fn, .arg = arg, .since_us = wanted->since_us};
	list_init(&a->link);
	add_asker(w, a);
	loop_timer_set_in(l->pump, 0); /* fn is never called from inside */
	return 0;
}

void node_forget_name(struct node *n, const char *project_id, const char *name)
{
	struct lookup *w = find(n->lookup, project_id, name);

	if (w)
		w->is_known = false;
}

void name_lookup_learn(struct name_lookup *l, const char *project_id, const char *name,
                       const json_t *answer)
{
	uint32_t node = 0;
	struct lookup *w;

	if (read_answer(answer, &node) < 0 || node == 0)
		return;
	w = find(l, project_id, name);
	if (!w)
		w = add(l, project_id, name);
	if (w)
		know(w, node);
}

void name_lookup_look(struct name_lookup *l)
{
	pump(l);
}

struct name_lookup *name_lookup_new(struct node *n)
{
	struct name_lookup *l = xnew0(struct name_lookup);

	l->node = n;
	list_init(&l->projects);
	l->pump = loop_timer_new(n->config.loop, on_pump, l);
	l->sweep = loop_timer_new(n->config.loop, on_sweep, l);
	return l;
}

void name_lookup_free(struct name_lookup *l)
{
	list_for_each (&l->projects, struct lookup_project, p, link) {
		list_for_each (&p->names, struct lookup, w, link) {
			struct asker *a;

			while ((a = take_asker(&w->askers)))
				free(a);
			drop(w);
		}
		list_remove(&p->link);
		HASH_DEL(l->by_id, p);
		free(p);
	}
	loop_timer_free(l->pump);
	loop_timer_free(l->sweep);
	free(l);
}
