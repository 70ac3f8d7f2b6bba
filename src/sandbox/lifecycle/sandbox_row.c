// SPDX-License-Identifier: Apache-2.0
/*
 * A sandbox as a row of the store and as JSON for clients. The row's own JSON is written and read
 * only here. It holds the environment's values, which clients are never told again.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/create_rules.h"
#include "sandbox/model/limits_json.h"
#include "sandbox/network/network.h"
#include "sandbox/network/ports.h"
#include "sandbox/storage/storage.h"

#include <assert.h>

#define ROW_MAX (512 * 1024) /* tags and environment are bounded well below it */

static void put_raw_isolation(struct json_writer *w, const struct isolation *i)
{
	json_open_object(w, "isolation");
	json_put_u64(w, "engine", i->engine);
	json_put_u64(w, "grade", i->grade);
	json_put_u64(w, "walls", i->walls);
	json_put_u64(w, "gaps", i->gaps);
	json_close_object(w);
}

static void put_template(struct json_writer *w, const struct sandbox *s)
{
	char hex[DIGEST_HEX];

	digest_to_hex(&s->image, hex);
	json_put_str(w, "template", s->template);
	json_put_str(w, "image", hex);
	json_put_str(w, "user", s->user);
	json_put_str(w, "cwd", s->cwd);
	json_put_str(w, "snapshot_id", s->snapshot_id);
	json_put_u64(w, "base_bytes", s->base_bytes);
	json_put_str(w, "rolls_to", s->rolls_to);
	json_put_str(w, "paused_in", s->paused_in);
	json_put_u64(w, "pause_cause", s->pause_cause);
}

static int row_json(const struct sandbox *s, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_str(&w, "boot_id", s->fleet->boot_id);
	json_put_value(&w, "tags", s->tags);
	json_put_value(&w, "env", s->env);
	limits_to_row(&s->limits, &w);
	json_put_u64(&w, "output_bytes", s->exec_limits.output_bytes);
	json_put_u64(&w, "execs_max", s->exec_limits.execs);
	json_put_u64(&w, "timeout_ms", s->timeout_ms);
	json_put_u64(&w, "idle_timeout_ms", s->idle_timeout_ms);
	json_put_u64(&w, "on_timeout", s->on_timeout);
	json_put_u64(&w, "on_idle", s->on_idle);
	json_put_u64(&w, "deadline_us", s->deadline_us);
	json_put_u64(&w, "left_us", s->left_us);
	json_put_bool(&w, "counts_paused", s->counts_paused);
	json_put_u64(&w, "rests_until_us", s->rests_until_us);
	json_put_bool(&w, "is_persistent", s->is_persistent);
	json_put_bool(&w, "is_kept", s->is_kept);
	json_put_bool(&w, "is_deleted", s->is_deleted);
	json_put_bool(&w, "is_undone", s->phase == PHASE_UNDOING && s->resumes == 0);
	json_put_bool(&w, "auto_resumes", s->auto_resumes);
	json_put_bool(&w, "ends_with_caller", s->ends_with_caller);
	json_put_u64(&w, "resumes", s->resumes);
	put_raw_isolation(&w, &s->isolation);
	json_put_u64(&w, "cause", s->end.cause);
	if (s->end.detail)
		json_put_value(&w, "detail", s->end.detail);
	json_put_strn(&w, "message", s->end.message, strlen(s->end.message));
	json_put_u64(&w, "channels_to", s->channels_to);
	json_put_u64(&w, "oom_kills", s->oom_kills);
	json_put_u64(&w, "pids_refused", s->pids_refused);
	json_put_str(&w, "key_id", s->key_id);
	port_rows_to_json(s, &w);
	network_put_row(s, &w, "network");
	if (s->source)
		json_put_value(&w, "source", s->source);
	put_template(&w, s);
	if (s->packages)
		json_put_value(&w, "packages", s->packages);
	if (s->notes)
		json_put_value(&w, "notes", s->notes);
	volume_mounts_to_row(s, &w);
	json_close_object(&w);
	return json_writer_end(&w);
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
	int r = row_json(s, &json);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot record sandbox %s", s->id);
	row.json = json.data;
	return store_put_sandbox(s->fleet->config.store, &row, err);
}

