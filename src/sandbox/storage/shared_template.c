// SPDX-License-Identifier: Apache-2.0
#include "sandbox/storage/shared_template_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/storage/guest_kernel.h"

#include <string.h>

#define AGAIN_US (5 * SECOND_US)

struct removal { /* the others are to hear of it; tried until they have */
	struct list link;
	char project_id[ID_SIZE], template_id[ID_SIZE];
	char *name;
};

struct node *shared_node(const struct fleet *fleet)
{
	struct node *n = fleet->config.node;

	return node_is_in(n) ? n : NULL;
}

static struct shared_state *find_note(const struct shared_templates *s, const char *template_id)
{
	struct shared_state *note = NULL;

	HASH_FIND_STR(s->notes, template_id, note);
	return note;
}

struct shared_state *shared_state_of(struct shared_templates *s, const char *template_id)
{
	struct shared_state *note = find_note(s, template_id);

	if (note)
		return note;
	note = xnew0(struct shared_state);
	(void)snprintf(note->template_id, sizeof(note->template_id), "%s", template_id);
	HASH_ADD_STR(s->notes, template_id, note);
	return note;
}

void shared_state_drop(struct shared_templates *s, const char *template_id)
{
	struct shared_state *note = find_note(s, template_id);

	if (!note)
		return;
	HASH_DEL(s->notes, note);
	free(note);
}

void shared_look_soon(struct shared_templates *s)
{
	loop_timer_set_in(s->look, 0);
}

static bool is_private(const struct template *t)
{
	return template_is_set(t) || guest_kernel_is(t);
}

/* Removals. */

static void remove_next(struct shared_templates *s);

static void on_removed(const json_t *answer, const struct err *err, void *arg)
{
	struct shared_templates *s = arg;
	struct removal *r = list_first(&s->removals, struct removal, link);

	s->is_removing = false;
	if (!r)
		return;
	if (err || strcmp(node_result(answer), "ok") != 0) {
		loop_timer_set_in(s->look, AGAIN_US);
		return;
	}
	list_remove(&r->link);
	free(r->name);
	free(r);
	remove_next(s);
}

static void remove_next(struct shared_templates *s)
{
	const struct removal *r = list_first(&s->removals, struct removal, link);
	struct node *n = shared_node(s->fleet);

	if (!r || s->is_removing || !n || node_check(n, NULL) < 0)
		return;
	s->is_removing = true;
	node_remove_image(n, r->project_id, r->name, r->template_id, on_removed, s);
}

void shared_template_removed(const struct template *t)
{
	struct shared_templates *s = t ? template_fleet(t)->shared_templates : NULL;
	struct removal *r;

	if (!s || !shared_node(s->fleet))
		return;
	shared_state_drop(s, template_id(t));
	if (is_private(t) || (node_knows_images(shared_node(s->fleet)) &&
	                      !shared_template_is_known(s->fleet, template_project_id(t),
	                                                template_name(t), template_id(t))))
		return;
	r = xnew0(struct removal);
	(void)snprintf(r->project_id, sizeof(r->project_id), "%s", template_project_id(t));
	(void)snprintf(r->template_id, sizeof(r->template_id), "%s", template_id(t));
	r->name = xstrdup(template_name(t));
	list_init(&r->link);
	list_append(&s->removals, &r->link);
	remove_next(s);
}

struct removal_call {
	node_done_fn fn;
	void *arg;
};

static void on_remove_told(const json_t *answer, const struct err *err, void *arg)
{
	const struct removal_call call = *(struct removal_call *)arg;
	struct err failure = {0};

	free(arg);
	if (err)
		failure = *err;
	else if (strcmp(node_result(answer), "ok") != 0)
		(void)node_refuse(&failure, "this node has just rejoined the cluster");
	call.fn(failure.code ? &failure : NULL, call.arg);
}

void shared_template_remove(struct fleet *fleet, const char *project_id, const char *name,
                            const char *template_id, node_done_fn fn, void *arg)
{
	struct removal_call *call = xnew0(struct removal_call);

	*call = (struct removal_call){fn, arg};
	node_remove_image(fleet->config.node, project_id, name, template_id, on_remove_told, call);
}

bool shared_template_is_known(const struct fleet *fleet, const char *project_id, const char *name,
                              const char *template_id)
{
	const struct node_image *i = node_image_named(shared_node(fleet), project_id, name);

	return i && !i->is_gone && strcmp(i->template_id, template_id) == 0;
}

/* What is here and what all have. */

