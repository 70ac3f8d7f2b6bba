// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox as a row of the store and as JSON for clients. The row's own JSON is written and read
 * only here. It holds the values of the environment, which clients never see again.
 */
#include "base/clock.h"
#include "base/json/row_fields.h"
#include "base/log.h"
#include "node/owned.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/limits_json.h"
#include "sandbox/network/network.h"
#include "sandbox/network/ports.h"
#include "sandbox/storage/storage.h"

#include <assert.h>

#define ROW_MAX (512 * 1024) /* tags and environment are bounded well below it */

/* The fields that are members of the struct; the others are below. */
#define FIELD(...) ROW_FIELD(sandbox, __VA_ARGS__)
#define NEEDED     .is_required = true
/* clang-format off */
static const struct row_field fields[] = {
	FIELD("tags",             ROW_OBJECT, tags, NEEDED),
	FIELD("env",              ROW_OBJECT, env, NEEDED),
	FIELD("output_bytes",     ROW_U64,    exec_limits.output_bytes),
	FIELD("execs_max",        ROW_U32,    exec_limits.execs),
	FIELD("timeout_ms",       ROW_U64,    timeout_ms, NEEDED),
	FIELD("idle_timeout_ms",  ROW_U64,    idle_timeout_ms),
	FIELD("on_timeout",       ROW_U32,    on_timeout, .max = ON_TIMEOUT_COUNT - 1),
	FIELD("on_idle",          ROW_U32,    on_idle, .max = ON_TIMEOUT_COUNT),
	FIELD("deadline_us",      ROW_U64,    deadline_us),
	FIELD("left_us",          ROW_U64,    left_us),
	FIELD("counts_paused",    ROW_BOOL,   counts_paused),
	FIELD("rests_until_us",   ROW_U64,    rests_until_us),
	FIELD("is_persistent",    ROW_BOOL,   is_persistent),
	FIELD("is_kept",          ROW_BOOL,   is_kept),
	FIELD("is_deleted",       ROW_BOOL,   is_deleted),
	FIELD("auto_resumes",     ROW_BOOL,   auto_resumes),
	FIELD("ends_with_caller", ROW_BOOL,   ends_with_caller),
	FIELD("resumes",          ROW_U64,    resumes),
	FIELD("cause",            ROW_U32,    end.cause, NEEDED, .max = END_CAUSE_COUNT - 1),
	FIELD("detail",           ROW_OBJECT, end.detail),
	FIELD("message",          ROW_TEXT,   end.message, NEEDED),
	FIELD("channels_to",      ROW_U32,    channels_to, NEEDED),
	FIELD("oom_kills",        ROW_U64,    oom_kills, NEEDED),
	FIELD("pids_refused",     ROW_U64,    pids_refused),
	FIELD("key_id",           ROW_TEXT,   key_id), /* not in the rows of version 1 */
	FIELD("source",           ROW_OBJECT, source),
	FIELD("template",         ROW_STRING, template),
	FIELD("user",             ROW_STRING, user),
	FIELD("cwd",              ROW_STRING, cwd),
	FIELD("snapshot_id",      ROW_TEXT,   snapshot_id),
	FIELD("base_bytes",       ROW_U64,    base_bytes),
	FIELD("rolls_to",         ROW_TEXT,   rolls_to),
	FIELD("paused_in",        ROW_TEXT,   paused_in),
	FIELD("on_node_loss",     ROW_U32,    on_node_loss, .max = ON_NODE_LOSS_COUNT - 1),
	FIELD("is_owned",         ROW_BOOL,   outlive.is_asked),
	FIELD("term",             ROW_U64,    outlive.term),
	FIELD("generation",       ROW_TEXT,   outlive.generation),
	FIELD("generation_us",    ROW_U64,    outlive.generation_us),
	FIELD("generation_rest",  ROW_U64,    outlive.rest),
	FIELD("origin",           ROW_TEXT,   outlive.origin),
	FIELD("restored_from",    ROW_TEXT,   outlive.restored_from),
	FIELD("restored_us",      ROW_U64,    outlive.restored_us),
	FIELD("lost_ms",          ROW_U64,    outlive.lost_ms),
	FIELD("pause_cause",      ROW_U32,    pause_cause, .max = END_CAUSE_COUNT - 1),
	FIELD("packages",         ROW_ARRAY,  packages, .max = UINT32_MAX),
	FIELD("notes",            ROW_OBJECT, notes),
	FIELD("results",          ROW_ARRAY,  results, .max = UINT32_MAX),
	FIELD("result_files",     ROW_ARRAY,  result_files, .max = UINT32_MAX),
	FIELD("group",            ROW_STRING, group),
	FIELD("alias",            ROW_STRING, alias),
	FIELD("group_number",     ROW_U32,    group_number, .max = UINT8_MAX - 1),
};

