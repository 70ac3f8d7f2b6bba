// SPDX-License-Identifier: Apache-2.0
/*
 * Names and idempotency keys of creates. A create writes its row here first, then asks the database
 * for the name, and goes on with the answer. So a name that the database has for this node belongs
 * to a sandbox of this node, or a killed gateway has left it over. A gateway that has just started,
 * or whose node has joined again, compares the two: it gives back what is left over, and takes what
 * the database lacks, such as names from before the node joined.
 *
 * Giving back is repeated until the database has answered.
 */
#include "base/digest.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"
#include "node/node_private.h"

#include <stdio.h>
#include <string.h>
#include <uthash.h>

#define RETRY_US SECOND_US

struct name_return {
	struct list link;
	char id[ID_SIZE];
	bool with_key, is_sent;
	uint64_t order;
	UT_hash_handle hh;
};

struct claim { /* a name of a sandbox that was here before */
	struct list link;
	char project_id[ID_SIZE], id[ID_SIZE];
	char *name;
};

struct names {
	struct node *node;
	struct name_return *giving_by_id;
	struct list giving; /* oldest first */
	bool is_giving;
	struct list claims;
	bool is_claiming, is_comparing;
	char after[ID_SIZE];
	uint64_t compared_epoch; /* 0: not since the start */
	uint32_t n_compares;     /* of the word, when it was compared */
	struct list takings; /* behind what was to be given back before: it may be the same name */
	uint64_t order;
	struct loop_timer *again;
};

static void give_next(struct names *s);
static void claim_next(struct names *s);
static void compare(struct names *s);

bool names_has_kind(const char *id)
{
	static const char *const kinds[] = {"sb", "lg", "bt"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (id_is_valid(id, kinds[i]))
			return true;
	return false;
}

static bool is_held(const struct names *s)
{
	return node_is_in(s->node) && node_state(s->node) == FENCE_HELD;
}

static void later(struct names *s)
{
	loop_timer_set_in(s->again, RETRY_US);
}

struct taking {
	struct list link;
	struct node *node;
	json_t *call;
	uint64_t order;
	node_done_fn fn;
	void *arg;
	char name[72];
};

static void taking_done(struct taking *t, const struct err *err)
{
	t->fn(err, t->arg);
	json_decref(t->call);
	free(t);
}

static int refuse(const json_t *answer, const char *name, struct err *err)
{
	const char *result = node_result(answer);
	const char *holder = json_string_value(json_object_get(answer, "holder"));
	const bool is_key = strcmp(result, "done") == 0;

	if (strcmp(result, "taken") == 0) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "name: a sandbox named '%s' exists already, on another node", name);
		return err_hint(err, "its id is %.40s: use it, or delete it first",
		                holder ? holder : "not known");
	}
	if (is_key || strcmp(result, "other_request") == 0) {
		(void)err_set(
			err, ERR_CONFLICT, 0,
			is_key ? "Idempotency-Key: the same request has made a sandbox on "
				 "another node"
			       : "Idempotency-Key: this key came with another request before");
		(void)snprintf(err->field, sizeof(err->field), "Idempotency-Key");
		err->errnum = is_key ? NODE_MADE_ELSEWHERE : 0;
		return is_key ? err_hint(err, "its id is %.40s", holder ? holder : "not known")
		              : err_hint(err, "use a new key for a new request");
	}
	return node_refuse(err, "this node has just rejoined the cluster");
}

static void on_taken(const json_t *answer, const struct err *failure, void *arg)
{
	struct taking *t = arg;
	struct err err = {0};

	if (failure)
		err = *failure;
	else if (strcmp(node_result(answer), "ok") != 0)
		(void)refuse(answer, t->name, &err);
	if (!failure && strcmp(node_result(answer), "taken") == 0)
		name_lookup_learn(t->node->lookup,
		                  json_string_value(json_object_get(t->call, "project_id")),
		                  t->name, answer);
	taking_done(t, err.code ? &err : NULL);
}