void shared_template_made(const struct template *t, bool is_replacing)
{
	struct shared_templates *s = template_fleet(t)->shared_templates;
	const struct node_image *i;

	if (!s || is_private(t) || !shared_node(s->fleet))
		return;
	i = node_image_named(shared_node(s->fleet), template_project_id(t), template_name(t));
	if (is_replacing && i && !i->is_gone)
		(void)snprintf(shared_state_of(s, template_id(t))->replaces, ID_SIZE, "%s",
		               i->template_id);
	shared_look_soon(s);
}

static void refuse(struct shared_state *note, const struct template *t)
{
	note->is_refused = true;
	(void)err_set(&note->why, ERR_CONFLICT, 0,
	              "the other nodes have another template named '%s'", template_name(t));
	(void)err_hint(&note->why, "remove this one or make it once more on this node, with "
	                           "\"replace\": true: then it is everybody's");
	log_warn("template.not_shared", "id=%s name=%s error='%s'", template_id(t),
	         template_name(t), note->why.message);
}

static void drop(struct template *t)
{
	struct err err;

	if (template_drop(t, &err) < 0)
		log_warn("template.not_dropped", "error='%s'", err.message);
}

/* Nothing is left to do for it: 0. */
static int judge(struct shared_templates *s, const struct template *t)
{
	const struct node_image *i =
		node_image_named(shared_node(s->fleet), template_project_id(t), template_name(t));
	struct shared_state *note = find_note(s, template_id(t));

	if (is_private(t))
		return 0;
	if (i && strcmp(i->template_id, template_id(t)) == 0) {
		if (i->is_gone)
			return -1; /* removed by another node */
		if (note && i->is_stored) {
			shared_state_drop(s, template_id(t));
			note = NULL;
		}
		if (i->is_stored || i->node != node_number(shared_node(s->fleet)))
			return 0;
		return note && note->is_refused ? 0 : 1; /* once a store is there */
	}
	if (i && node_image_was(i, template_id(t)))
		return -1; /* replaced by another node */
	if (i && !i->is_gone && (!note || strcmp(note->replaces, i->template_id) != 0)) {
		note = shared_state_of(s, template_id(t));
		if (!note->is_refused)
			refuse(note, t);
		return 0;
	}
	return 1;
}

struct survey {
	struct shared_templates *s;
	struct template *to_drop, *to_send;
	uint64_t now_us, next_us;
};

static void look_at(struct template *t, void *arg)
{
	struct survey *v = arg;
	const struct shared_state *note = find_note(v->s, template_id(t));
	const int r = judge(v->s, t);

	if (r < 0)
		v->to_drop = t;
	if (r <= 0)
		return;
	note = find_note(v->s, template_id(t));
	if (note && note->again_us > v->now_us)
		v->next_us = v->next_us ? MIN(v->next_us, note->again_us) : note->again_us;
	else if (!v->to_send)
		v->to_send = t;
}

static void on_look(struct loop *loop, void *arg)
{
	struct shared_templates *s = arg;
	struct survey v;

	(void)loop;
	remove_next(s);
	if (!s->has_begun || !node_knows_images(shared_node(s->fleet)))
		return; /* on_changed() */
	do {
		v = (struct survey){.s = s, .now_us = clock_steady_us()};
		template_each_of_all(s->fleet, look_at, &v);
		if (v.to_drop)
			drop(v.to_drop);
	} while (v.to_drop && !template_find_id(s->fleet, template_id(v.to_drop)));
	if (v.to_send && !s->send)
		shared_send_begin(s, v.to_send, shared_state_of(s, template_id(v.to_send)));
	if (v.next_us)
		loop_timer_set(s->look, v.next_us);
}

static void on_changed(void *arg)
{
	shared_look_soon(arg);
}

static void look_whether_told(struct template *t, void *arg)
{
	struct survey *v = arg;

	if (judge(v->s, t) > 0)
		v->to_send = t;
}

bool shared_templates_are_told(const struct fleet *fleet)
{
	struct survey v = {.s = fleet->shared_templates};

	if (!v.s || !v.s->has_begun || v.s->send || !list_empty(&v.s->removals) ||
	    !node_knows_images(shared_node(fleet)))
		return false;
	template_each_of_all(v.s->fleet, look_whether_told, &v);
	return !v.to_send;
}

/* Names. */

const struct node_image *shared_template_elsewhere(const struct fleet *fleet,
                                                   const char *project_id, const char *word)
{
	const struct node_image *i = node_image_find(shared_node(fleet), project_id, word);

	return i && !template_find_id(fleet, i->template_id) ? i : NULL;
}

bool shared_template_has_name(const struct fleet *fleet, const char *project_id, const char *name)
{
	const struct node_image *i = node_image_named(shared_node(fleet), project_id, name);

	return i && !i->is_gone;
}

