// SPDX-License-Identifier: Apache-2.0
/*
 * A fork is a snapshot and several creates from it, all at once. If one of them fails, only that
 * one is reported; the others go on. The snapshot is automatic: the forks share it, and it is
 * removed with the last of them.
 *
 * Memory goes over as an imprint, if the source is one idle interpreter and nothing else
 * (imprint.h). Then the snapshot has the files alone, copies are made from it while the memory is
 * still being written, and a copy is reported when its interpreter has gone on. If that fails
 * anywhere, all of it is undone, and the fork begins anew with CRIU: the copies are of one moment,
 * and which one within the call is not promised.
 *
 * A fork has the environment, limits, network policy and other settings of its source, unless the
 * caller says otherwise. If the source is paused on disk, its snapshot is used. Name, tokens and
 * everything else that identifies a sandbox are its own; so is its group, if it is to have one.
 */
#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/find.h"
#include "sandbox/model/registry.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/imprint.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/storage/storage.h"
#include "tenant/quota_lease.h"

#define POLICY_BYTES (512 * 1024) /* a row has room for less */

struct fork {
	struct fleet *fleet;
	char project_id[ID_SIZE], key_id[ID_SIZE];
	struct fork_spec spec;
	uint32_t engine;     /* its number */
	char *name;          /* or NULL */
	char *group, *alias; /* likewise */
	json_t *tags, *env, *network, *notes, *volumes, *results;
	char *on_timeout, *on_idle;
	struct snapshot *sn;
	char snapshot_id[ID_SIZE];
	char source_id[ID_SIZE];
	struct imprint *imprint;   /* NULL: not this way */
	char *why;                 /* not; or NULL */
	bool has_files, has_bytes; /* copies are being made; may enter, unless it failed */
	struct made {
		char id[ID_SIZE]; /* "" = see err */
		struct err err;
		struct one *waiting; /* for the imprint's bytes, or NULL */
	} * made;                    /* with an imprint, until all are there */
	uint32_t left;
	struct fork_ops ops;
	void *arg;
};

struct one {
	struct fork *fork;
	uint32_t i;
	uint64_t until_us; /* it waits for the cluster's quota at most */
	bool is_entering;  /* on_entered() comes */
	bool is_told;      /* on_one() has come */
};

static void fork_free(struct fork *f)
{
	imprint_free(f->imprint);
	free(f->why);
	free(f->made);
	json_decref(f->tags);
	json_decref(f->env);
	json_decref(f->network);
	json_decref(f->notes);
	json_decref(f->volumes);
	json_decref(f->results);
	free(f->on_timeout);
	free(f->on_idle);
	free(f->name);
	free(f->group);
	free(f->alias);
	free(f);
}

static void tell_end(struct fork *f, const struct err *err)
{
	struct snapshot *sn = err ? NULL : snapshot_find(f->fleet, f->project_id, f->snapshot_id);
	const struct fork_memory memory = {
		.by = !f->spec.has_memory        ? NULL
	              : f->imprint               ? "imprint"
	              : f->engine == ENGINE_BASE ? "criu"
	                                         : "machine",
		.why = f->why,
	};

	f->ops.on_end(sn, &memory, err, f->arg);
	if (!err)
		snapshot_drop_unused(f->fleet, f->snapshot_id); /* none of them came to be */
	if (f->imprint && !err)
		imprint_keep(take_ptr(f->imprint));
	fork_free(f);
}

static void go_by_criu(struct fork *f, const char *why);

static void on_undone(struct sandbox *s, const struct err *err, void *arg)
{
	(void)s;
	(void)err;
	(void)arg;
}

/* Reports all copies, or undoes them if one could not go on. */
static void finish_imprint(struct fork *f)
{
	for (uint32_t i = 0; i < f->spec.count; i++) {
		struct sandbox *s = f->made[i].id[0]
		                            ? sandbox_find(f->fleet, f->project_id, f->made[i].id)
		                            : NULL;

		if (f->why && s)
			sandbox_delete(s, END_DELETED, on_undone, NULL);
		if (f->why)
			continue;
		if (!s && f->made[i].id[0])
			(void)err_set(&f->made[i].err, ERR_GONE, 0, "the fork has ended");
		f->ops.on_one(i, s, s ? NULL : &f->made[i].err, f->arg);
	}
}

