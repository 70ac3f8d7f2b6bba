// SPDX-License-Identifier: Apache-2.0
/*
 * s->results are the paths, s->result_files an object for each of them, in the same order, once
 * they were collected: {directory, bytes, why}. Both are in the sandbox's row; the bytes are in
 * files beside the execs' spools, which are written before the row. A file that no row knows is
 * removed at the next start.
 *
 * A project's results are bounded together. Past the bound the oldest sandbox's go, with the reason
 * in their place, and its record stays.
 */
#include "sandbox/lifecycle/results.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/registry.h"
#include "tenant/meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME_SIZE (ID_SIZE + 24)
#define PATH_MAX_BYTES 4095
#define UNSEEN         "the daemon did not see the sandbox's end"
#define CROWDED        "removed: newer results of the project needed the room"

int results_check(const json_t *paths, bool is_persistent, struct err *err)
{
	const json_t *path, *other;
	size_t i, k;

	if (paths && is_persistent) {
		(void)err_field(err, "results", "are of sandboxes that are not persistent");
		return err_hint(err, "a persistent one keeps all of its files when it is stopped");
	}
	json_array_foreach(paths, i, path)
	{
		const size_t len = json_is_string(path) ? json_string_length(path) : 0;

		if (len == 0 || len > PATH_MAX_BYTES || strlen(json_string_value(path)) != len)
			return err_field(err, "results", "must be paths of up to %d bytes",
			                 PATH_MAX_BYTES);
		json_array_foreach(paths, k, other)
		{
			if (k < i && json_equal(path, other))
				return err_field(err, "results", "'%.64s' is in it twice",
				                 json_string_value(path));
		}
	}
	return 0;
}

static void file_name(const struct sandbox *s, size_t number, char ret[FILE_NAME_SIZE])
{
	(void)snprintf(ret, FILE_NAME_SIZE, "%s.%zu", s->id, number);
}

int results_create_file(const struct sandbox *s, size_t number, struct err *err)
{
	char name[FILE_NAME_SIZE];
	int fd;

	file_name(s, number, name);
	fd = openat(s->fleet->spool_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
	            0600);
	return fd < 0 ? err_set(err, ERR_HOST_DISK_FULL, errno, "it could not be kept") : fd;
}

void results_remove_file(const struct sandbox *s, size_t number)
{
	char name[FILE_NAME_SIZE];

	file_name(s, number, name);
	(void)unlinkat(s->fleet->spool_fd, name, 0);
}

void results_note(struct sandbox *s, size_t number, bool is_directory, uint64_t bytes,
                  const char *why)
{
	json_t *file =
		json_pack("{s:b, s:I}", "directory", is_directory, "bytes", (json_int_t)bytes);

	if (why)
		(void)json_object_set_new(file, "why", json_string(why));
	if (!s->result_files)
		s->result_files = json_array();
	while (json_array_size(s->result_files) <= number)
		(void)json_array_append_new(s->result_files, json_object());
	(void)json_array_set_new(s->result_files, number, file);
	s->result_bytes += bytes;
}

static const json_t *file_of(const struct sandbox *s, size_t number)
{
	return json_array_get(s->result_files, number);
}

/* Why a path has no file; NULL: it has one, or will. */
static const char *why_missing(const struct sandbox *s, size_t number)
{
	const json_t *file = file_of(s, number);

	return file || s->place != PLACE_ENDED ? json_string_value(json_object_get(file, "why"))
	                                       : UNSEEN;
}

static uint64_t bytes_of(const json_t *file)
{
	const json_int_t bytes = json_integer_value(json_object_get(file, "bytes"));

	return bytes > 0 ? (uint64_t)bytes : 0;
}

void results_load(struct sandbox *s)
{
	size_t i;
	json_t *file;

	s->result_bytes = 0;
	json_array_foreach(s->result_files, i, file)
	{
		s->result_bytes += bytes_of(file);
	}
}

/* Usage. The id is the sandbox's, as of another kind. */

static void meter_id(const struct sandbox *s, char ret[ID_SIZE])
{
	(void)snprintf(ret, ID_SIZE, "res%s", s->id + strlen("sb"));
}

static struct meter *find_meter(const struct sandbox *s)
{
	struct meters *meters = s->fleet->config.meters;
	char id[ID_SIZE];

	meter_id(s, id);
	return meters && s->result_bytes > 0 ? meter_find(meters, id) : NULL;
}

static void begin_meter(const struct sandbox *s)
{
	struct meters *meters = s->fleet->config.meters;
	char id[ID_SIZE];
	const struct meter_spec spec = {
		.sandbox_id = id, .project_id = s->project_id, .key_id = s->key_id};

	meter_id(s, id);
	if (meters && !meter_find(meters, id))
		(void)meter_store(meters, &spec, s->result_bytes);
}

static void end_meter(const struct sandbox *s)
{
	struct meter *m = find_meter(s);

	if (m)
		meter_close(m, NULL, clock_steady_us());
}

