// SPDX-License-Identifier: Apache-2.0
/* A build as a row of the store, and as JSON for clients. */
#include "build/plan.h"

#include "base/clock.h"
#include "sandbox/storage/image.h"

#include <string.h>

#define ROW_MAX (8 * 1024 * 1024) /* most of it packages */

static void put_error(struct json_writer *w, const struct build *b)
{
	if (b->error.code == ERR_NONE)
		return;
	json_open_object(w, "error");
	json_put_u64(w, "code", b->error.code);
	json_put_strn(w, "message", b->error.message, strlen(b->error.message));
	json_put_strn(w, "hint", b->error.hint, strlen(b->error.hint));
	json_put_strn(w, "field", b->error.field, strlen(b->error.field));
	json_close_object(w);
}

/* Stored so that a build that goes on after a restart need not ask again. */
static void put_learnt(struct json_writer *w, const struct registries *r)
{
	json_put_str(w, "npm_registry", r->npm);
	json_put_str(w, "pip_index", r->pip);
	json_put_str(w, "pip_files", r->pip_files);
}

int build_save(const struct build *b, struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(ROW_MAX);
	struct json_writer w;
	char image[DIGEST_HEX];

	digest_to_hex(&b->image, image);
	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_value(&w, "recipe", b->recipe);
	json_put_bool(&w, "is_shared", b->is_shared);
	json_put_bool(&w, "is_fresh", b->is_fresh);
	json_put_u64(&w, "state", b->state);
	json_put_u64(&w, "started_us", b->started_us);
	json_put_u64(&w, "ended_us", b->ended_us);
	json_put_u64(&w, "step", b->step);
	json_put_u64(&w, "part", b->part);
	if (b->stage_images)
		json_put_value(&w, "stage_images", b->stage_images);
	if (b->contents)
		json_put_value(&w, "contents", b->contents);
	json_put_str(&w, "image", image);
	json_put_str(&w, "suite", b->suite);
	json_put_str(&w, "archive_state", b->archive_state);
	json_put_u64(&w, "archive_date", b->archive_date);
	json_put_u64(&w, "attempts", b->attempts);
	json_put_u64(&w, "retries", b->retries);
	json_put_u64(&w, "tries", b->tries);
	json_put_bool(&w, "is_cancelled", b->is_cancelled);
	json_put_bool(&w, "is_cached", b->is_cached);
	json_put_value(&w, "packages", b->packages);
	json_put_value(&w, "languages", b->languages);
	json_put_str(&w, "sandbox_id", b->sandbox_id);
	json_put_str(&w, "exec_id", b->exec_id);
	json_put_str(&w, "cache_volume", b->cache_volume);
	json_put_u64(&w, "log_seq", b->log_seq);
	put_learnt(&w, &b->owner->learnt);
	put_error(&w, b);
	json_close_object(&w);
	if (json_writer_end(&w) < 0)
		return err_set(err, ERR_TOO_LARGE, 0, "the build has too many packages to record");
	return store_builds_put(b->owner->rows,
	                        &(struct build_row){.id = b->id,
	                                            .project_id = b->project_id,
	                                            .created_us = b->created_us,
	                                            .json = buf_str(&json)},
	                        err);
}

static void copy(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");
}

static int read_error(const json_t *object, struct err *ret, struct err *err)
{
	const char *message = "", *hint = "", *field = "";
	uint64_t code = 0;
	const struct json_field fields[] = {
		{"code", JSON_FIELD_U64, &code, true, .max = ERR_CODE_COUNT - 1},
		{"message", JSON_FIELD_STRING, &message, true},
		{"hint", JSON_FIELD_STRING, &hint},
		{"field", JSON_FIELD_STRING, &field},
	};
	int r = json_read(object, "error.", fields, ARRAY_SIZE(fields), err);

	*ret = (struct err){.code = (enum err_code)code};
	copy(ret->message, sizeof(ret->message), message);
	copy(ret->hint, sizeof(ret->hint), hint);
	copy(ret->field, sizeof(ret->field), field);
	return r;
}