static void finish(struct fork *f)
{
	if (f->imprint)
		finish_imprint(f);
	if (f->imprint && f->why)
		go_by_criu(f, NULL);
	else
		tell_end(f, NULL);
}

static void end_one(struct one *one)
{
	struct fork *f = one->fork;

	free(one);
	if (--f->left == 0)
		finish(f);
}

/* One whose memory is not taken over is not to be. */
static void go_on(struct one *one)
{
	const struct fork *f = one->fork;
	struct sandbox *s = sandbox_find(f->fleet, f->project_id, f->made[one->i].id);
	struct err err;

	if (!s || s->state != SANDBOX_CREATING) /* it ends, and on_one() tells so */
		return;
	if (f->why) {
		(void)err_set(&err, ERR_INTERNAL, 0, "its memory could not be copied: %s", f->why);
		create_fail(s, &err);
	} else {
		life_next(s);
	}
}

static void on_entered(const char *why, void *arg)
{
	struct one *one = arg;

	one->is_entering = false;
	if (why && !one->fork->why)
		one->fork->why = xstrdup(why);
	log_debug("fork.entered", "source=%s i=%u", one->fork->source_id, one->i);
	if (one->is_told)
		end_one(one);
	else
		go_on(one);
}

/* The bytes are there, or will never be. */
static void enter_one(struct one *one)
{
	struct fork *f = one->fork;
	struct sandbox *s = sandbox_find(f->fleet, f->project_id, f->made[one->i].id);

	if (f->why || !s || s->state != SANDBOX_CREATING) {
		go_on(one);
		return;
	}
	one->is_entering = true;
	imprint_enter(f->imprint, s, on_entered, one);
}

static void enter_waiting(struct fork *f)
{
	f->left++; /* it is not over before the last one */
	for (uint32_t i = 0; i < f->spec.count; i++)
		if (f->made[i].waiting)
			enter_one(take_ptr(f->made[i].waiting));
	if (--f->left == 0)
		finish(f);
}

static void on_made(struct sandbox *s, void *arg)
{
	struct one *one = arg;
	struct fork *f = one->fork;

	memcpy(f->made[one->i].id, s->id, sizeof(f->made[one->i].id));
	log_debug("fork.made", "source=%s i=%u", f->source_id, one->i);
	if (f->has_bytes) {
		enter_one(one);
		return;
	}
	create_unawait(s); /* it may take long: others are not kept from what waits for creates */
	f->made[one->i].waiting = one;
	imprint_prepare(f->imprint, s);
}

static void on_one(struct sandbox *s, const struct err *err, void *arg)
{
	struct one *one = arg;
	struct fork *f = one->fork;

	if (!f->imprint) {
		f->ops.on_one(one->i, s, err, f->arg);
		end_one(one);
		return;
	}
	f->made[one->i].waiting = NULL;
	if (!s) {
		f->made[one->i].id[0] = '\0';
		f->made[one->i].err = *err;
	}
	one->is_told = true;
	if (!one->is_entering)
		end_one(one);
}

static void try_one(void *arg)
{
	struct one *one = arg;
	struct fork *f = one->fork;
	const uint32_t i = one->i;
	struct sandbox_spec spec = f->spec.sandbox;
	char name[SANDBOX_NAME_MAX + 12], alias[SANDBOX_NAME_MAX + 12];
	struct err err;

	spec.snapshot = f->snapshot_id;
	spec.on_made = f->imprint ? on_made : NULL;
	spec.made_arg = one;
	spec.key_id = f->key_id[0] ? f->key_id : NULL;
	spec.tags = f->tags;
	spec.env = f->env;
	spec.notes = f->notes;
	spec.volumes = f->volumes;
	spec.results = f->results;
	spec.network = f->network;
	spec.on_timeout = f->on_timeout;
	spec.on_idle = f->on_idle;
	if (f->name) {
		(void)snprintf(name, sizeof(name), f->spec.count > 1 ? "%s-%u" : "%s", f->name,
		               i + 1);
		spec.name = name;
	}
	spec.group = f->group;
	spec.alias = NULL;
	if (f->alias) {
		(void)snprintf(alias, sizeof(alias), f->spec.count > 1 ? "%s-%u" : "%s", f->alias,
		               i + 1);
		spec.alias = alias;
	}
	if (sandbox_create(f->fleet, f->project_id, &spec, on_one, one, &err) >= 0)
		return;
	if (!err.quota.is_asked || node_await_quota(f->fleet->config.node, one->until_us, try_one,
	                                            one) < 0) /* the cluster is asked for more */
		on_one(NULL, &err, one);
}