void results_tick(struct fleet *fleet)
{
	list_for_each (&fleet->ended, const struct sandbox, s, link_ended) {
		struct meter *m = find_meter(s);

		if (m)
			meter_tick(m);
	}
}

static const struct sandbox *owner_of(const struct fleet *fleet, const char *rest)
{
	char id[ID_SIZE];
	const struct sandbox *s;

	(void)snprintf(id, sizeof(id), "sb%s", rest);
	s = fleet_find_id(unconst(fleet), id);
	return s && s->result_bytes > 0 ? s : NULL;
}

bool results_are_known(const struct fleet *fleet, const char *id)
{
	return owner_of(fleet, id + strlen("res")) != NULL;
}

void results_sweep(struct fleet *fleet, int dir_fd, const char *name)
{
	const char *dot = strchr(name, '.');
	char id[ID_SIZE];

	if (!dot || (size_t)(dot - name) >= sizeof(id))
		return;
	(void)snprintf(id, sizeof(id), "%.*s", (int)(dot - name), name);
	if (id_is_valid(id, "sb") && !owner_of(fleet, id + strlen("sb")))
		(void)unlinkat(dir_fd, name, 0);
}

/* Bounds. */

static void remove_files(struct sandbox *s)
{
	end_meter(s);
	for (size_t i = 0; i < json_array_size(s->result_files); i++)
		if (!why_missing(s, i))
			results_remove_file(s, i);
	s->result_bytes = 0;
}

static void crowd_out(struct sandbox *s)
{
	const uint64_t bytes = MIN(s->result_bytes, s->retained_bytes);

	remove_files(s);
	s->retained_bytes -= bytes;
	s->fleet->ended_bytes -= bytes;
	for (size_t i = 0; i < json_array_size(s->result_files); i++)
		if (!why_missing(s, i))
			results_note(s, i, false, 0, CROWDED);
	sandbox_note(s);
}

static uint64_t project_bytes(const struct sandbox *of)
{
	uint64_t sum = 0;

	list_for_each (&of->fleet->ended, const struct sandbox, s, link_ended)
		if (strcmp(s->project_id, of->project_id) == 0)
			sum += s->result_bytes;
	return sum;
}

void results_keep(struct sandbox *s)
{
	const uint64_t most = s->fleet->config.results_project_max;
	uint64_t sum = s->result_bytes > 0 ? project_bytes(s) : 0;

	if (s->result_bytes == 0)
		return;
	begin_meter(s);
	list_for_each (&s->fleet->ended, struct sandbox, old, link_ended) {
		if (sum <= most)
			break;
		if (old->result_bytes == 0 || strcmp(old->project_id, s->project_id) != 0)
			continue;
		sum -= old->result_bytes;
		crowd_out(old);
	}
}

void results_drop(struct sandbox *s)
{
	remove_files(s);
}

/* Telling. */

void results_to_json(const struct sandbox *s, struct json_writer *w)
{
	size_t i;
	json_t *path;

	if (!s->results) {
		json_put_null(w, "results");
		return;
	}
	json_open_array(w, "results");
	json_array_foreach(s->results, i, path)
	{
		const json_t *file = file_of(s, i);
		const char *why = why_missing(s, i);
		const bool is_kept = file && !why;
		const bool is_directory = json_is_true(json_object_get(file, "directory"));

		json_open_object(w, NULL);
		json_put_str(w, "path", json_string_value(path));
		json_put_str(w, "state", why ? "missing" : is_kept ? "kept" : "awaited");
		json_put_str(w, "type", !is_kept ? NULL : is_directory ? "directory" : "file");
		json_put_u64(w, "bytes", is_kept ? bytes_of(file) : 0);
		json_put_str(w, "why", why);
		json_close_object(w);
	}
	json_close_array(w);
}

static int refuse(const struct sandbox *s, const char *path, const char *why, struct err *err)
{
	if (why)
		return err_set(err, ERR_NOT_FOUND, 0, "no result '%.200s' was kept: %s", path, why);
	(void)err_set(err, ERR_CONFLICT, 0,
	              "sandbox %s has not ended; its results are kept when it ends", s->id);
	return err_hint(err, "read the file itself while it runs");
}

int results_open(const struct sandbox *s, const char *path, struct result_file *ret,
                 struct err *err)
{
	char name[FILE_NAME_SIZE];
	size_t i;
	json_t *one;

	json_array_foreach(s->results, i, one)
	{
		const json_t *file = file_of(s, i);

		if (strcmp(json_string_value(one), path) != 0)
			continue;
		if (!file || why_missing(s, i) || s->place != PLACE_ENDED)
			return refuse(s, path, why_missing(s, i), err);
		file_name(s, i, name);
		ret->bytes = bytes_of(file);
		ret->is_directory = json_is_true(json_object_get(file, "directory"));
		ret->fd = openat(s->fleet->spool_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (ret->fd < 0)
			return err_set(err, ERR_INTERNAL, errno, "the result '%.200s' is lost",
			               path);
		return 0;
	}
	(void)err_field(err, "path", "'%.200s' is not one of the sandbox's results", path);
	return err_hint(err, "a create names them, as `results`");
}
