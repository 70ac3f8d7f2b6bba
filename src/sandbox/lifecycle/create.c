// SPDX-License-Identifier: Apache-2.0
/*
 * A create checks the request, writes the row, and then runs the steps of create_steps[]. The row
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

void create_unawait(struct sandbox *s)
{
	struct share *share = sandbox_share(s);

	if (!s->is_awaited)
		return;
	s->is_awaited = false;
	s->fleet->n_creating--;
	if (share)
		share->n_creating--;
	if (s->fleet->n_creating == 0 || (share && share->n_creating == 0))
		s->fleet->spares->look(s->fleet->pool);
}

/* Ids and short words alone: what a name of a template or a project may be is our own rule. */
static void begin_span(struct sandbox *s, const char *name)
{
	span_drop(s->span); /* of one that nobody was told of */
	s->span = span_begin(s->fleet->config.telemetry, name);
	span_put_text(s->span, "cloche.sandbox.id", s->id);
	span_put_text(s->span, "cloche.project.id", s->project_id);
	span_put_text(s->span, "cloche.template", s->template);
	span_put_text(s->span, "cloche.engine", engine_name(s->engine));
}

void create_tell(struct sandbox *s, const struct err *err)
{
	span_end(take_ptr(s->span), err ? err_code_name(err->code) : NULL);
	create_unawait(s);
	if (!err)
		s->fleet->spares->on_booted(s);
	sandbox_tell_all(s, &s->callers, err);
}

void create_await(struct sandbox *s)
{
	struct share *share = sandbox_share(s);

	s->is_awaited = true;
	s->fleet->n_creating++;
	if (share)
		share->n_creating++;
}

void create_fail(struct sandbox *s, const struct err *err)
{
	if (s->paused_in[0]) {
		pause_on_failed(s, err);
		return;
	}
	if (s->spare)
		s->fleet->spares->on_failed(s, err);
	else
		log_warn("sandbox.failed", "id=%s step=%s error='%s'", s->id, s->step->name,
		         err->message);
	rollback_on_failed(s);
	if (s->resumes == 0)
		s->is_kept = false; /* nothing of it was anybody's */
	sandbox_undo(s, END_GUEST_CRASH,
	             s->resumes > 0 ? "it could not be resumed" : "it could not be created", err);
}

/* One label of a DNS name: what the broker and prompts inside accept. */
void create_hostname(const struct sandbox *s, char hostname[64])
{
	(void)snprintf(hostname, 64, "%s", s->name[0] ? s->name : s->id);
	for (char *p = hostname; *p; p++)
		if (*p == '_')
			*p = '-';
}

static int ask_guest(struct sandbox *s, struct err *err);

static void begin_guest(struct sandbox *s)
{
	struct err err;

	if (ask_guest(s, &err) < 0)
		create_fail(s, &err);
}

/* A copy's interpreter goes on before anybody is told of the copy. */
static void begin_memory(struct sandbox *s)
{
	const sandbox_made_fn on_made = s->on_made;

	s->on_made = NULL;
	if (on_made)
		on_made(s, s->made_arg);
	else
		life_next(s);
}

static const struct life_step create_steps[] = {
	{"guest", begin_guest},     /* the broker makes it, and its agent answers */
	{"source", fetch_begin},    /* nobody can call it yet: nothing runs beside this */
	{"network", network_begin}, /* its policy holds before its first call */
	{"memory", begin_memory},   /* fork.c */
	{"running", sandbox_begin},
};

void create_init(struct sandbox *s)
{
	s->step = create_steps;
}

static void on_create_reply(const struct msg_reply *reply, int *fds, void *arg)
{
	struct sandbox *s = arg;

	s->ask = 0;
	span_part(s->span, "broker");
	if (reply->err.code == ERR_NONE && fds[0] >= 0) {
		s->isolation = reply->isolation;
		if (!s->link) /* else it comes back with all that it had */
			sandbox_make_link(s);
		copied_processes_rejoin(s);
		if (s->phase == PHASE_WAKING)
			link_hold(s->link);
		link_attach(s->link, take_fd(&fds[0]));
		return;
	}
	if (!s->fleet->spares->is_created_anew(s, &reply->err) ||
	    s->spare) /* for which nobody waits */
		create_fail(s, &reply->err);
	else
		begin_guest(s);
}