static void start_one(struct fork *f, uint32_t i)
{
	struct one *one = xnew0(struct one);

	*one = (struct one){.fork = f, .i = i, .until_us = clock_steady_us() + QUOTA_HOPE_US};
	try_one(one);
}

static void start_all(struct loop *loop, void *arg)
{
	struct fork *f = arg;

	(void)loop;
	f->left = f->spec.count + 1; /* one more: it is not over while it begins */
	for (uint32_t i = 0; i < f->spec.count; i++)
		start_one(f, i);
	if (--f->left == 0)
		finish(f);
}

static void on_snapshot(struct snapshot *sn, const struct err *err, void *arg)
{
	struct fork *f = arg;

	if (err) {
		tell_end(f, err);
		return;
	}
	memcpy(f->snapshot_id, sn->id, sizeof(f->snapshot_id));
	start_all(f->fleet->config.loop, f);
}

static void go_by_criu(struct fork *f, const char *why)
{
	const struct snapshot_wish wish = {.has_memory = true,
	                                   .closes_connections = f->spec.closes_connections,
	                                   .is_automatic = true};
	struct sandbox *s = sandbox_find(f->fleet, f->project_id, f->source_id);
	struct err err;

	if (why && !f->why)
		f->why = xstrdup(why);
	log_debug("fork.by_criu", "source=%s why='%s'", f->source_id, f->why);
	imprint_free(f->imprint);
	f->imprint = NULL;
	if (f->has_files)
		snapshot_drop_unused(f->fleet, f->snapshot_id);
	if (!s)
		(void)err_set(&err, ERR_GONE, 0, "the sandbox has ended");
	if (!s || snapshot_take(s, &wish, on_snapshot, f, &err) < 0)
		tell_end(f, &err);
}

static void on_files(struct snapshot *sn, const struct err *err, void *arg)
{
	struct fork *f = arg;
	const bool is_alone = imprint_release(f->imprint);

	if (err) {
		tell_end(f, err);
		return;
	}
	memcpy(f->snapshot_id, sn->id, sizeof(f->snapshot_id));
	f->has_files = true;
	if (!is_alone && !f->why)
		f->why = xstrdup("something else was begun in the sandbox meanwhile");
	log_debug("fork.files", "source=%s", f->source_id);
	if (f->why)
		go_by_criu(f, NULL);
	else
		start_all(f->fleet->config.loop, f);
}

/* Its memory is fixed: now the files, while it is written. */
static void on_begun(const char *why, void *arg)
{
	const struct snapshot_wish wish = {.is_automatic = true};
	struct fork *f = arg;
	struct sandbox *s = sandbox_find(f->fleet, f->project_id, f->source_id);
	struct err err;

	log_debug("fork.fixed", "source=%s", f->source_id);
	if (why || !s)
		go_by_criu(f, why ? why : "the sandbox has ended");
	else if (snapshot_take(s, &wish, on_files, f, &err) < 0)
		tell_end(f, &err);
}

static void on_whole(const char *why, void *arg)
{
	struct fork *f = arg;

	if (why && !f->why)
		f->why = xstrdup(why);
	f->has_bytes = true;
	log_debug("fork.bytes", "source=%s", f->source_id);
	if (f->has_files) /* else they begin with the files */
		enter_waiting(f);
}

