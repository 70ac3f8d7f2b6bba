// SPDX-License-Identifier: Apache-2.0
/*
 * A create checks the request, writes the row, and then runs the steps of create_steps.c. The row
 * comes first, so that after a crash the next start finds it and removes what exists. A failure at
 * any step has the same end: MSG_DELETE is sent, its answer means that nothing is left on the host,
 * then the row is removed and the caller is told.
 *
 * A resume runs the same steps over files or a snapshot. A spare waits after the first step for its
 * owner.
 */
#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"
#include "sandbox/code/contexts.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/lifecycle/create_wishes.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/owner.h"
#include "sandbox/model/registry.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/storage/storage.h"
#include "sandbox/storage/template.h"
#include "sandbox/usage/account.h"
#include "telemetry/span.h"

static int check_up(const struct fleet *fleet, struct err *err)
{
	if (!fleet->is_ready || fleet->is_draining)
		return err_set(err, ERR_UNAVAILABLE, 0, "the daemon is %s",
		               fleet->is_ready ? "stopping" : "starting");
	return node_check_serves(fleet->config.node, err);
}

int create_check_room(struct fleet *fleet, struct err *err)
{
	int r = check_up(fleet, err);

	if (r < 0)
		return r;
	if (fleet->n_alive < fleet->config.sandboxes_max)
		return fleet_check_disk(fleet, err);
	(void)err_set(err, ERR_CAPACITY, 0, "there are %zu sandboxes, which is the limit",
	              fleet->n_alive);
	return err_hint(err,
	                "delete some, wait for room with wait_ms, or raise the daemon's limit");
}

/* A resume is no new sandbox: it goes on where it is. */
static int check_cordon(const struct fleet *fleet, struct err *err)
{
	if (!fleet->config.is_cordoned || !fleet->config.is_cordoned(fleet->config.is_cordoned_arg))
		return 0;
	(void)err_set(err, ERR_CAPACITY, 0, "this node is cordoned: it makes no new sandboxes");
	return err_hint(err, "ask another node of the cluster, or `cloche node uncordon` here");
}

bool create_has_room(void *arg)
{
	return create_check_room(arg, NULL) == 0 && check_cordon(arg, NULL) == 0;
}

static struct sandbox *new_sandbox(struct fleet *fleet, const struct guest_limits *limits)
{
	struct sandbox *s = sandbox_alloc(fleet);

	id_make_tagged(s->id, "sb");
	s->name = xstrdup("");
	s->tags = json_object();
	s->env = json_object();
	s->template = xstrdup(TEMPLATE_HOST);
	s->engine = ENGINE_BASE;
	s->limits = *limits;
	s->channels_to = CHANNEL_BLOCK; /* the record that is written anyway reserves the first */
	return s;
}

static char *copy_text(const json_t *manifest, const char *field)
{
	const char *text = json_string_value(json_object_get(manifest, field));

	return text && text[0] ? xstrdup(text) : NULL;
}

/* Its own variables come before the template's. */
static void set_template(struct sandbox *s, const struct template *t)
{
	const json_t *manifest = template_manifest(t), *env = json_object_get(manifest, "env");

	free(s->template);
	free(s->user);
	free(s->cwd);
	s->template = xstrdup(template_name(t));
	s->image = *template_image(t);
	s->user = copy_text(manifest, "user");
	s->cwd = copy_text(manifest, "cwd");
	if (json_is_object(env))
		(void)json_object_update_missing(s->env, (json_t *)unconst(env));
}

/* Everything except the image is the template's. */
static void set_packages(struct sandbox *s, const struct template *set)
{
	s->image = *template_image(set);
	s->packages = json_incref(
		json_object_get(json_object_get(template_manifest(set), "set"), "packages"));
}

static void set_image(struct sandbox *s, const struct digest *image)
{
	char hex[DIGEST_HEX];

	digest_to_hex(image, hex);
	free(s->template);
	s->template = xasprintf("sha256:%s", hex);
	s->image = *image;
}