static void take_next(struct names *s)
{
	struct taking *t;
	struct err err;

	while ((t = list_first(&s->takings, struct taking, link))) {
		const struct name_return *g = list_first(&s->giving, struct name_return, link);

		if (is_held(s) && g && g->order < t->order)
			return;
		list_remove(&t->link);
		if (is_held(s)) {
			node_call(s->node, t->call, on_taken, t);
		} else {
			(void)node_refuse(&err, "this node does not reach the database");
			taking_done(t, &err);
		}
	}
}

static void on_take(struct loop *loop, void *arg)
{
	(void)loop;
	take_next(arg);
}

void node_take(struct node *n, const struct node_taking *what, node_done_fn fn, void *arg)
{
	auto_json json_t *call = json_pack("{ss ss ss}", "call", "take_create", "project_id",
	                                   what->project_id, "sandbox_id", what->sandbox_id);
	struct taking *t = xnew0(struct taking);
	struct digest digest;
	char hex[DIGEST_HEX];

	t->node = n;
	t->fn = fn;
	t->arg = arg;
	if (what->name && what->name[0]) {
		(void)snprintf(t->name, sizeof(t->name), "%s", what->name);
		(void)json_object_set_new(call, "name", json_string(what->name));
	}
	if (what->key) {
		memcpy(digest.bytes, what->digest, sizeof(digest.bytes));
		digest_to_hex(&digest, hex);
		(void)json_object_set_new(call, "key", json_string(what->key));
		(void)json_object_set_new(call, "digest", json_string(hex));
	}
	t->call = json_incref(call);
	t->order = ++n->names->order;
	list_init(&t->link);
	list_append(&n->names->takings, &t->link);
	loop_defer(n->config.loop, on_take, n->names);
}

static void on_given(const json_t *answer, const struct err *err, void *arg)
{
	struct names *s = arg;
	struct name_return *g = list_first(&s->giving, struct name_return, link);

	s->is_giving = false;
	if (err || strcmp(node_result(answer), "ok") != 0 || !g) {
		later(s);
		return;
	}
	if (g->is_sent) {
		list_remove(&g->link);
		HASH_DEL(s->giving_by_id, g);
		free(g);
	}
	give_next(s);
	take_next(s);
}

static void give_next(struct names *s)
{
	struct name_return *g = list_first(&s->giving, struct name_return, link);
	auto_json json_t *call = NULL;

	if (!g || s->is_giving || !is_held(s))
		return;
	call = json_pack("{ss ss sb}", "call", "free_create", "sandbox_id", g->id, "with_key",
	                 g->with_key);
	s->is_giving = g->is_sent = true;
	node_call(s->node, call, on_given, s);
}

void node_give(struct node *n, const char *sandbox_id, bool with_key)
{
	struct names *s;
	struct name_return *g = NULL;

	if (!node_is_in(n) || !names_has_kind(sandbox_id))
		return;
	s = n->names;
	HASH_FIND_STR(s->giving_by_id, sandbox_id, g);
	if (!g) {
		g = xnew0(struct name_return);
		(void)snprintf(g->id, sizeof(g->id), "%s", sandbox_id);
		g->order = ++s->order;
		list_init(&g->link);
		list_append(&s->giving, &g->link);
		HASH_ADD_STR(s->giving_by_id, id, g);
	}
	g->is_sent &= g->with_key || !with_key; /* else it is sent once more */
	g->with_key |= with_key;
	give_next(s);
}

static void on_claimed(const struct err *err, void *arg)
{
	struct names *s = arg;
	struct claim *c = list_first(&s->claims, struct claim, link);

	s->is_claiming = false;
	if (!c)
		return;
	if (err && err->code == ERR_CLUSTER) {
		later(s);
		return;
	}
	if (err)
		log_warn("cluster.name_taken", "id=%s name='%s' error='%s'", c->id, c->name,
		         err->message);
	list_remove(&c->link);
	free(c->name);
	free(c);
	claim_next(s);
}

static void claim_next(struct names *s)
{
	const struct claim *c = list_first(&s->claims, struct claim, link);

	if (!c || s->is_claiming || !is_held(s))
		return;
	s->is_claiming = true;
	node_take(s->node,
	          &(struct node_taking){
			  .project_id = c->project_id, .sandbox_id = c->id, .name = c->name},
	          on_claimed, s);
}