/* A spare is charged to the project that took the one before it. */
static struct share *create_share(const struct sandbox *s)
{
	return s->spare ? s->fleet->spares->share(s->spare) : sandbox_share(s);
}

static int ask_guest(struct sandbox *s, struct err *err)
{
	struct msg_request req = {.op = MSG_CREATE};

	memcpy(req.id, s->id, sizeof(req.id));
	create_hostname(s, req.create.hostname);
	req.create.engine = s->engine;
	req.create.limits = s->limits;
	req.create.image = s->image;
	req.create.shows = !s->is_shown     ? SHOWS_NOTHING
	                   : s->is_writable ? SHOWS_IMAGE_TO_WRITE
	                                    : SHOWS_IMAGE;
	memcpy(req.create.shown, s->shown, sizeof(req.create.shown));
	memcpy(req.create.volumes, s->volumes, sizeof(req.create.volumes));
	req.create.keeper = s->is_persistent ? store_number(s->fleet->config.store) : 0;
	req.create.is_resumed = s->resumes > 0 && s->is_persistent;
	if (s->rolls_to[0])
		memcpy(req.create.snapshot, s->rolls_to, sizeof(req.create.snapshot));
	else if (s->paused_in[0])
		memcpy(req.create.snapshot, s->paused_in, sizeof(req.create.snapshot));
	else if (s->resumes == 0)
		memcpy(req.create.snapshot, s->warm_copy[0] ? s->warm_copy : s->snapshot_id,
		       sizeof(req.create.snapshot));
	req.create.with_memory =
		s->paused_in[0] ? s->phase != PHASE_WAKING_COLD : s->carried != NULL;
	if (s->warm_copy[0] && req.create.with_memory)
		req.create.with_memory = MEMORY_WARM;
	owner_name(create_share(s), &req.create.owner, &req.create.weight);
	req.create.is_ahead = s->spare && !s->fleet->spares->is_short(s->spare);
	return broker_client_ask_fds(s->fleet->broker, create_share(s), &req, on_create_reply, s,
	                             &s->ask, err);
}

void create_again(struct sandbox *s, enum sandbox_phase how)
{
	struct err err;

	sandbox_move(s, how);
	fleet_on_revived(s->fleet, s);
	create_await(s);
	s->resumes++;
	begin_span(s, "sandbox.resume");
	s->oom_kills = s->pids_refused = 0; /* its cgroups are new */
	create_init(s);
	if (sandbox_save(s, &err) < 0)
		create_fail(s, &err); /* ends where it was, and tells the callers */
	else
		life_begin(s, create_steps);
}

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
	(void)err_set(err, ERR_CAPACITY, 0, "there are %zu sandboxes, which is the most",
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
	r = ask_guest(s, err);
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
	s->results = json_deep_copy(spec->results);
	s->exec_limits = spec->exec_limits;
	s->timeout_ms = timeout_ms;
	s->idle_timeout_ms = spec->idle_timeout_ms;
	(void)!rules_on_timeout(spec->on_timeout, spec->is_persistent, &s->on_timeout, NULL);
	(void)!rules_on_idle(spec->on_idle, &s->on_idle, NULL);
	s->is_persistent = s->is_kept = spec->is_persistent;
	s->auto_resumes = spec->auto_resumes;
	s->counts_paused = spec->counts_paused;
	s->ends_with_caller = spec->ends_with_caller;
	s->created_us = clock_wall_us();
	sandbox_set_share(s);
	clocks_begin(s);
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
		begin_guest(s);
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
		r = ask_guest(s, err);
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
		              "there are %zu persistent sandboxes, which is the most",
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
	r = check_cordon(fleet, err);
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
	begin_span(s, "sandbox.create");
	span_put_text(s->span, "cloche.pool", spare ? "hit" : "miss");
	return spare ? claim(s, spec->idempotency_key, is_warm, done, arg, err)
	             : begin(s, spec->idempotency_key, done, arg, err);
}
