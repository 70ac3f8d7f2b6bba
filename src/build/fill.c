// SPDX-License-Identifier: Apache-2.0
/* Unpacks a recipe's parcels in the sandbox of its step, one after the other: they are read here as
 * the agent has room, and unpacked inside. */
#include "build/fill.h"

#include "build/build_private.h"
#include "build/parcel.h"
#include "build/part.h"
#include "sandbox/fileops/file_call.h"

#include <unistd.h>

#define CHUNK       (64 * 1024)
#define ENTRIES_MAX 1000000

struct fill {
	struct build *b;
	fill_done_fn done;
	json_t *list; /* [[hash of a parcel, directory, with owners?]…] */
	size_t i;     /* which one */
	int fd;
	struct file_call *call;
	size_t at, len; /* of chunk: not yet taken */
	bool is_whole;
	char chunk[CHUNK];
};

/* The same; the caller owns it. */
static json_t *list_fills(const struct build *b)
{
	const json_t *parcels = json_object_get(b->recipe, "parcels");
	json_t *fills, *hash;
	size_t i;

	if (b->step == STEP_CONTEXT || b->step == STEP_PART)
		return part_fills(b, b->step);
	fills = json_array();
	if (b->step == STEP_EXTRAS)
		json_array_foreach(parcels, i, hash)(void) json_array_append_new(
			fills, json_pack("[Oo]", hash,
		                         json_sprintf(PARCEL_DIR "/%s", json_string_value(hash))));
	return fills;
}

bool fill_is_due(const struct build *b)
{
	auto_json json_t *fills = list_fills(b);

	return json_array_size(fills) > 0;
}

static void fill_free(struct fill *f)
{
	if (f->call)
		file_call_cancel(f->call);
	if (f->fd >= 0)
		(void)close(f->fd);
	json_decref(f->list);
	free(f);
}

void fill_cancel(struct fill **f)
{
	if (*f)
		fill_free(take_ptr(*f));
}

static void end(struct fill *f, const struct err *err)
{
	struct build *b = f->b;
	fill_done_fn done = f->done;

	b->fill = NULL;
	fill_free(f);
	done(b, err);
}

/* Reads the next chunk if all of the last one was taken. */
static int read_on(struct fill *f, struct err *err)
{
	ssize_t n;

	if (f->at < f->len)
		return 0;
	n = read(f->fd, f->chunk, sizeof(f->chunk));
	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the files of a build");
	f->at = 0;
	f->len = (size_t)n;
	f->is_whole = n == 0;
	return 0;
}

static void on_room(void *arg)
{
	struct fill *f = arg;
	struct err err;

	while (!f->is_whole) {
		ssize_t n;

		if (read_on(f, &err) < 0) {
			end(f, &err);
			return;
		}
		n = f->is_whole ? 0 : file_call_write(f->call, f->chunk + f->at, f->len - f->at);
		if (f->is_whole)
			file_call_finish(f->call);
		else if (n <= 0)
			return; /* its end tells, or there is room later */
		f->at += (size_t)n;
	}
}

static void next(struct fill *f);

static void on_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

static void on_end(const struct err *err, void *arg)
{
	struct fill *f = arg;

	f->call = NULL;
	(void)close(f->fd);
	f->fd = -1;
	if (err) {
		struct err why = *err;

		(void)err_prefix(&why, "files that the build copies");
		end(f, &why);
		return;
	}
	f->i++;
	next(f);
}

/* What it has found in an archive with owners. */
static void on_data(const char *data, size_t len, void *arg)
{
	(void)data;
	(void)len;
	(void)arg;
}

static int unpack(struct fill *f, struct sandbox *s, const char *hash, const char *path,
                  bool has_owners, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_data = on_data, .on_record = on_record, .on_room = on_room, .on_end = on_end};
	struct start op = {.kind = START_FILE,
	                   .op = has_owners ? FILE_ROOT_IN : FILE_TAR_IN,
	                   .flags = has_owners ? FILE_BARE : FILE_PARENTS,
	                   .user = unconst("root"),
	                   .path = unconst(path),
	                   .limit = ENTRIES_MAX};
	bool is_gzip;

	f->fd = parcel_open(f->b->owner, f->b->project_id, hash, &is_gzip, err);
	if (f->fd < 0)
		return f->fd;
	op.flags |= is_gzip && !has_owners ? FILE_GZIP : 0; /* else it looks itself */
	f->at = f->len = 0;
	f->is_whole = false;
	return file_call_start(s, &op, &ops, f, &f->call, err);
}

static void next(struct fill *f)
{
	const json_t *one = json_array_get(f->list, f->i);
	const char *hash = json_string_value(json_array_get(one, 0));
	const char *path = json_string_value(json_array_get(one, 1));
	struct sandbox *s =
		sandbox_find(f->b->owner->config.fleet, BUILD_PROJECT, f->b->sandbox_id);
	struct err err = {0};
	int r;

	if (!hash) {
		end(f, NULL);
		return;
	}
	r = s ? unpack(f, s, hash, path, json_is_true(json_array_get(one, 2)), &err)
	      : err_set(&err, ERR_GONE, 0, "the build's sandbox has ended");
	if (r < 0)
		end(f, &err);
	else
		on_room(f);
}

void fill_begin(struct build *b, fill_done_fn done)
{
	struct fill *f = xnew0(struct fill);

	f->b = b;
	f->done = done;
	f->fd = -1;
	f->list = list_fills(b);
	b->fill = f;
	next(f);
}