static int read_row(struct build *b, const json_t *object, struct err *err)
{
	json_t *recipe = NULL, *packages = NULL, *languages = NULL, *error = NULL;
	const char *image = "", *suite = "", *state_hash = "", *sandbox_id = "", *exec_id = "";
	const char *cache_volume = "";
	const char *npm = "", *pip = "", *pip_files = "";
	struct registries *learnt = &b->owner->learnt;
	json_t *stage_images = NULL, *contents = NULL;
	uint64_t part = 0;
	uint64_t state = 0, step = 0, attempts = 0, retries = 0, tries = 1;
	const struct json_field fields[] = {
		{"recipe", JSON_FIELD_OBJECT, &recipe, true},
		{"is_shared", JSON_FIELD_BOOL, &b->is_shared},
		{"is_fresh", JSON_FIELD_BOOL, &b->is_fresh},
		{"state", JSON_FIELD_U64, &state, true, .max = BUILD_STATE_COUNT - 1},
		{"started_us", JSON_FIELD_U64, &b->started_us},
		{"ended_us", JSON_FIELD_U64, &b->ended_us},
		{"step", JSON_FIELD_U64, &step, true, .max = STEP_COUNT},
		{"part", JSON_FIELD_U64, &part, .max = INT32_MAX},
		{"stage_images", JSON_FIELD_OBJECT, &stage_images},
		{"contents", JSON_FIELD_OBJECT, &contents},
		{"image", JSON_FIELD_STRING, &image, true},
		{"suite", JSON_FIELD_STRING, &suite},
		{"archive_state", JSON_FIELD_STRING, &state_hash},
		{"archive_date", JSON_FIELD_U64, &b->archive_date},
		{"attempts", JSON_FIELD_U64, &attempts, .max = UINT32_MAX},
		{"retries", JSON_FIELD_U64, &retries, .max = BUILD_RETRIES_MAX},
		{"tries", JSON_FIELD_U64, &tries, .max = BUILD_RETRIES_MAX + 1},
		{"is_cancelled", JSON_FIELD_BOOL, &b->is_cancelled},
		{"is_cached", JSON_FIELD_BOOL, &b->is_cached},
		{"packages", JSON_FIELD_ARRAY, &packages, true, .max = REPORT_PACKAGES_MAX},
		{"languages", JSON_FIELD_OBJECT, &languages, true},
		{"sandbox_id", JSON_FIELD_STRING, &sandbox_id},
		{"exec_id", JSON_FIELD_STRING, &exec_id},
		{"cache_volume", JSON_FIELD_STRING, &cache_volume},
		{"log_seq", JSON_FIELD_U64, &b->log_seq},
		{"npm_registry", JSON_FIELD_STRING, &npm},
		{"pip_index", JSON_FIELD_STRING, &pip},
		{"pip_files", JSON_FIELD_STRING, &pip_files},
		{"error", JSON_FIELD_OBJECT, &error},
	};
	int r = json_read(object, "", fields, ARRAY_SIZE(fields), err);

	if (r == 0 && error)
		r = read_error(error, &b->error, err);
	if (r == 0)
		r = digest_parse(image, &b->image);
	if (r < 0)
		return r;
	b->state = (enum build_state)state;
	b->step = (enum step)step;
	b->part = (size_t)part;
	b->stage_images = json_incref(stage_images);
	b->contents = json_incref(contents);
	b->attempts = (uint32_t)attempts;
	b->retries = (uint32_t)retries;
	b->tries = (uint32_t)tries;
	b->recipe = json_incref(recipe);
	b->packages = json_incref(packages);
	b->languages = json_incref(languages);
	copy(b->suite, sizeof(b->suite), suite);
	copy(b->archive_state, sizeof(b->archive_state), state_hash);
	copy(b->sandbox_id, sizeof(b->sandbox_id), sandbox_id);
	copy(b->exec_id, sizeof(b->exec_id), exec_id);
	copy(b->cache_volume, sizeof(b->cache_volume), cache_volume);
	if (state == BUILD_RUNNING && npm[0])
		copy(learnt->npm, sizeof(learnt->npm), npm);
	if (state == BUILD_RUNNING && pip[0]) {
		copy(learnt->pip, sizeof(learnt->pip), pip);
		copy(learnt->pip_files, sizeof(learnt->pip_files), pip_files);
	}
	return 0;
}

