// SPDX-License-Identifier: Apache-2.0
/*
 * Encoders and decoders, field by field in the order of api/agent-protocol.md. An encoder refuses
 * what its decoder would refuse, so that a caller's mistake is an error on its own side and not a
 * closed connection.
 */
#include "proto/start.h"

#include <string.h>

enum {
	START_HAS_STDIN = 1U << 0,
	START_HAS_PTY = 1U << 1,
};

static void free_words(char **words, size_t n)
{
	for (size_t i = 0; words && i < n; i++)
		free(words[i]);
	free(words);
}

void start_done(struct start *s)
{
	free(s->tag);
	free(s->user);
	free_words(s->argv, s->argc);
	free_words(s->env, s->envc);
	free(s->cwd);
	free(s->path);
	free(s->path2);
	free(s->owner);
	memset(s, 0, sizeof(*s));
}

bool start_is_program(enum start_kind kind)
{
	return kind == START_EXEC || kind == START_KERNEL || kind == START_FORKED ||
	       kind == START_COPIED;
}

static size_t length(const char *s)
{
	return s ? strlen(s) : 0;
}

static bool tag_is_good(const char *tag)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_-";

	return length(tag) <= START_TAG_MAX && (!tag || tag[strspn(tag, letters)] == '\0');
}

static bool env_is_good(char *const *env, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *equals = strchr(env[i], '=');

		if (!equals || equals == env[i])
			return false;
	}
	return true;
}

static bool exec_is_good(const struct start *s)
{
	return length(s->tag) > 0 && s->argc > 0 && s->argc <= START_ARGS_MAX &&
	       s->argv[0][0] != '\0' && s->envc <= START_ARGS_MAX && env_is_good(s->env, s->envc) &&
	       length(s->cwd) <= START_PATH_MAX;
}

static bool file_is_good(const struct start *s)
{
	return s->op >= FILE_READ && s->op < FILE_OP_COUNT && (s->flags & ~FILE_FLAGS_ALL) == 0 &&
	       (s->mode & ~07777U) == 0 && length(s->path) <= START_PATH_MAX &&
	       length(s->path2) <= START_PATH_MAX && length(s->owner) <= START_NAME_MAX;
}

static bool start_is_good(const struct start *s)
{
	if (!tag_is_good(s->tag) || length(s->user) > START_NAME_MAX)
		return false;
	switch (s->kind) {
	case START_EXEC:
		return exec_is_good(s);
	case START_KERNEL:
	case START_FORKED:
	case START_COPIED:
		return exec_is_good(s) && !s->has_stdin && !s->has_pty;
	case START_FILE:
		return file_is_good(s);
	}
	return false;
}

static size_t words_size(char *const *words, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += strlen(words[i]) + 1;
	return size;
}

