// SPDX-License-Identifier: Apache-2.0
#include "sandbox/code/context.h"

#include "base/clock.h"
#include "base/log.h"
#include "sandbox/code/contexts.h"
#include "sandbox/code/interpreter.h"

#include <assert.h>
#include <string.h>

#define NAME_RANDOM 8

static const char *const states[] = {
	[CONTEXT_STARTING] = "starting",
	[CONTEXT_IDLE] = "idle",
	[CONTEXT_BUSY] = "busy",
	[CONTEXT_DEAD] = "dead",
};
static_assert(ARRAY_SIZE(states) == CONTEXT_STATE_COUNT, "a state has no name");

static int check_name(const char *name, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t len = strlen(name);

	if (len == 0 || len > CONTEXT_NAME_MAX || strspn(name, letters) != len || name[0] == '-' ||
	    name[len - 1] == '-')
		return err_field(err, "name",
		                 "must be 1 to %d small letters, digits and inner dashes",
		                 CONTEXT_NAME_MAX);
	if (language_find(name))
		return err_field(err, "name", "'%s' is the default context of that language", name);
	return 0;
}

struct context *context_new(struct sandbox *s, const struct language *language)
{
	struct context *c = xnew0(struct context);

	c->sandbox = s;
	c->loop = s->fleet->config.loop;
	id_make(c->id, "ctx");
	c->language = language;
	list_init(&c->link);
	list_init(&c->queue);
	interpreter_init(c);
	return c;
}

void context_set(struct context *c, const char *name, const struct context_spec *spec)
{
	c->name = name ? xstrdup(name) : xasprintf("c-%.*s", NAME_RANDOM, c->id + strlen("ctx_"));
	c->cwd = spec->cwd ? xstrdup(spec->cwd) : NULL;
	c->user = spec->user ? xstrdup(spec->user) : NULL;
	c->env = spec->env ? json_deep_copy(spec->env) : NULL;
	list_append(&c->sandbox->contexts, &c->link);
	c->sandbox->n_contexts++;
}

/* A waiting context that fits the spec, or NULL. */
static struct context *take_warm(struct sandbox *s, const struct language *language,
                                 const struct context_spec *spec)
{
	if (spec->cwd || spec->user || spec->env)
		return NULL;
	list_for_each (&s->warm, struct context, c, link) {
		if (c->language != language || c->state == CONTEXT_DEAD)
			continue;
		list_remove(&c->link);
		return c;
	}
	return NULL;
}

int context_make(struct sandbox *s, const char *name, const struct context_spec *spec,
                 struct context **ret, struct err *err)
{
	const struct language *language;
	struct context *c;
	int r = language_check(spec->language, "language", &language, err);

	if (r < 0)
		return r;
	if (s->n_contexts >= CONTEXTS_MAX)
		return err_set(err, ERR_LIMIT, 0, "sandbox %s has %d contexts, which is the limit",
		               s->id, CONTEXTS_MAX);
	c = take_warm(s, language, spec);
	if (!c)
		c = context_new(s, language);
	context_set(c, name, spec);
	c->created_us = clock_wall_us();
	emit_context_created(c);
	/* Started now, so that a bad cwd or env fails this request and leaves no context. */
	r = c->state == CONTEXT_DEAD ? interpreter_start(c, err) : context_save(c, err);
	if (r < 0) {
		context_remove(c);
		return r;
	}
	*ret = c;
	return 0;
}

int context_create(struct sandbox *s, const struct context_spec *spec, struct context **ret,
                   struct err *err)
{
	int r = spec->name ? check_name(spec->name, err) : 0;

	if (r < 0)
		return r;
	if (!sandbox_link(s, err))
		return -EAGAIN;
	if (spec->name && context_find(s, spec->name))
		return err_set(err, ERR_CONFLICT, 0, "name: a context '%s' exists already",
		               spec->name);
	return context_make(s, spec->name, spec, ret, err);
}

struct context *context_find(struct sandbox *s, const char *id_or_name)
{
	list_for_each (&s->contexts, struct context, c, link)
		if (strcmp(c->id, id_or_name) == 0 || strcmp(c->name, id_or_name) == 0)
			return c;
	return NULL;
}

void context_each(struct sandbox *s, void (*fn)(struct context *c, void *arg), void *arg)
{
	list_for_each (&s->contexts, struct context, c, link)
		fn(c, arg);
}

const char *context_id(const struct context *c)
{
	return c->id;
}

const char *context_name(const struct context *c)
{
	return c->name;
}

const char *context_language(const struct context *c)
{
	return c->language->name;
}

