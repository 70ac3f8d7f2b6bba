// SPDX-License-Identifier: Apache-2.0
/* An archive, perhaps compressed, cut into pieces by its first byte. What reaches the callbacks
 * must be what tar.h promises. */
#include "agent/archive/compress.h"
#include "tar/tar.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	struct tar_reader *reader;
	uint64_t left; /* of the present file's data */
	bool is_open;
};

static void check_path(const char *path)
{
	if (path[0] == '\0' || path[0] == '/')
		abort();
	for (const char *at = path; *at;) {
		size_t len = strcspn(at, "/");

		if (len == 0 || (len == 2 && memcmp(at, "..", 2) == 0))
			abort();
		at += len + (at[len] == '/');
	}
}

static int on_entry(const struct tar_entry *e, void *arg, struct err *err)
{
	struct sum *s = arg;

	(void)err;
	if (s->is_open || e->mode & ~0777U || (e->kind != TAR_FILE && e->size > 0))
		abort();
	check_path(e->path);
	if (e->kind == TAR_HARDLINK)
		check_path(e->target);
	s->left = e->size;
	s->is_open = e->kind == TAR_FILE;
	return 0;
}

static int on_data(const void *data, size_t len, void *arg, struct err *err)
{
	struct sum *s = arg;

	(void)data;
	(void)err;
	if (!s->is_open || len > s->left)
		abort();
	s->left -= len;
	return 0;
}

static int on_entry_end(void *arg, struct err *err)
{
	struct sum *s = arg;

	(void)err;
	if (!s->is_open || s->left > 0)
		abort();
	s->is_open = false;
	return 0;
}

static void on_pipe(const char *path, void *arg)
{
	const struct sum *s = arg;

	if (s->is_open)
		abort();
	check_path(path);
}

static int feed(const void *data, size_t len, void *arg, struct err *err)
{
	struct sum *s = arg;

	return tar_reader_feed(s->reader, data, len, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct tar_ops ops = {on_entry, on_data, on_entry_end, on_pipe};
	static const struct tar_limits limits = {.entries = 1000, .bytes = 16 << 20};
	struct sum s = {0};
	auto_call(tar_reader_freep) struct tar_reader *reader = tar_reader_new(&ops, &s, &limits);
	auto_call(decompress_freep) struct decompress *in = decompress_new(COMPRESS_NONE, feed, &s);
	size_t piece;
	struct err err;

	if (size == 0)
		return 0;
	s.reader = reader;
	piece = (size_t)data[0] * 13 + 1;
	for (size_t at = 1; at < size; at += piece)
		if (decompress_feed(in, data + at, MIN(piece, size - at), &err) < 0)
			return 0;
	if (decompress_finish(in, &err) >= 0)
		(void)!tar_reader_finish(reader, &err);
	return 0;
}