int build_load(struct builds *bs, const struct build_row *row, struct build **ret)
{
	auto_json json_t *object = NULL;
	struct build *b;
	struct err err;
	int r = json_parse(row->json, strlen(row->json), &object, &err);

	if (r < 0)
		return r;
	b = build_new(bs, row->id);
	copy(b->project_id, sizeof(b->project_id), row->project_id);
	b->created_us = row->created_us;
	r = read_row(b, object, &err);
	if (r < 0) {
		build_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

static void put_time(struct json_writer *w, const char *name, uint64_t us)
{
	if (us > 0)
		json_put_u64(w, name, us);
	else
		json_put_null(w, name);
}

/* How much of the build is done, in thousandths; all steps count the same. */
static unsigned done_permille(const struct build *b, unsigned index, unsigned count)
{
	const struct report *o = &b->report;
	unsigned of_step = b->phase == PHASE_SEALING ? 900 : 0;

	if (b->phase == PHASE_RUNNING)
		of_step = o->permille > 0      ? 400 + o->permille / 2
		          : o->bytes_total > 0 ? (unsigned)(400 * o->bytes_done / o->bytes_total)
		                               : 0;
	if (b->pulling && o->bytes_total > 0)
		of_step = (unsigned)(900 * MIN(o->bytes_done, o->bytes_total) / o->bytes_total);
	return (index * 1000 + of_step) / count;
}

/* By what was done in this life of the daemon: one that was away for hours is not a slow build. */
static uint64_t time_left(struct build *b, unsigned permille, uint64_t now_us)
{
	if (b->seen_us == 0) {
		b->seen_us = now_us;
		b->seen_permille = permille;
	}
	return remaining_us(&b->remaining, now_us, now_us - b->seen_us,
	                    permille - MIN(permille, b->seen_permille), 1000 - b->seen_permille);
}

static void put_progress(struct json_writer *w, const struct build *b)
{
	const struct report *o = &b->report;
	unsigned index, count, permille;
	uint64_t now_us = clock_wall_us();
	uint64_t left_us;

	if (b->state != BUILD_RUNNING) {
		json_put_null(w, "progress");
		return;
	}
	plan_place(b, &index, &count);
	permille = done_permille(b, index, count);
	left_us = time_left(unconst(b), permille, now_us);
	json_open_object(w, "progress");
	json_put_str(w, "step", b->pulling ? "pull" : step_name(MIN(b->step, STEP_CHECKS)));
	json_put_u64(w, "index", index);
	json_put_u64(w, "count", count);
	json_put_double(w, "fraction", permille / 1000.0);
	json_put_u64(w, "bytes_done", b->seal ? image_seal_bytes(b->seal) : o->bytes_done);
	json_put_u64(w, "bytes_total", b->seal ? 0 : o->bytes_total);
	put_time(w, "left_ms", left_us / 1000);
	if (b->seal)
		json_put_str(w, "doing", "sealing");
	else if (b->phase == PHASE_PAUSING)
		json_put_str(w, "doing", "waits to try again");
	else
		json_put_strn(w, "doing", o->doing, strlen(o->doing));
	json_close_object(w);
}

void build_to_json(const struct build *b, struct json_writer *w, const char *name)
{
	char image[DIGEST_HEX];

	json_open_object(w, name);
	json_put_str(w, "id", b->id);
	json_put_str(w, "name", build_name(b));
	json_put_str(w, "state", build_state_name(b->state));
	json_put_bool(w, "shared", b->is_shared);
	json_put_bool(w, "cached", b->is_cached);
	json_put_u64(w, "tries", b->tries);
	json_put_u64(w, "created_us", b->created_us);
	put_time(w, "started_us", b->started_us);
	put_time(w, "ended_us", b->ended_us);
	put_progress(w, b);
	digest_to_hex(&b->image, image);
	json_put_str(w, "digest", b->state == BUILD_READY ? image : NULL);
	if (b->error.code != ERR_NONE)
		json_put_err(w, "error", &b->error, NULL);
	else
		json_put_null(w, "error");
	json_close_object(w);
}