struct each {
	const struct fleet *fleet;
	void (*fn)(const struct node_image *i, void *arg);
	void *arg;
};

static void each_elsewhere(const struct node_image *i, void *arg)
{
	const struct each *each = arg;

	if (!template_find_id(each->fleet, i->template_id))
		each->fn(i, each->arg);
}

void shared_template_each_elsewhere(const struct fleet *fleet, const char *project_id,
                                    void (*fn)(const struct node_image *i, void *arg), void *arg)
{
	struct each each = {fleet, fn, arg};

	node_each_image(shared_node(fleet), project_id, each_elsewhere, &each);
}

/* What people see. */

static void put_state(struct json_writer *w, const char *state, uint32_t node, int64_t fetched)
{
	json_open_object(w, "cluster");
	json_put_str(w, "state", state);
	if (node)
		json_put_u64(w, "node", node);
	else
		json_put_null(w, "node");
	if (fetched >= 0)
		json_put_u64(w, "fetched_bytes", (uint64_t)fetched);
	else
		json_put_null(w, "fetched_bytes");
}

void shared_template_to_json(const struct template *t, struct json_writer *w)
{
	const struct fleet *fleet = template_fleet(t);
	const struct shared_templates *s = fleet->shared_templates;
	const struct shared_state *note = s ? find_note(s, template_id(t)) : NULL;
	const struct node_image *i;
	bool is_known;

	if (!s || !shared_node(fleet) || is_private(t)) {
		json_put_null(w, "cluster");
		return;
	}
	i = node_image_named(shared_node(fleet), template_project_id(t), template_name(t));
	is_known = i && !i->is_gone && strcmp(i->template_id, template_id(t)) == 0;
	put_state(w,
	          is_known && i->is_stored ? "everywhere"
	          : note && note->why.code ? "here"
	                                   : "sending",
	          is_known ? i->node : node_number(fleet->config.node), -1);
	json_put_str(w, "message", note && note->why.code ? note->why.message : NULL);
	json_put_str(w, "hint", note && note->why.code ? note->why.hint : NULL);
	json_close_object(w);
}

void shared_template_elsewhere_to_json(const struct fleet *fleet, const struct node_image *i,
                                       struct json_writer *w, const char *name)
{
	const struct node_image_part *own = &i->parts[i->n_parts - 1];
	const int64_t fetched = shared_fetched_bytes(fleet->shared_templates, i->template_id);
	char hex[DIGEST_HEX], digest[DIGEST_HEX + 8];
	uint64_t shared = 0;

	for (size_t k = 0; k + 1 < i->n_parts; k++)
		shared += i->parts[k].bytes;
	digest_to_hex(&own->image, hex);
	(void)snprintf(digest, sizeof(digest), "sha256:%s", hex);
	json_open_object(w, name);
	json_put_str(w, "id", i->template_id);
	json_put_str(w, "name", i->name);
	json_put_bool(w, "shared", i->project_id[0] == '\0');
	json_put_str(w, "digest", digest);
	json_put_u64(w, "bytes", own->bytes);
	json_put_u64(w, "shared_bytes", shared);
	template_put_aliases(w, i->name);
	json_put_u64(w, "sandboxes", 0);
	json_put_u64(w, "warm_copies", 0);
	json_put_u64(w, "created_us", i->created_us);
	put_state(w, fetched >= 0 ? "fetching" : "elsewhere", i->node, fetched);
	json_put_null(w, "message");
	json_put_null(w, "hint");
	json_close_object(w);
	json_put_value(w, "manifest", i->manifest);
	json_close_object(w);
}

/* Life. */

void shared_templates_begin(struct fleet *fleet)
{
	fleet->shared_templates->has_begun = true;
	node_has_templates(fleet->config.node, on_changed, fleet->shared_templates);
}

void shared_templates_open(struct fleet *fleet)
{
	struct shared_templates *s = xnew0(struct shared_templates);

	s->fleet = fleet;
	list_init(&s->fetches);
	list_init(&s->removals);
	s->look = loop_timer_new(fleet->config.loop, on_look, s);
	fleet->shared_templates = s;
}

void shared_templates_close(struct fleet *fleet)
{
	struct shared_templates *s = take_ptr(fleet->shared_templates);

	if (!s)
		return;
	shared_send_free(s);
	shared_fetches_close(s);
	list_for_each (&s->removals, struct removal, r, link) {
		free(r->name);
		free(r);
	}
	while (s->notes)
		shared_state_drop(s, s->notes->template_id);
	loop_timer_free(s->look);
	free(s);
}