const char *context_cwd(const struct context *c)
{
	return c->cwd;
}

void context_to_json(const struct context *c, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_str(w, "id", c->id);
	json_put_str(w, "name", c->name);
	json_put_str(w, "language", c->language->name);
	json_put_str(w, "state", states[c->state]);
	json_put_u64(w, "count", c->count);
	json_put_u64(w, "queued", c->n_queue);
	json_put_u64(w, "starts", c->starts);
	json_put_str(w, "cwd", c->cwd);
	json_put_str(w, "user", c->user);
	json_put_u64(w, "created_us", c->created_us);
	json_close_object(w);
}

int context_restart(struct context *c, struct err *err)
{
	if (!sandbox_link(c->sandbox, err))
		return -EAGAIN;
	interpreter_drop(c, "restarted", "its context was restarted");
	return interpreter_start(c, err);
}

int context_interrupt(struct context *c, struct err *err)
{
	if (!c->running && !c->sync)
		return 0;
	if (c->running)
		c->running->cause = c->running->cause ? c->running->cause : "interrupted";
	return interpreter_interrupt(c, err);
}

static void context_free(struct loop *loop, void *arg)
{
	struct context *c = arg;

	(void)loop;
	interpreter_done(c);
	json_decref(c->env);
	free(c->name);
	free(c->cwd);
	free(c->user);
	free(c);
}

/* Takes it off the sandbox; its calls have ended or are told elsewhere. */
static void detach(struct context *c)
{
	if (c->name)
		c->sandbox->n_contexts--;
	list_remove(&c->link);
	c->is_removed = true;
	broker_client_cancel(c->sandbox->fleet->broker, c->usage_tag);
	broker_client_cancel(c->sandbox->fleet->broker, c->fork_tag);
	c->usage_tag = c->fork_tag = 0;
	loop_timer_set(c->timer, UINT64_MAX);
	/* Freed after what this turn still has to report about it. */
	loop_defer(c->loop, context_free, c);
}

static int delete_row(void *arg, struct err *err)
{
	const struct context *c = arg;

	return store_delete_context(c->sandbox->fleet->config.store, c->id, err);
}

/* Reports its end in the transaction that removes its row. If the row stays, the next gateway finds
 * the context again. */
static void forget(struct context *c)
{
	struct fleet *fleet = c->sandbox->fleet;
	struct err err;

	crash_counter_drop(fleet->crash_counters, &c->deadline);
	emit_context_ended(c);
	if (event_log_save(fleet->config.events, delete_row, c, &err) < 0)
		log_error("context.not_saved", "id=%s error='%s'", c->id, err.message);
}

void context_remove(struct context *c)
{
	struct err err;

	interpreter_drop(c, "removed", "its context was removed");
	forget(c);
	(void)err_set(&err, ERR_GONE, 0, "context '%s' was removed", c->name);
	code_fail_all(c, &err);
	detach(c);
}

void context_warm(struct sandbox *s, const struct language *language)
{
	struct context *c = context_new(s, language);
	struct err err;

	list_append(&s->warm, &c->link);
	if (interpreter_start(c, &err) < 0)
		log_debug("context.cold", "sandbox=%s error='%s'", s->id, err.message);
}

bool context_has_warm(const struct sandbox *s, const struct language *language)
{
	list_for_each (&s->warm, const struct context, c, link)
		if (c->language == language)
			return true;
	return false;
}

bool context_is_warming(struct sandbox *s)
{
	list_for_each (&s->warm, struct context, c, link)
		if (c->state == CONTEXT_STARTING || c->sync)
			return true;
	return false;
}

void context_cool(struct sandbox *s)
{
	list_for_each (&s->warm, struct context, c, link) {
		interpreter_drop(c, NULL, "");
		detach(c);
	}
}

void context_end_all(struct sandbox *s, const struct err *err)
{
	context_cool(s);
	list_for_each (&s->contexts, struct context, c, link) {
		code_fail_all(c, err);
		interpreter_drop(c, NULL, "");
		forget(c);
		detach(c);
	}
}

void context_rejoin_all(struct sandbox *s)
{
	list_for_each (&s->contexts, struct context, c, link)
		interpreter_rejoin(c);
}

void context_free_all(struct sandbox *s)
{
	list_for_each (&s->warm, struct context, c, link) {
		channel_forget(&c->channel);
		detach(c);
	}
	list_for_each (&s->contexts, struct context, c, link) {
		channel_forget(&c->channel);
		code_forget_all(c);
		detach(c);
	}
}
