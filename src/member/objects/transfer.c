// SPDX-License-Identifier: Apache-2.0
#include "member/objects/transfer.h"

#include "base/clock.h"
#include "base/fd.h"
#include "object/object_collect.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Several make one row: an image has up to nine parts. */
#define UPLOAD_US (OBJECT_UPLOAD_US / 12)

struct piece {
	struct transfer *of;
	size_t at;
};

struct transfer {
	struct store_pool *pool;
	struct object_keys keys;
	struct digest name; /* of the manifest */
	struct object_manifest m;
	int fd, text_fd; /* the thing's, borrowed; the manifest's */
	bool is_upload;
	struct transfer_target target;
	size_t next, n_open;
	struct piece pieces[STORE_WORKERS];
	struct transfer_result result;
	uint64_t begun_us;
	char message[200];
};

static void end(struct transfer *t)
{
	const struct transfer_target target = t->target;
	char message[sizeof(t->message)];
	struct transfer_result result = t->result;

	memcpy(message, t->message, sizeof(message));
	result.message = message;
	result.bytes = t->m.claim.size;
	result.n_chunks = t->m.n_chunks;
	result.manifest = &t->m;
	result.name = &t->name;
	object_keys_wipe(&t->keys);
	close_fd(&t->text_fd);
	target.done(&result, target.arg);
	object_manifest_done(&t->m);
	free(t);
}

/* The first failure is the one that is told. */
static void note(struct transfer *t, enum trouble trouble, const char *message)
{
	if (t->result.trouble || !trouble)
		return;
	t->result.trouble = trouble;
	(void)snprintf(t->message, sizeof(t->message), "%s", message);
}

static void on_manifest_put(const struct store_result *r, void *arg)
{
	struct transfer *t = arg;

	note(t, r->trouble, r->message);
	end(t);
}

static void put_manifest(struct transfer *t)
{
	struct buf text = BUF_INIT(OBJECT_MANIFEST_MAX);
	struct store_job job = {.op = STORE_PUT_MANIFEST, .name = t->name, .keys = t->keys};
	int r = object_manifest_write(&t->m, &text);

	job.len = (uint32_t)text.len;
	if (clock_steady_us() - t->begun_us > UPLOAD_US) {
		buf_done(&text);
		note(t, TROUBLE_STORE_UNREACHABLE,
		     "it took so long that what it has found in the store may be gone by now; it "
		     "is tried again");
		end(t);
		return;
	}
	if (r == 0 && pwrite(t->text_fd, text.data, text.len, 0) != (ssize_t)text.len)
		r = -EIO;
	buf_done(&text);
	if (r == 0) {
		store_pool_do(t->pool, &job, t->text_fd, on_manifest_put, t);
		return;
	}
	note(t, TROUBLE_STORE_SETTING, "this node has no room for the manifest");
	end(t);
}

static void go_on(struct transfer *t);

static void on_piece(const struct store_result *r, void *arg)
{
	struct piece *p = arg;
	struct transfer *t = p->of;

	note(t, r->trouble, r->message);
	if (t->is_upload) {
		t->m.chunks[p->at] = r->name;
		t->result.n_there += r->was_there;
		t->result.n_zero += digest_is_zero(&r->name);
	}
	p->of = NULL;
	t->n_open--;
	go_on(t);
}

static void begin_piece(struct transfer *t, struct piece *p)
{
	const struct store_job job = {.op = t->is_upload ? STORE_PUT_CHUNK : STORE_GET_CHUNK,
	                              .len = (uint32_t)object_chunk_len(t->m.claim.size, t->next),
	                              .offset = (uint64_t)t->next * OBJECT_CHUNK,
	                              .name = t->m.chunks[t->next],
	                              .keys = t->keys};

	*p = (struct piece){.of = t, .at = t->next++};
	t->n_open++;
	store_pool_do(t->pool, &job, t->fd, on_piece, p);
}