static void pack_words(struct pack *p, char *const *words, size_t n)
{
	pack_u32(p, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		pack_str(p, words[i]);
}

static void pack_exec(struct pack *p, const struct start *s)
{
	pack_words(p, s->argv, s->argc);
	pack_words(p, s->env, s->envc);
	pack_str(p, s->cwd);
	pack_u8(p, (uint8_t)((s->has_stdin ? START_HAS_STDIN : 0U) |
	                     (s->has_pty ? START_HAS_PTY : 0U)));
	pack_u16(p, s->rows);
	pack_u16(p, s->cols);
	pack_u64(p, s->timeout_us);
	pack_u64(p, s->grace_us);
}

static void pack_file(struct pack *p, const struct start *s)
{
	pack_u8(p, (uint8_t)s->op);
	pack_u32(p, s->flags);
	pack_str(p, s->path);
	pack_str(p, s->path2);
	pack_str(p, s->owner);
	pack_u32(p, s->mode);
	pack_u64(p, s->offset);
	pack_u64(p, s->size);
	pack_u32(p, s->limit);
	pack_u32(p, s->depth);
}

int start_encode(const struct start *s, struct buf *out)
{
	struct pack p = {.out = out};
	size_t before = out->len;

	if (!start_is_good(s))
		return -EINVAL;
	if (words_size(s->argv, s->argc) + words_size(s->env, s->envc) > START_BYTES_MAX)
		return -E2BIG;
	pack_u8(&p, (uint8_t)s->kind);
	pack_str(&p, s->tag);
	pack_str(&p, s->user);
	if (start_is_program(s->kind))
		pack_exec(&p, s);
	else
		pack_file(&p, s);
	if (p.error < 0)
		buf_truncate(out, before);
	return p.error;
}

/* Each word with its NUL is subtracted from *left, which bounds both their number and their
 * bytes. */
static char **unpack_words(struct unpack *u, size_t *left, size_t *ret_n)
{
	size_t n = unpack_u32(u);
	char **words;

	if (u->is_bad || n > START_ARGS_MAX || n > *left) {
		u->is_bad = true;
		return NULL;
	}
	words = xnew0n(char *, n + 1);
	for (size_t i = 0; i < n && !u->is_bad; i++) {
		words[i] = *left > 0 ? unpack_str(u, *left - 1) : NULL;
		if (words[i])
			*left -= strlen(words[i]) + 1;
		else
			u->is_bad = true;
	}
	*ret_n = n;
	return words;
}

static void unpack_exec(struct unpack *u, struct start *s)
{
	size_t left = START_BYTES_MAX;
	uint8_t bits;

	s->argv = unpack_words(u, &left, &s->argc);
	s->env = unpack_words(u, &left, &s->envc);
	s->cwd = unpack_str(u, START_PATH_MAX);
	bits = unpack_u8(u);
	if (bits & ~(START_HAS_STDIN | START_HAS_PTY))
		u->is_bad = true;
	s->has_stdin = bits & START_HAS_STDIN;
	s->has_pty = bits & START_HAS_PTY;
	s->rows = unpack_u16(u);
	s->cols = unpack_u16(u);
	s->timeout_us = unpack_u64(u);
	s->grace_us = unpack_u64(u);
}

static void unpack_file(struct unpack *u, struct start *s)
{
	s->op = (enum file_op)unpack_u8(u);
	s->flags = unpack_u32(u);
	s->path = unpack_str(u, START_PATH_MAX);
	s->path2 = unpack_str(u, START_PATH_MAX);
	s->owner = unpack_str(u, START_NAME_MAX);
	s->mode = unpack_u32(u);
	s->offset = unpack_u64(u);
	s->size = unpack_u64(u);
	s->limit = unpack_u32(u);
	s->depth = unpack_u32(u);
}

int start_decode(const void *data, size_t len, struct start *ret)
{
	struct unpack u = {.data = data, .len = len};
	struct start s = {.kind = (enum start_kind)unpack_u8(&u)};

	s.tag = unpack_str(&u, START_TAG_MAX);
	s.user = unpack_str(&u, START_NAME_MAX);
	if (start_is_program(s.kind))
		unpack_exec(&u, &s);
	else
		unpack_file(&u, &s);
	if (unpack_end(&u) < 0 || !start_is_good(&s)) {
		start_done(&s);
		return -EPROTO;
	}
	*ret = s;
	return 0;
}

static bool exit_is_good(const struct channel_exit *e)
{
	if (e->cause > EXIT_CAUSE_KILLED || (e->flags & ~(uint32_t)EXIT_TRUNCATED))
		return false;
	switch (e->how) {
	case EXIT_CODE:
		return e->value <= 255;
	case EXIT_SIGNAL:
		return e->value >= 1 && e->value <= 64;
	case EXIT_FAILED:
		return e->value >= 1 && e->value <= 4095; /* the kernel's range of errnos */
	}
	return false;
}

int channel_exit_encode(const struct channel_exit *e, struct buf *out)
{
	struct pack p = {.out = out};
	size_t before = out->len;

	if (!exit_is_good(e))
		return -EINVAL;
	pack_u8(&p, (uint8_t)e->how);
	pack_u32(&p, e->value);
	pack_u8(&p, (uint8_t)e->cause);
	pack_u32(&p, e->flags);
	pack_u64(&p, e->wall_us);
	pack_u64(&p, e->user_us);
	pack_u64(&p, e->system_us);
	pack_u64(&p, e->max_rss_kib);
	pack_u64(&p, e->output_end);
	pack_bytes(&p, e->message, strnlen(e->message, sizeof(e->message) - 1));
	if (p.error < 0)
		buf_truncate(out, before);
	return p.error;
}

int channel_exit_decode(const void *data, size_t len, struct channel_exit *ret)
{
	struct unpack u = {.data = data, .len = len};
	struct channel_exit e = {0};
	const void *message;
	size_t message_len;

	e.how = (enum exit_how)unpack_u8(&u);
	e.value = unpack_u32(&u);
	e.cause = (enum exit_cause)unpack_u8(&u);
	e.flags = unpack_u32(&u);
	e.wall_us = unpack_u64(&u);
	e.user_us = unpack_u64(&u);
	e.system_us = unpack_u64(&u);
	e.max_rss_kib = unpack_u64(&u);
	e.output_end = unpack_u64(&u);
	message = unpack_bytes(&u, sizeof(e.message) - 1, &message_len);
	if (unpack_end(&u) < 0 || !exit_is_good(&e) || memchr(message, '\0', message_len))
		return -EPROTO;
	memcpy(e.message, message, message_len);
	*ret = e;
	return 0;
}

void record_done(struct record *r)
{
	free(r->path);
	free(r->path2);
	free(r->user);
	free(r->group);
	free(r->patch);
	memset(r, 0, sizeof(*r));
}

static bool record_is_good(const struct record *r)
{
	if (length(r->path) > RECORD_PATH_MAX || length(r->path2) > RECORD_PATH_MAX ||
	    length(r->user) > START_NAME_MAX || length(r->group) > START_NAME_MAX)
		return false;
	switch (r->kind) {
	case RECORD_ENTRY:
	case RECORD_COUNT:
	case RECORD_ATTRIBUTE:
		return r->event == 0;
	case RECORD_CHANGE:
		return r->event == 0 && r->changes != 0 && (r->changes & ~CHANGE_ALL) == 0 &&
		       length(r->patch) <= RECORD_PATCH_MAX;
	case RECORD_EVENT:
		return r->event >= WATCH_CREATED && r->event <= WATCH_READY;
	}
	return false;
}

int record_encode(const struct record *r, struct buf *out)
{
	struct pack p = {.out = out};
	size_t before = out->len;
	uint32_t fixed = 1 + 1 + 3 * 4 + 6 * 8 + 4 * 4;

	if (!record_is_good(r))
		return -EINVAL;
	if (r->kind == RECORD_CHANGE)
		fixed += 4 * 4 + 8 + 4 + (uint32_t)length(r->patch);
	pack_u32(&p, fixed + (uint32_t)(length(r->path) + length(r->path2) + length(r->user) +
	                                length(r->group)));
	pack_u8(&p, (uint8_t)r->kind);
	pack_u8(&p, (uint8_t)r->event);
	pack_u32(&p, r->mode);
	pack_u32(&p, r->uid);
	pack_u32(&p, r->gid);
	pack_u64(&p, r->size);
	pack_u64(&p, r->mtime_us);
	pack_u64(&p, r->inode);
	pack_u64(&p, r->links);
	pack_u64(&p, r->count);
	pack_u64(&p, r->bytes);
	pack_str(&p, r->path);
	pack_str(&p, r->path2);
	pack_str(&p, r->user);
	pack_str(&p, r->group);
	if (r->kind == RECORD_CHANGE) {
		pack_u32(&p, r->changes);
		pack_u32(&p, r->old.mode);
		pack_u32(&p, r->old.uid);
		pack_u32(&p, r->old.gid);
		pack_u64(&p, r->old.size);
		pack_str(&p, r->patch);
	}
	if (p.error < 0)
		buf_truncate(out, before);
	return p.error;
}

int record_decode(const void *data, size_t len, struct record *ret, size_t *ret_used)
{
	struct unpack u = {.data = data, .len = len};
	struct record r = {0};
	size_t size;

	if (len < 4)
		return 0;
	size = unpack_u32(&u);
	if (size > RECORD_MAX - 4)
		return -EPROTO;
	if (u.len < size)
		return 0;
	u.len = size;
	r.kind = (enum record_kind)unpack_u8(&u);
	r.event = (enum watch_event)unpack_u8(&u);
	r.mode = unpack_u32(&u);
	r.uid = unpack_u32(&u);
	r.gid = unpack_u32(&u);
	r.size = unpack_u64(&u);
	r.mtime_us = unpack_u64(&u);
	r.inode = unpack_u64(&u);
	r.links = unpack_u64(&u);
	r.count = unpack_u64(&u);
	r.bytes = unpack_u64(&u);
	r.path = unpack_str(&u, RECORD_PATH_MAX);
	r.path2 = unpack_str(&u, RECORD_PATH_MAX);
	r.user = unpack_str(&u, START_NAME_MAX);
	r.group = unpack_str(&u, START_NAME_MAX);
	if (r.kind == RECORD_CHANGE) {
		r.changes = unpack_u32(&u);
		r.old.mode = unpack_u32(&u);
		r.old.uid = unpack_u32(&u);
		r.old.gid = unpack_u32(&u);
		r.old.size = unpack_u64(&u);
		r.patch = unpack_str(&u, RECORD_PATCH_MAX);
	}
	if (unpack_end(&u) < 0 || !record_is_good(&r)) {
		record_done(&r);
		return -EPROTO;
	}
	*ret = r;
	*ret_used = 4 + size;
	return 1;
}