static const struct row_field isolation_fields[] = {
	ROW_FIELD(isolation, "engine", ROW_U32, engine, NEEDED),
	ROW_FIELD(isolation, "grade",  ROW_U32, grade, NEEDED),
	ROW_FIELD(isolation, "walls",  ROW_U32, walls, NEEDED),
	ROW_FIELD(isolation, "gaps",   ROW_U32, gaps, NEEDED),
};
/* clang-format on */

/* is_open: it is sealed as a whole, under a key that other nodes have. */
static int row_json(const struct sandbox *s, bool is_open, struct buf *out)
{
	struct json_writer w;
	char hex[DIGEST_HEX];
	int r = 0;

	digest_to_hex(&s->image, hex);
	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	row_fields_put(fields, ARRAY_SIZE(fields), s, &w);
	json_put_str(&w, "boot_id", s->fleet->boot_id);
	json_put_str(&w, "image", hex);
	json_put_bool(&w, "is_undone", s->phase == PHASE_UNDOING && s->resumes == 0);
	limits_to_row(&s->limits, &w);
	json_open_object(&w, "isolation");
	row_fields_put(isolation_fields, ARRAY_SIZE(isolation_fields), &s->isolation, &w);
	json_close_object(&w);
	port_rows_to_json(s, &w);
	if (is_open && s->network)
		policy_write(network_policy(s), &w, "network", SECRETS_SHOWN);
	else
		r = network_put_row(s, &w, "network");
	volume_mounts_to_row(s, &w);
	json_close_object(&w);
	return r < 0 ? r : json_writer_end(&w);
}

char *restorable_record(const struct sandbox *s)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	auto_json json_t *row = NULL, *all = NULL;
	struct err err;
	char *text = NULL;

	if (row_json(s, /* is_open= */ true, &json) == 0 &&
	    json_parse(json.data, json.len, &row, &err) == 0) {
		all = json_pack("{ss sI sO}", "name", s->name, "created_us",
		                (json_int_t)s->created_us, "row", row);
		text = json_dumps(all, JSON_COMPACT);
	}
	if (text && strlen(text) <= NODE_OWNED_MAX)
		return text;
	free(text);
	return NULL;
}

int sandbox_save(const struct sandbox *s, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct sandbox_row row = {
		.id = s->id,
		.project_id = s->project_id,
		.name = s->name,
		.state = s->state,
		.created_us = s->created_us,
		.ended_us = s->end.at_us,
		.is_durable = sandbox_is_durable(s),
	};
	int r = row_json(s, /* is_open= */ false, &json);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot record sandbox %s", s->id);
	row.json = json.data;
	node_sandbox_changed(s->fleet->config.node, s->id);
	return store_put_sandbox(s->fleet->config.store, &row, err);
}

/* Notes whether the machine was rebooted since the row was written: then nothing of it can run. */
static void note_boot(struct sandbox *s, const char *boot_id)
{
	if (strcmp(boot_id, s->fleet->boot_id) == 0 || !sandbox_is_alive(s) ||
	    s->end.cause != END_NONE || s->paused_in[0])
		return;
	s->end.cause = END_HOST_RESTART;
	s->end.detail = json_pack("{s:s, s:s}", "boot_id", boot_id, "now", s->fleet->boot_id);
}

static void note_expiry(struct sandbox *s, uint64_t expires_us)
{
	uint64_t wall = clock_wall_us();

	if (expires_us > 0)
		s->deadline_us = clock_steady_us() + (expires_us > wall ? expires_us - wall : 0);
}

