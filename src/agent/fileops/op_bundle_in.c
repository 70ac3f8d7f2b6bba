// SPDX-License-Identifier: Apache-2.0
/*
 * A bundle into a root. Nothing of the tree changes before the bundle's last byte has come, its
 * hash fits, and each path is what it was when the bundle was made; then path after path changes. A
 * failure in the middle of that, such as a full disk, leaves what was done by then.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "agent/archive/staging.h"
#include "agent/fileops/files.h"

#include <openssl/sha.h>
#include <string.h>

#define CHUNK (128 * 1024)

struct zygote_arrival_state {
	struct buf in;
	SHA256_CTX hash;
	bool has_magic, has_end;
	uint64_t bytes;
};

static int torn(struct err *err)
{
	return err_set(err, ERR_FILE_INVALID, EPROTO, "the bundle is torn or no bundle");
}

static int take_end(struct zygote_arrival_state *a, const struct bundle_record *r, struct err *err)
{
	unsigned char digest[BUNDLE_DIGEST];

	(void)SHA256_Final(digest, &a->hash);
	a->has_end = true;
	if (memcmp(digest, r->data, sizeof(digest)) != 0)
		return err_set(err, ERR_FILE_INVALID, EPROTO,
		               "the bundle was damaged on its way: its hash does not fit");
	return 0;
}

static int take_record(struct zygote_arrival_state *a, struct staging *s, size_t *ret_used,
                       struct err *err)
{
	struct bundle_record r;
	int error = bundle_decode(a->in.data, a->in.len, &r, ret_used);

	if (error <= 0)
		return error < 0 ? torn(err) : 0;
	if (a->has_end)
		error = torn(err);
	else if (r.kind == BUNDLE_END)
		error = take_end(a, &r, err);
	else if (r.kind != BUNDLE_TEXT)
		error = staging_take(s, &r, err);
	else
		error = 0;
	bundle_record_done(&r);
	if (error == 0 && !a->has_end)
		(void)SHA256_Update(&a->hash, a->in.data, *ret_used);
	return error < 0 ? error : 1;
}

static int take_magic(struct zygote_arrival_state *a, struct err *err)
{
	if (a->has_magic || a->in.len < BUNDLE_MAGIC_SIZE)
		return 0;
	if (memcmp(a->in.data, BUNDLE_MAGIC, BUNDLE_MAGIC_SIZE) != 0)
		return torn(err);
	(void)SHA256_Update(&a->hash, a->in.data, BUNDLE_MAGIC_SIZE);
	buf_consume(&a->in, BUNDLE_MAGIC_SIZE);
	a->has_magic = true;
	return 0;
}

static int take_all(struct zygote_arrival_state *a, struct staging *s, struct err *err)
{
	int r = take_magic(a, err);

	while (r == 0 && a->has_magic) {
		size_t used = 0;

		r = take_record(a, s, &used, err);
		if (r <= 0)
			return r;
		buf_consume(&a->in, used);
		r = 0;
	}
	return r;
}

static int receive(struct zygote_arrival_state *a, struct staging *s, struct err *err)
{
	for (;;) {
		char *room;
		ssize_t n;
		int r;

		if (buf_reserve(&a->in, CHUNK, &room) < 0)
			return torn(err);
		n = read(STDIN_FILENO, room, CHUNK);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot read the bundle");
		if (n == 0)
			return a->has_end && a->in.len == 0 ? 0 : torn(err);
		buf_commit(&a->in, (size_t)n);
		a->bytes += (uint64_t)n;
		r = take_all(a, s, err);
		if (r < 0)
			return r;
	}
}

int op_bundle_in(struct file_call *call, struct err *err)
{
	struct zygote_arrival_state a = {.in = BUF_INIT(BUNDLE_RECORD_MAX + CHUNK)};
	struct record count = {.kind = RECORD_COUNT};
	struct staging *s = NULL;
	int r = staging_open(call->start->path, &s, err);

	(void)SHA256_Init(&a.hash);
	if (r == 0)
		r = receive(&a, s, err);
	if (r == 0)
		r = staging_check(s, err);
	if (r == 0)
		r = staging_apply(s, err);
	if (r == 0) {
		count.count = staging_count(s);
		count.bytes = a.bytes;
	}
	staging_close(s);
	buf_done(&a.in);
	return r == 0 ? files_send_record(&count, err) : r;
}