static bool has_next(struct transfer *t)
{
	while (!t->is_upload && t->next < t->m.n_chunks && digest_is_zero(&t->m.chunks[t->next])) {
		t->next++; /* a hole of the file */
		t->result.n_zero++;
	}
	return !t->result.trouble && t->next < t->m.n_chunks;
}

static void go_on(struct transfer *t)
{
	for (size_t i = 0; i < STORE_WORKERS && has_next(t); i++)
		if (!t->pieces[i].of)
			begin_piece(t, &t->pieces[i]);
	if (t->n_open > 0)
		return;
	if (t->is_upload && !t->result.trouble)
		put_manifest(t);
	else
		end(t);
}

static struct transfer *new (struct store_pool *pool, const struct object_keys *keys,
                             const char *scratch_dir)
{
	struct transfer *t = xnew0(struct transfer);

	t->pool = pool;
	t->keys = *keys;
	t->fd = -1;
	t->begun_us = clock_steady_us();
	t->text_fd = open(scratch_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (t->text_fd < 0)
		note(t, TROUBLE_STORE_SETTING, "this node has no room for the manifest");
	return t;
}

void transfer_upload(struct store_pool *pool, const struct object_keys *keys,
                     const struct object_manifest *m, int fd, const char *scratch_dir,
                     transfer_fn fn, void *arg)
{
	struct transfer *t = new (pool, keys, scratch_dir);

	t->target = (struct transfer_target){.done = fn, .arg = arg};
	t->is_upload = true;
	t->fd = fd;
	t->m = *m;
	t->m.n_chunks = object_chunks_of(m->claim.size);
	t->m.chunks = xcalloc(MAX(t->m.n_chunks, (size_t)1), DIGEST_LEN);
	object_manifest_name(keys, m->claim.kind, &m->claim.digest, m->claim.generation, &t->name);
	go_on(t);
}

/* Holes are left where chunks of zeros are. */
static int make_room(const struct transfer *t)
{
	struct stat st;

	return fstat(t->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != 0 ||
	                       ftruncate(t->fd, (off_t)t->m.claim.size) < 0
	               ? -1
	               : 0;
}

static void on_manifest_got(const struct store_result *r, void *arg)
{
	struct transfer *t = arg;
	const uint32_t len = MIN(r->len, (uint32_t)OBJECT_MANIFEST_MAX);
	auto_free uint8_t *text = xcalloc((size_t)len + 1, 1);
	struct object_manifest m;
	struct digest name;

	note(t, r->trouble, r->message);
	if (!t->result.trouble && (pread(t->text_fd, text, len, 0) != (ssize_t)len ||
	                           object_manifest_read(text, len, &m) < 0))
		note(t, TROUBLE_STORE_DAMAGED, "the manifest does not hold together");
	if (t->result.trouble) {
		end(t);
		return;
	}
	t->m = m;
	object_manifest_name(&t->keys, m.claim.kind, &m.claim.digest, m.claim.generation, &name);
	if (!digest_equal(&name, &t->name)) {
		note(t, TROUBLE_STORE_DAMAGED, "the manifest is about something else");
	} else {
		t->fd = t->target.take(&t->m, t->message, t->target.arg);
		if (t->fd < 0)
			t->result.trouble = TROUBLE_STORE_DAMAGED;
		else if (make_room(t) < 0)
			note(t, TROUBLE_STORE_SETTING, "the file cannot be filled");
	}
	go_on(t);
}

void transfer_download(struct store_pool *pool, const struct object_keys *keys,
                       enum object_kind kind, const struct digest *digest, uint64_t generation,
                       const char *scratch_dir, const struct transfer_target *target)
{
	struct transfer *t = new (pool, keys, scratch_dir);
	struct store_job job = {.op = STORE_GET_MANIFEST, .keys = *keys};

	t->target = *target;
	object_manifest_name(keys, kind, digest, generation, &t->name);
	job.name = t->name;
	store_pool_do(pool, &job, t->text_fd, on_manifest_got, t);
}