static int read_row(struct sandbox *s, const json_t *object)
{
	json_t *limits = NULL, *isolation = NULL, *ports = NULL, *network = NULL, *volumes = NULL;
	const char *boot_id = "", *image = NULL;
	uint64_t expires_us = 0;
	bool is_undone = false;
	const struct json_field others[] = {
		{"boot_id", JSON_FIELD_STRING, &boot_id, true},
		{"image", JSON_FIELD_STRING, &image},
		{"is_undone", JSON_FIELD_BOOL, &is_undone},
		{"limits", JSON_FIELD_OBJECT, &limits, true},
		{"isolation", JSON_FIELD_OBJECT, &isolation, true},
		{"expires_us", JSON_FIELD_U64, &expires_us}, /* of version 1: by the wall clock */
		{"ports", JSON_FIELD_ARRAY, &ports},
		{"network", JSON_FIELD_ANY, &network},
		{"volumes", JSON_FIELD_ARRAY, &volumes, .max = VOLUMES_MAX},
	};
	int r = row_fields_read(fields, ARRAY_SIZE(fields), others, ARRAY_SIZE(others), object, s);

	if (r == 0)
		r = limits_read_row(limits, &s->limits);
	if (r == 0)
		r = row_fields_read(isolation_fields, ARRAY_SIZE(isolation_fields), NULL, 0,
		                    isolation, &s->isolation);
	s->engine = engine_find(s->isolation.engine) ? s->isolation.engine : ENGINE_BASE;
	if (r == 0 && image)
		r = digest_parse(image, &s->image);
	if (r == 0 && ports)
		r = port_rows_load(s, ports);
	if (r == 0 && volumes)
		r = volume_mounts_from_row(volumes, s);
	if (r == 0)
		r = network_read_row(s, network);
	if (r < 0)
		return r;
	if (!s->template)
		s->template = xstrdup("host");
	results_load(s);
	s->next_channel = s->channels_to;
	s->phase = phase_of_row(s->state, s->paused_in[0], is_undone);
	if (is_undone) /* the error for callers until it is gone */
		(void)err_set(&s->create_err, ERR_UNAVAILABLE, 0,
		              "the daemon stopped while creating it");
	note_boot(s, boot_id);
	note_expiry(s, expires_us);
	return 0;
}

int sandbox_load(struct fleet *fleet, const struct sandbox_row *row, struct sandbox **ret)
{
	auto_json json_t *object = NULL;
	struct sandbox *s;
	struct err err;

	if (row->state >= SANDBOX_STATE_COUNT || !id_is_valid(row->id, "sb") ||
	    json_parse(row->json, strlen(row->json), &object, &err) < 0)
		return -EBADMSG;
	s = sandbox_alloc(fleet);
	(void)snprintf(s->id, sizeof(s->id), "%s", row->id);
	(void)snprintf(s->project_id, sizeof(s->project_id), "%s", row->project_id);
	s->name = xstrdup(row->name);
	s->state = (enum sandbox_state)row->state;
	s->created_us = row->created_us;
	s->end.at_us = row->ended_us;
	if (read_row(s, object) < 0) {
		sandbox_free(s);
		return -EBADMSG;
	}
	*ret = s;
	return 0;
}

void sandbox_facts(const struct sandbox *s, struct sandbox_facts *ret)
{
	*ret = (struct sandbox_facts){
		.name = s->name,
		.template = s->template,
		.snapshot_id = s->snapshot_id,
		.tags = s->tags,
		.env = s->env,
		.limits = s->limits,
		.created_us = s->created_us,
		.expires_us = clocks_expires_us(s),
		.timeout_ms = s->timeout_ms,
		.on_timeout = s->on_timeout,
		.is_persistent = s->is_persistent,
		.auto_resumes = s->auto_resumes,
	};
}

const json_t *sandbox_notes(const struct sandbox *s)
{
	return s->notes;
}

int sandbox_set_notes(struct sandbox *s, const json_t *notes, struct err *err)
{
	json_t *before = s->notes;
	int r;

	s->notes = json_deep_copy(notes);
	r = sandbox_save(s, err);
	if (r < 0) {
		json_decref(s->notes);
		s->notes = before;
		return r;
	}
	json_decref(before);
	return 0;
}

int sandbox_set_user(struct sandbox *s, const char *user, struct err *err)
{
	char *before = s->user;
	int r;

	s->user = xstrdup(user);
	r = sandbox_save(s, err);
	if (r < 0) {
		free(s->user);
		s->user = before;
		return r;
	}
	free(before);
	return 0;
}

static void put_env_names(struct json_writer *w, const json_t *env)
{
	const char *name;
	json_t *value;

	json_open_array(w, "env_names");
	json_object_foreach ((json_t *)unconst(env), name, value) {
		json_put_str(w, NULL, name);
	}
	json_close_array(w);
}

static void put_walls(struct json_writer *w, const char *name, uint32_t bits)
{
	json_open_array(w, name);
	for (unsigned i = 0; i < WALL_COUNT; i++)
		if (bits & BIT(i))
			json_put_str(w, NULL, wall_name((enum wall)i));
	json_close_array(w);
}

static void put_source(struct json_writer *w, const struct sandbox *s)
{
	static const char *const told[] = {"type", "url", "revision", "path"};
	const char *progress = fetch_progress(s);

	if (!s->source) {
		json_put_null(w, "source");
		return;
	}
	json_open_object(w, "source");
	for (size_t i = 0; i < ARRAY_SIZE(told); i++)
		json_put_str(w, told[i], json_string_value(json_object_get(s->source, told[i])));
	if (progress)
		json_put_str(w, "progress", progress);
	json_close_object(w);
}