static int read_isolation(const json_t *object, struct isolation *ret)
{
	uint64_t engine = 0, grade = 0, walls = 0, gaps = 0;
	const struct json_field fields[] = {
		{"engine", JSON_FIELD_U64, &engine, true, .max = UINT32_MAX},
		{"grade", JSON_FIELD_U64, &grade, true, .max = UINT32_MAX},
		{"walls", JSON_FIELD_U64, &walls, true, .max = UINT32_MAX},
		{"gaps", JSON_FIELD_U64, &gaps, true, .max = UINT32_MAX},
	};
	int r = json_read(object, "isolation.", fields, ARRAY_SIZE(fields), NULL);

	*ret = (struct isolation){.engine = (uint32_t)engine,
	                          .grade = (uint32_t)grade,
	                          .walls = (uint32_t)walls,
	                          .gaps = (uint32_t)gaps};
	return r;
}

/* The machine was started anew since the row was written: what ran then cannot run. */
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
	json_t *tags = NULL, *env = NULL, *limits = NULL, *isolation = NULL;
	json_t *detail = NULL, *ports = NULL, *network = NULL, *source = NULL, *packages = NULL;
	json_t *notes = NULL, *volumes = NULL;
	struct policy *policy = NULL;
	const char *boot_id = "", *message = "", *key_id = "";
	const char *template = "host", *image = NULL, *user = NULL, *cwd = NULL;
	const char *snapshot_id = "", *rolls_to = "", *paused_in = "";
	uint64_t on_idle = ON_TIMEOUT_COUNT, pause_cause = END_NONE;
	bool is_undone = false;
	uint64_t cause = 0, channels_to = 0, on_timeout = 0, expires_us = 0, execs_max = 0;
	const struct json_field fields[] = {
		{"boot_id", JSON_FIELD_STRING, &boot_id, true},
		{"tags", JSON_FIELD_OBJECT, &tags, true},
		{"env", JSON_FIELD_OBJECT, &env, true},
		{"limits", JSON_FIELD_OBJECT, &limits, true},
		{"output_bytes", JSON_FIELD_U64, &s->exec_limits.output_bytes},
		{"execs_max", JSON_FIELD_U64, &execs_max, .max = UINT32_MAX},
		{"timeout_ms", JSON_FIELD_U64, &s->timeout_ms, true},
		{"idle_timeout_ms", JSON_FIELD_U64, &s->idle_timeout_ms},
		{"on_timeout", JSON_FIELD_U64, &on_timeout, .max = ON_TIMEOUT_COUNT - 1},
		{"on_idle", JSON_FIELD_U64, &on_idle, .max = ON_TIMEOUT_COUNT},
		{"expires_us", JSON_FIELD_U64, &expires_us}, /* of version 1: by the wall clock */
		{"deadline_us", JSON_FIELD_U64, &s->deadline_us},
		{"left_us", JSON_FIELD_U64, &s->left_us},
		{"counts_paused", JSON_FIELD_BOOL, &s->counts_paused},
		{"rests_until_us", JSON_FIELD_U64, &s->rests_until_us},
		{"is_persistent", JSON_FIELD_BOOL, &s->is_persistent},
		{"is_kept", JSON_FIELD_BOOL, &s->is_kept},
		{"is_deleted", JSON_FIELD_BOOL, &s->is_deleted},
		{"is_undone", JSON_FIELD_BOOL, &is_undone},
		{"auto_resumes", JSON_FIELD_BOOL, &s->auto_resumes},
		{"ends_with_caller", JSON_FIELD_BOOL, &s->ends_with_caller},
		{"resumes", JSON_FIELD_U64, &s->resumes},
		{"detail", JSON_FIELD_OBJECT, &detail},
		{"isolation", JSON_FIELD_OBJECT, &isolation, true},
		{"cause", JSON_FIELD_U64, &cause, true, .max = END_CAUSE_COUNT - 1},
		{"message", JSON_FIELD_STRING, &message, true},
		{"channels_to", JSON_FIELD_U64, &channels_to, true, .max = UINT32_MAX},
		{"oom_kills", JSON_FIELD_U64, &s->oom_kills, true},
		{"pids_refused", JSON_FIELD_U64, &s->pids_refused},
		{"ports", JSON_FIELD_ARRAY, &ports},
		{"key_id", JSON_FIELD_STRING, &key_id}, /* not in the rows of version 1 */
		{"network", JSON_FIELD_ANY, &network},
		{"source", JSON_FIELD_OBJECT, &source},
		{"template", JSON_FIELD_STRING, &template},
		{"packages", JSON_FIELD_ARRAY, &packages, .max = UINT32_MAX},
		{"notes", JSON_FIELD_OBJECT, &notes},
		{"volumes", JSON_FIELD_ARRAY, &volumes, .max = VOLUMES_MAX},
		{"image", JSON_FIELD_STRING, &image},
		{"user", JSON_FIELD_STRING, &user},
		{"cwd", JSON_FIELD_STRING, &cwd},
		{"snapshot_id", JSON_FIELD_STRING, &snapshot_id},
		{"base_bytes", JSON_FIELD_U64, &s->base_bytes},
		{"rolls_to", JSON_FIELD_STRING, &rolls_to},
		{"paused_in", JSON_FIELD_STRING, &paused_in},
		{"pause_cause", JSON_FIELD_U64, &pause_cause, .max = END_CAUSE_COUNT - 1},
	};
	int r = json_read(object, "", fields, ARRAY_SIZE(fields), NULL);

	if (r == 0)
		r = limits_read_row(limits, &s->limits);
	if (r == 0)
		r = read_isolation(isolation, &s->isolation);
	s->engine = engine_find(s->isolation.engine) ? s->isolation.engine : ENGINE_BASE;
	if (r == 0 && image)
		r = digest_parse(image, &s->image);
	if (r == 0 && ports)
		r = port_rows_load(s, ports);
	if (r == 0 && volumes)
		r = volume_mounts_from_row(volumes, s);
	if (r == 0)
		r = network_read(network, "network", &policy, NULL);
	if (r < 0)
		return r;
	if (network)
		network_set(s, policy);
	else
		policy_free(policy);
	s->template = xstrdup(template);
	s->user = user ? xstrdup(user) : NULL;
	s->cwd = cwd ? xstrdup(cwd) : NULL;
	s->tags = json_incref(tags);
	s->env = json_incref(env);
	s->source = json_incref(source);
	s->packages = json_incref(packages);
	s->notes = json_incref(notes);
	s->exec_limits.execs = (uint32_t)execs_max;
	s->on_timeout = (enum timeout_action)on_timeout;
	s->on_idle = (enum timeout_action)on_idle;
	s->pause_cause = (enum end_cause)pause_cause;
	s->end.cause = (enum end_cause)cause;
	s->end.detail = json_incref(detail);
	(void)snprintf(s->end.message, sizeof(s->end.message), "%s", message);
	(void)snprintf(s->key_id, sizeof(s->key_id), "%s", key_id);
	(void)snprintf(s->snapshot_id, sizeof(s->snapshot_id), "%s", snapshot_id);
	(void)snprintf(s->rolls_to, sizeof(s->rolls_to), "%s", rolls_to);
	(void)snprintf(s->paused_in, sizeof(s->paused_in), "%s", paused_in);
	s->next_channel = s->channels_to = (uint32_t)channels_to;
	s->phase = phase_of_row(s->state, s->paused_in[0], is_undone);
	if (is_undone) /* told to whoever asks for it until it is gone */
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

/* What reaches the network is a card, whose cable is a link, or sockets. */
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

void sandbox_put_fields(const struct sandbox *s, struct json_writer *w)
{
	const struct exec_limits of_execs = rules_effective_exec_limits(s);
	uint64_t expires_us = clocks_expires_us(s);

	json_put_str(w, "id", s->id);
	json_put_str(w, "name", s->name[0] ? s->name : NULL);
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
	put_isolation(w, s);
}