static void add_claim(const char *project_id, const char *id, const char *name, void *arg)
{
	struct names *s = arg;
	struct claim *c = xnew0(struct claim);

	(void)snprintf(c->project_id, sizeof(c->project_id), "%s", project_id);
	(void)snprintf(c->id, sizeof(c->id), "%s", id);
	c->name = xstrdup(name);
	list_init(&c->link);
	list_append(&s->claims, &c->link);
}

static void drop_claims(struct names *s)
{
	struct claim *c;

	while ((c = list_first(&s->claims, struct claim, link))) {
		list_remove(&c->link);
		free(c->name);
		free(c);
	}
}

static bool has_holder(const struct node *n, const char *id)
{
	return n->sandboxes->has(id, n->sandboxes_arg) ||
	       (n->named && n->named->has(id, n->named_arg));
}

static void on_compared(const json_t *answer, const struct err *err, void *arg)
{
	struct names *s = arg;
	const json_t *all = json_object_get(answer, "sandboxes"), *one;
	const char *id = NULL;
	size_t i;

	s->is_comparing = false;
	if (err || !json_is_array(all)) {
		later(s);
		return;
	}
	json_array_foreach(all, i, one)
	{
		id = json_string_value(one);
		if (!id || strlen(id) >= ID_SIZE || strcmp(id, s->after) <= 0) {
			log_warn("cluster.names_refused", "error='the answer has another shape'");
			later(s);
			return;
		}
		if (!has_holder(s->node, id))
			node_give(s->node, id, true);
		(void)snprintf(s->after, sizeof(s->after), "%s", id);
	}
	if (id && json_is_true(json_object_get(answer, "has_more"))) {
		compare(s);
		return;
	}
	s->compared_epoch = s->node->word.epoch;
	log_info("cluster.names_compared", "to_give=%u", HASH_COUNT(s->giving_by_id));
}

static void compare(struct names *s)
{
	auto_json json_t *call = NULL;

	if (s->is_comparing || !s->node->sandboxes || !is_held(s) ||
	    s->compared_epoch == s->node->word.epoch)
		return;
	if (!s->after[0] && !s->is_claiming) {
		drop_claims(s);
		s->node->sandboxes->each_named(add_claim, s, s->node->sandboxes_arg);
		if (s->node->named)
			s->node->named->each_named(add_claim, s, s->node->named_arg);
	}
	call = json_pack("{ss ss}", "call", "taken", "after", s->after);
	s->is_comparing = true;
	node_call(s->node, call, on_compared, s);
}

void names_look(struct names *s)
{
	if (s->n_compares != s->node->word.n_compares && !s->is_comparing) {
		s->n_compares = s->node->word.n_compares;
		s->compared_epoch = 0;
	}
	if (s->compared_epoch != s->node->word.epoch && !s->is_comparing)
		s->after[0] = '\0';
	compare(s);
	claim_next(s);
	give_next(s);
	take_next(s);
}

static void on_again(struct loop *loop, void *arg)
{
	(void)loop;
	names_look(arg);
}

void node_has_named(struct node *n, const struct node_named *named, void *arg)
{
	if (!n)
		return;
	n->named = named;
	n->named_arg = arg;
}

void node_has_sandboxes(struct node *n, const struct node_sandboxes *sandboxes, void *arg)
{
	if (!n)
		return;
	n->sandboxes = sandboxes;
	n->sandboxes_arg = arg;
	lost_look(n->lost);
	names_look(n->names);
}

struct names *names_new(struct node *n)
{
	struct names *s = xnew0(struct names);

	s->node = n;
	list_init(&s->giving);
	list_init(&s->claims);
	list_init(&s->takings);
	s->again = loop_timer_new(n->config.loop, on_again, s);
	return s;
}

void names_free(struct names *s)
{
	struct name_return *g;
	struct taking *t;

	drop_claims(s);
	while ((t = list_first(&s->takings, struct taking, link))) {
		list_remove(&t->link);
		json_decref(t->call);
		free(t);
	}
	while ((g = list_first(&s->giving, struct name_return, link))) {
		list_remove(&g->link);
		HASH_DEL(s->giving_by_id, g);
		free(g);
	}
	loop_timer_free(s->again);
	free(s);
}