static bool begin_imprint(struct fork *f, struct sandbox *s)
{
	static const struct imprint_ops ops = {on_begun, on_whole};
	const char *why;

	log_debug("fork.asked", "source=%s", f->source_id);
	f->imprint = imprint_take(s, &ops, f, &why);
	if (f->imprint)
		f->made = xcalloc(f->spec.count, sizeof(*f->made));
	else
		f->why = xstrdup(why);
	return f->imprint != NULL;
}

static json_t *read_network(const struct sandbox *s)
{
	auto_call(buf_done) struct buf text = BUF_INIT(POLICY_BYTES);
	auto_json json_t *object = NULL;
	struct json_writer w;

	json_writer_init(&w, &text);
	json_open_object(&w, NULL);
	if (s->network)
		policy_write(network_policy(s), &w, "network", SECRETS_SHOWN);
	json_close_object(&w);
	if (json_writer_end(&w) < 0 || json_parse(text.data, text.len, &object, NULL) < 0)
		return NULL;
	return json_incref(json_object_get(object, "network"));
}

/* Fields that the spec does not set are taken from the source. */
static struct fork *fork_new(const struct sandbox *s, const struct fork_spec *spec)
{
	const struct sandbox_spec *asked = &spec->sandbox;
	struct fork *f = xnew0(struct fork);

	*f = (struct fork){.fleet = s->fleet, .spec = *spec, .engine = s->engine};
	memcpy(f->source_id, s->id, sizeof(f->source_id));
	memcpy(f->project_id, s->project_id, sizeof(f->project_id));
	(void)snprintf(f->key_id, sizeof(f->key_id), "%s", asked->key_id ? asked->key_id : "");
	f->name = asked->name ? xstrdup(asked->name) : NULL;
	f->group = asked->group ? xstrdup(asked->group) : NULL;
	f->alias = asked->alias ? xstrdup(asked->alias) : NULL;
	f->tags = json_deep_copy(asked->tags ? asked->tags : s->tags);
	f->env = asked->env ? json_deep_copy(asked->env) : NULL;
	f->notes = json_deep_copy(asked->notes);
	f->volumes = volume_mounts_describe(s);
	if (!asked->is_persistent)
		f->results = json_deep_copy(asked->results ? asked->results : s->results);
	f->network = asked->network ? json_deep_copy(asked->network) : read_network(s);
	f->on_timeout = asked->on_timeout ? xstrdup(asked->on_timeout) : NULL;
	f->on_idle = asked->on_idle ? xstrdup(asked->on_idle) : NULL;
	f->spec.sandbox.exec_limits = s->exec_limits;
	if (!asked->timeout_ms)
		f->spec.sandbox.timeout_ms = s->timeout_ms;
	if (!asked->idle_timeout_ms)
		f->spec.sandbox.idle_timeout_ms = s->idle_timeout_ms;
	return f;
}

int sandbox_fork(struct sandbox *s, const struct fork_spec *spec, const struct fork_ops *ops,
                 void *arg, struct err *err)
{
	const struct snapshot_wish wish = {.has_memory = spec->has_memory,
	                                   .closes_connections = spec->closes_connections,
	                                   .is_automatic = true};
	struct fork *f;
	int r = 0;

	if (spec->count < 1 || spec->count > FORK_MAX)
		return err_field(err, "count", "must be from 1 to %d", FORK_MAX);
	if (spec->sandbox.name)
		r = rules_check_name(spec->sandbox.name, err);
	if (r == 0)
		r = group_check_spec(&spec->sandbox, err);
	if (r < 0)
		return r;
	f = fork_new(s, spec);
	f->ops = *ops;
	f->arg = arg;
	if (pause_is_on_disk(s)) {
		f->spec.sandbox.has_no_memory = !spec->has_memory;
		memcpy(f->snapshot_id, s->paused_in, sizeof(f->snapshot_id));
		loop_defer(s->fleet->config.loop, start_all, f);
		return 0;
	}
	if (spec->has_memory && begin_imprint(f, s))
		return 0;
	r = snapshot_take(s, &wish, on_snapshot, f, err);
	if (r < 0)
		fork_free(f);
	return r;
}