static void put_ended(struct json_writer *w, const struct sandbox *s)
{
	if (s->end.at_us == 0) {
		json_put_null(w, "ended");
		return;
	}
	json_open_object(w, "ended");
	json_put_str(w, "cause", end_cause_name(s->end.cause));
	if (s->end.detail)
		json_put_value(w, "detail", s->end.detail);
	else
		json_put_null(w, "detail");
	json_put_strn(w, "message", s->end.message, strlen(s->end.message));
	json_put_u64(w, "at_us", s->end.at_us);
	json_close_object(w);
}

void isolation_to_json(const struct isolation *i, struct json_writer *w, const char *name)
{
	if (i->engine == 0) {
		json_put_null(w, name);
		return;
	}
	json_open_object(w, name);
	json_put_str(w, "engine", engine_name(i->engine));
	json_put_str(w, "grade", grade_name(i->grade));
	put_walls(w, "walls", i->walls);
	put_walls(w, "gaps", i->gaps);
	json_close_object(w);
}

/* The way to the network is a card, which is a link, or the door's sockets. */
static void put_isolation(struct json_writer *w, const struct sandbox *s)
{
	const struct engine *engine = engine_find(s->isolation.engine);
	struct isolation i = s->isolation;

	if (engine && engine->plug && network_is_open(s))
		i.walls &= ~BIT(WALL_NET_LINKLESS);
	isolation_to_json(&i, w, "isolation");
}

void sandbox_to_json(const struct sandbox *s, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	sandbox_put_fields(s, w);
	json_close_object(w);
}

static void put_packages(struct json_writer *w, const struct sandbox *s)
{
	if (s->packages) {
		json_put_value(w, "packages", s->packages);
		return;
	}
	json_open_array(w, "packages");
	json_close_array(w);
}

static void put_generation(struct json_writer *w, const struct sandbox *s)
{
	if (s->outlive.generation[0]) {
		json_open_object(w, "generation");
		json_put_str(w, "id", s->outlive.generation);
		json_put_u64(w, "taken_us", s->outlive.generation_us);
		json_close_object(w);
	} else {
		json_put_null(w, "generation");
	}
	if (!s->outlive.restored_from[0]) {
		json_put_null(w, "restored");
		return;
	}
	json_open_object(w, "restored");
	json_put_str(w, "generation", s->outlive.restored_from);
	json_put_u64(w, "lost_ms", s->outlive.lost_ms);
	json_put_u64(w, "at_us", s->outlive.restored_us);
	json_close_object(w);
}

void sandbox_put_fields(const struct sandbox *s, struct json_writer *w)
{
	const struct exec_limits of_execs = rules_effective_exec_limits(s);
	uint64_t expires_us = clocks_expires_us(s);

	json_put_str(w, "id", s->id);
	json_put_str(w, "name", s->name[0] ? s->name : NULL);
	json_put_str(w, "group", s->group);
	json_put_str(w, "alias", s->alias);
	json_put_str(w, "state", sandbox_state_name(s->state));
	json_put_str(w, "template", s->template);
	put_packages(w, s);
	json_put_str(w, "snapshot_id", s->snapshot_id[0] ? s->snapshot_id : NULL);
	json_put_value(w, "tags", s->tags);
	put_env_names(w, s->env);
	limits_to_json(&s->limits, &of_execs, w);
	json_put_bool(w, "persistent", s->is_persistent);
	json_put_bool(w, "auto_resume", s->auto_resumes);
	json_put_bool(w, "paused_time_counts", s->counts_paused);
	json_put_u64(w, "resumes", s->resumes);
	json_put_u64(w, "timeout_ms", s->timeout_ms);
	json_put_u64(w, "idle_timeout_ms", s->idle_timeout_ms);
	json_put_str(w, "on_timeout", timeout_action_name(s->on_timeout));
	json_put_str(w, "on_idle", timeout_action_name(clocks_on_idle(s)));
	json_put_str(w, "on_node_loss", on_node_loss_name(s->on_node_loss));
	put_generation(w, s);
	json_put_str(w, "paused_to",
	             s->state != SANDBOX_PAUSED ? NULL
	             : s->paused_in[0]          ? "disk"
	                                        : "memory");
	json_put_u64(w, "created_us", s->created_us);
	if (expires_us)
		json_put_u64(w, "expires_us", expires_us);
	else
		json_put_null(w, "expires_us");
	put_ended(w, s);
	json_put_str(w, "network", network_name(s));
	volume_mounts_to_json(s, w);
	put_source(w, s);
	results_to_json(s, w);
	put_isolation(w, s);
}
