// SPDX-License-Identifier: Apache-2.0
/* What differs between the snapshots that are shown, a record each, with the text if asked for. */
#include "agent/archive/patch.h"
#include "agent/archive/tree_compare.h"
#include "agent/fileops/files.h"
#include "base/fd.h"

#include <fcntl.h>
#include <string.h>

#define TEXT_MAX ((size_t)1 << 20) /* of a file of which a patch is made */

struct telling {
	struct file_call *call;
	uint32_t n;
};

/* Of what is no regular file: nothing. -EFBIG: there is too much. */
static int read_text(const struct entry_version *t, struct buf *ret, struct err *err)
{
	auto_fd int fd = -1;
	char *room;

	if (!t->is_there || !S_ISREG(t->st.st_mode))
		return 0;
	if ((uint64_t)t->st.st_size > TEXT_MAX)
		return -EFBIG;
	fd = openat(t->dir_fd, t->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || (t->st.st_size > 0 && (buf_reserve(ret, (size_t)t->st.st_size, &room) < 0 ||
	                                     fd_read_all(fd, room, (size_t)t->st.st_size) < 0)))
		return result_error(err, errno, "cannot read", t->name);
	if (t->st.st_size > 0)
		buf_commit(ret, (size_t)t->st.st_size);
	return 0;
}

static bool is_file(const struct entry_version *t)
{
	return t->is_there && S_ISREG(t->st.st_mode);
}

/* Sets the patch, or in changes why there is none. */
static int make_patch(const struct change *ch, struct buf *out, uint32_t *changes, struct err *err)
{
	auto_call(buf_done) struct buf old = BUF_INIT(TEXT_MAX), now = BUF_INIT(TEXT_MAX);
	const uint32_t about = CHANGE_ADDED | CHANGE_DELETED | CHANGE_CONTENT | CHANGE_TYPE;
	int r;

	if (!(*changes & about) || (!is_file(ch->old) && !is_file(ch->now)))
		return 0;
	r = read_text(ch->old, &old, err);
	if (r == 0)
		r = read_text(ch->now, &now, err);
	if (r == -EFBIG) {
		*changes |= CHANGE_TOO_LARGE;
		return 0;
	}
	if (r < 0)
		return r;
	if (!patch_is_text(buf_str(&old), old.len) || !patch_is_text(buf_str(&now), now.len))
		*changes |= CHANGE_BINARY;
	else if (patch_make(buf_str(&old), old.len, buf_str(&now), now.len, out) < 0)
		*changes |= CHANGE_TOO_LARGE;
	return 0;
}

static uint64_t size_of(const struct entry_version *t)
{
	return is_file(t) ? (uint64_t)t->st.st_size : 0;
}

static int on_change(const struct change *ch, void *arg, struct err *err)
{
	struct telling *t = arg;
	const struct start *s = t->call->start;
	auto_call(buf_done) struct buf patch = BUF_INIT(RECORD_PATCH_MAX);
	struct record r = {.kind = RECORD_CHANGE,
	                   .path = unconst(ch->path),
	                   .changes = ch->changes,
	                   .size = size_of(ch->now),
	                   .old = {.size = size_of(ch->old)}};
	int done = 0;

	if (t->n++ == s->limit) {
		t->call->exit_flags |= EXIT_TRUNCATED;
		return 1;
	}
	if (ch->now->is_there) {
		r.mode = ch->now->st.st_mode;
		r.uid = ch->now->st.st_uid;
		r.gid = ch->now->st.st_gid;
	}
	if (ch->old->is_there) {
		r.old.mode = ch->old->st.st_mode;
		r.old.uid = ch->old->st.st_uid;
		r.old.gid = ch->old->st.st_gid;
	}
	if (s->flags & FILE_PATCH)
		done = make_patch(ch, &patch, &r.changes, err);
	r.patch = unconst(buf_str(&patch));
	return done < 0 ? done : files_send_record(&r, err);
}

int op_compare(struct file_call *call, struct err *err)
{
	static const struct tree_compare_ops ops = {.on_change = on_change};
	struct telling t = {.call = call};

	return MIN(tree_compare_run(call->start->path, &ops, &t, err), 0);
}