int create_spare(struct fleet *fleet, const struct template *t, const struct guest_limits *limits,
                 uint32_t engine, struct spare *spare, struct sandbox **ret, struct err *err)
{
	struct sandbox *s = new_sandbox(fleet, limits);
	int r;

	s->engine = engine;
	if (t)
		set_template(s, t);
	if (engine_traits(engine)->has_copies)
		fleet->spares->start_from_copy(s, /* has_interpreters= */ true);
	if (s->warm_copy[0]) /* it has no row before it is taken, and that reserves these too */
		s->channels_to += CHANNEL_BLOCK;
	s->spare = spare;
	r = create_ask_guest(s, err);
	if (r < 0) {
		s->spare = NULL;
		sandbox_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void set_owner(struct sandbox *s, const char *project_id, const struct sandbox_spec *spec,
                      uint64_t timeout_ms)
{
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", project_id);
	(void)snprintf(s->key_id, sizeof(s->key_id), "%s", spec->key_id ? spec->key_id : "");
	if (spec->name) {
		free(s->name);
		s->name = xstrdup(spec->name);
	}
	if (spec->group) {
		s->group = xstrdup(spec->group);
		s->alias = xstrdup(group_alias(spec));
		s->group_number = group_free_number(s->fleet, project_id, spec->group);
	}
	if (spec->tags) {
		json_decref(s->tags);
		s->tags = json_deep_copy(spec->tags);
	}
	if (spec->env) {
		json_decref(s->env);
		s->env = json_deep_copy(spec->env);
	}
	s->notes = json_deep_copy(spec->notes);
	s->results = json_array_size(spec->results) > 0 ? json_deep_copy(spec->results) : NULL;
	s->exec_limits = spec->exec_limits;
	s->timeout_ms = timeout_ms;
	s->idle_timeout_ms = spec->idle_timeout_ms;
	(void)!rules_on_timeout(spec->on_timeout, spec->is_persistent, &s->on_timeout, NULL);
	(void)!rules_on_idle(spec->on_idle, &s->on_idle, NULL);
	s->is_persistent = s->is_kept = spec->is_persistent;
	(void)!rules_on_node_loss(s->fleet, spec, &s->on_node_loss, NULL);
	s->auto_resumes = spec->auto_resumes;
	s->counts_paused = spec->counts_paused;
	s->ends_with_caller = spec->ends_with_caller;
	s->created_us = clock_wall_us();
	sandbox_set_share(s);
	clocks_await(s);
}

static void set_creator(struct sandbox *s, sandbox_done_fn done, void *arg)
{
	create_await(s);
	sandbox_wait(&s->callers, done, arg);
	fleet_attach(s->fleet, s);
}

struct made { /* what is recorded together */
	struct sandbox *s;
	const struct idempotency_key *idempotency_key;
};

static int put_rows(void *arg, struct err *err)
{
	const struct made *made = arg;
	int r = sandbox_save(made->s, err);

	return r < 0 ? r
	             : idempotency_put(made->s->fleet, made->s->project_id, made->idempotency_key,
	                               made->s->id, err);
}

static int delete_row(void *arg, struct err *err)
{
	const struct sandbox *s = arg;

	return store_delete_sandbox(s->fleet->config.store, s->id, err);
}

void create_take_back(struct sandbox *s, enum end_cause cause)
{
	idempotency_drop(s->fleet, s->id);
	emit_refused(s, cause);
	(void)!event_log_save(s->fleet->config.events, delete_row, s, NULL);
}

static void on_undone(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

void create_undo(struct sandbox *s, const struct err *err)
{
	log_warn("sandbox.undone", "id=%s error='%s'", s->id, err->message);
	idempotency_drop(s->fleet, s->id);
	sandbox_delete(s, END_DELETED, on_undone, NULL);
}

/* The row, the log entry and the idempotency key are written together or not at all. After a crash
 * the next start ends a sandbox with such a row, and requests with the same key wait for that. */
static int record(struct sandbox *s, const struct idempotency_key *idempotency_key, struct err *err)
{
	struct made made = {s, idempotency_key};

	emit_created(s);
	return event_log_save(s->fleet->config.events, put_rows, &made, err);
}

/* Whether what runs in a spare is as if its owner had started it: it was started without the
 * owner's variables, and trusts the issuer of refusals if it has a door. */
static bool fits_interpreters(const struct sandbox *spare, const struct sandbox_spec *spec,
                              const struct policy *policy)
{
	if (json_object_size(spec->env) > 0)
		return false;
	return network_is_open(spare) ? !policy_opens_tls(policy) : !policy_needs_trust(policy);
}

static int claim(struct sandbox *s, const struct idempotency_key *idempotency_key, bool is_warm,
                 sandbox_done_fn done, void *arg, struct err *err)
{
	int r = record(s, idempotency_key, err);

	if (r < 0) {
		create_take_back(s, END_GUEST_CRASH);
		sandbox_end(s, END_DELETED, NULL, "it could not be recorded");
		return r;
	}
	s->fleet->spares->take(s);
	if (!is_warm)
		context_cool(s);
	set_creator(s, done, arg);
	life_next(s);
	return 0;
}

/* In a cluster a name or an idempotency key is had when the database says so. The row is there
 * before, so that a gateway that is killed gives back what it has taken. */

static bool needs_agreement(const struct fleet *fleet, const char *name,
                            const struct idempotency_key *idempotency_key)
{
	return node_is_in(fleet->config.node) && ((name && name[0]) || idempotency_key);
}

struct name_wait {
	struct fleet *fleet;
	char id[ID_SIZE];
};

static void on_agreed(const struct err *err, void *arg)
{
	const struct name_wait a = *(struct name_wait *)arg;
	struct sandbox *s = fleet_find_id(a.fleet, a.id);

	free(arg);
	if (!s || s->phase != PHASE_STARTING) { /* it was deleted meanwhile */
		if (!err)
			node_give(a.fleet->config.node, a.id, /* with_key= */ true);
	} else if (err) {
		create_fail(s, err);
	} else {
		create_begin_guest(s);
	}
}

static void agree(struct sandbox *s, const struct idempotency_key *key)
{
	struct name_wait *a = xnew0(struct name_wait);

	a->fleet = s->fleet;
	memcpy(a->id, s->id, sizeof(a->id));
	node_take(s->fleet->config.node,
	          &(struct node_taking){.project_id = s->project_id,
	                                .sandbox_id = s->id,
	                                .name = s->name,
	                                .key = key ? key->key : NULL,
	                                .digest = key ? key->digest : NULL},
	          on_agreed, a);
}

static int begin(struct sandbox *s, const struct idempotency_key *idempotency_key,
                 sandbox_done_fn done, void *arg, struct err *err)
{
	const bool is_agreed = needs_agreement(s->fleet, s->name, idempotency_key);
	int r = record(s, idempotency_key, err);

	if (r == 0 && !is_agreed)
		r = create_ask_guest(s, err);
	if (r < 0) {
		create_take_back(s, END_GUEST_CRASH);
		sandbox_free(s);
		return r;
	}
	set_creator(s, done, arg);
	if (is_agreed)
		agree(s, idempotency_key);
	return 0;
}

static int check_place(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                       struct err *err)
{
	if (spec->is_persistent && fleet->n_persistent >= fleet->config.persistent_max) {
		(void)err_set(err, ERR_CAPACITY, 0,
		              "there are %zu persistent sandboxes, which is the limit",
		              fleet->n_persistent);
		return err_hint(err, "delete some: a stopped one counts too");
	}
	if (spec->name && fleet_has_name(fleet, project_id, spec->name)) {
		(void)err_set(err, ERR_CONFLICT, 0, "name: a sandbox named '%s' exists already",
		              spec->name);
		return err_hint(err, "use it: create with get_or_create; or delete it first");
	}
	return spec->group ? group_check_room(fleet, project_id, spec, err) : 0;
}

/* Those who wait come first, also before this project's others; what cannot ever be is refused
 * before it waits. */
static int check_turn(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                      const struct guest_limits *limits, struct err *err)
{
	int r = account_check_possible(fleet, project_id, spec->key_id, limits, err);

	if (r < 0)
		return r;
	create_queue_settle(fleet->creates);
	if (spec->wait_ms > 0 && create_queue_has_before(fleet->creates, project_id))
		return err_set(err, ERR_LIMIT, 0, "%zu creates of the project wait before it",
		               create_queue_waiting(fleet->creates, project_id));
	r = spec->shown[0] ? 0 : check_cordon(fleet, err); /* what is here can be looked at */
	return r < 0 ? r : create_check_room(fleet, err);
}

int sandbox_create(struct fleet *fleet, const char *project_id, const struct sandbox_spec *spec,
                   sandbox_done_fn done, void *arg, struct err *err)
{
	auto_call(wishes_done) struct wishes w = {0};
	struct quota_held held;
	struct sandbox *spare, *s;
	struct spare_kind kind;
	bool has_copies, is_warm;
	int r = check_up(fleet, err);

	if (r == 0)
		r = wishes_read(fleet, project_id, spec, &w, err);
	if (r == 0)
		r = check_place(fleet, project_id, spec, err);
	if (r == 0 && needs_agreement(fleet, spec->name, spec->idempotency_key))
		r = node_check(fleet->config.node, err);
	if (r == 0)
		r = check_turn(fleet, project_id, spec, &w.limits, err);
	if (r == 0)
		r = account_admit(fleet, project_id, spec->key_id, &w.limits, &held, err);
	if (r < 0)
		return r;
	has_copies = engine_traits(w.engine)->has_copies;
	kind = wishes_spare(fleet, project_id, spec, &w);
	spare = wishes_spare_bar(spec, &w) || needs_agreement(fleet, NULL, spec->idempotency_key)
	                ? NULL
	                : fleet->spares->offer(fleet->pool, &kind);
	is_warm = spare && fits_interpreters(spare, spec, w.policy);
	s = spare ? spare : new_sandbox(fleet, &w.limits);
	s->engine = w.engine;
	set_owner(s, project_id, spec, w.timeout_ms);
	if (w.template)
		set_template(s, w.template);
	else if (spec->image)
		set_image(s, spec->image);
	if (spec->set)
		set_packages(s, spec->set);
	if (w.snapshot)
		snapshot_apply(w.snapshot, !spec->has_no_memory, s);
	s->on_made = spec->on_made;
	s->made_arg = spec->made_arg;
	s->is_shown = spec->is_shown;
	s->is_writable = spec->is_writable;
	for (size_t i = 0; i < SHOWN_MAX && spec->shown[i]; i++)
		(void)snprintf(s->shown[i], sizeof(s->shown[i]), "%s", spec->shown[i]);
	memcpy(s->volumes, w.volumes, sizeof(s->volumes));
	if (spec->network || spec->group)
		network_set(s, take_ptr(w.policy));
	if (w.source)
		fetch_plan(s, take_ptr(w.source), take_ptr(w.lent));
	if (has_copies && w.template && !spec->set && !spare)
		fleet->spares->start_from_copy(s, json_object_size(spec->env) == 0 &&
		                                          !network_needs_trust(s));
	s->account->held = held;
	create_begin_span(s, "sandbox.create");
	span_put_text(s->span, "cloche.pool", spare ? "hit" : "miss");
	return spare ? claim(s, spec->idempotency_key, is_warm, done, arg, err)
	             : begin(s, spec->idempotency_key, done, arg, err);
}
