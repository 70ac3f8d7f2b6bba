// SPDX-License-Identifier: Apache-2.0
#include "proto/bundle.h"

#include "base/units.h"
#include "proto/start.h"

#include <string.h>
#include <sys/stat.h>

#define TIME_MAX  (UINT64_C(1) << 34) /* seconds */
#define HEAD_SIZE 5

void bundle_record_done(struct bundle_record *r)
{
	free(r->path);
	free(r->target);
	free(r->name);
	memset(r, 0, sizeof(*r));
}

static size_t length(const char *s)
{
	return s ? strlen(s) : 0;
}

bool bundle_path_is_good(const char *path)
{
	const size_t len = length(path);

	if (len < 2 || len > BUNDLE_PATH_MAX || path[0] != '/')
		return false;
	for (const char *name = path; *name;) {
		size_t n = strcspn(++name, "/");

		if (n == 0 || n > 255 || (n == 1 && name[0] == '.') ||
		    (n == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		name += n;
	}
	return true;
}

static bool is_entry_good(const struct bundle_record *r)
{
	const uint32_t kind = r->mode & S_IFMT;

	if ((r->mode & ~(uint32_t)(S_IFMT | 07777)) != 0 || r->uid > UINT16_MAX ||
	    r->gid > UINT16_MAX || r->mtime_ns / SECOND_NS > TIME_MAX || r->size > INT64_MAX)
		return false;
	if (r->is_link)
		return kind == S_IFREG && r->size == 0 && bundle_path_is_good(r->target);
	if (kind == S_IFLNK)
		return length(r->target) > 0 && length(r->target) < START_PATH_MAX;
	return length(r->target) == 0 &&
	       (kind == S_IFREG ||
	        (r->size == 0 && (kind == S_IFDIR || kind == S_IFIFO || kind == S_IFSOCK)));
}

static bool is_attribute_good(const struct bundle_record *r)
{
	const size_t len = length(r->name);

	if (len == 0 || len > 255 || r->len > BUNDLE_TEXT_MAX)
		return false;
	return (strncmp(r->name, "user.", 5) == 0 && strncmp(r->name, "user.overlay.", 13) != 0) ||
	       strcmp(r->name, "system.posix_acl_access") == 0 ||
	       strcmp(r->name, "system.posix_acl_default") == 0;
}

static bool is_good(const struct bundle_record *r)
{
	switch (r->kind) {
	case BUNDLE_TEXT:
		return r->len <= BUNDLE_TEXT_MAX;
	case BUNDLE_ENTRY:
		return bundle_path_is_good(r->path) && is_entry_good(r);
	case BUNDLE_ATTRIBUTE:
		return is_attribute_good(r);
	case BUNDLE_DATA:
		return r->len > 0 && r->len <= BUNDLE_DATA_MAX &&
		       r->offset <= INT64_MAX - BUNDLE_DATA_MAX;
	case BUNDLE_DELETE:
		return bundle_path_is_good(r->path);
	case BUNDLE_END:
		return r->len == BUNDLE_DIGEST;
	}
	return false;
}

static void pack_seen(struct pack *p, const struct bundle_record *r)
{
	pack_u8(p, r->is_checked);
	pack_u32(p, r->seen.mode);
	pack_u64(p, r->seen.size);
	pack_u64(p, r->seen.mtime_ns);
}

static void pack_fields(struct pack *p, const struct bundle_record *r)
{
	if (r->kind == BUNDLE_ENTRY || r->kind == BUNDLE_DELETE) {
		pack_str(p, r->path);
		pack_seen(p, r);
	}
	if (r->kind == BUNDLE_ENTRY) {
		pack_u32(p, r->mode);
		pack_u32(p, r->uid);
		pack_u32(p, r->gid);
		pack_u64(p, r->size);
		pack_u64(p, r->mtime_ns);
		pack_str(p, r->target);
		pack_u8(p, r->is_link);
	} else if (r->kind == BUNDLE_ATTRIBUTE) {
		pack_str(p, r->name);
	} else if (r->kind == BUNDLE_DATA) {
		pack_u64(p, r->offset);
	}
	if (r->kind != BUNDLE_ENTRY && r->kind != BUNDLE_DELETE)
		pack_bytes(p, r->data, r->len);
}

int bundle_encode(const struct bundle_record *r, struct buf *out)
{
	const size_t before = out->len;
	struct pack p = {.out = out};
	uint32_t len;

	if (!is_good(r))
		return -EINVAL;
	pack_u32(&p, 0);
	pack_u8(&p, (uint8_t)r->kind);
	pack_fields(&p, r);
	if (p.error == 0 && out->len - before > BUNDLE_RECORD_MAX)
		p.error = -E2BIG;
	if (p.error < 0) {
		buf_truncate(out, before);
		return p.error;
	}
	len = (uint32_t)(out->len - before - 4);
	for (size_t i = 0; i < 4; i++)
		out->data[before + i] = (char)(len >> 8 * i);
	return 0;
}

static bool unpack_flag(struct unpack *u)
{
	const uint8_t v = unpack_u8(u);

	u->is_bad = u->is_bad || v > 1;
	return v == 1;
}

static void unpack_fields(struct unpack *u, struct bundle_record *r)
{
	if (r->kind == BUNDLE_ENTRY || r->kind == BUNDLE_DELETE) {
		r->path = unpack_str(u, BUNDLE_PATH_MAX);
		r->is_checked = unpack_flag(u);
		r->seen.mode = unpack_u32(u);
		r->seen.size = unpack_u64(u);
		r->seen.mtime_ns = unpack_u64(u);
	}
	if (r->kind == BUNDLE_ENTRY) {
		r->mode = unpack_u32(u);
		r->uid = unpack_u32(u);
		r->gid = unpack_u32(u);
		r->size = unpack_u64(u);
		r->mtime_ns = unpack_u64(u);
		r->target = unpack_str(u, BUNDLE_PATH_MAX);
		r->is_link = unpack_flag(u);
	} else if (r->kind == BUNDLE_ATTRIBUTE) {
		r->name = unpack_str(u, 255);
	} else if (r->kind == BUNDLE_DATA) {
		r->offset = unpack_u64(u);
	}
	if (r->kind != BUNDLE_ENTRY && r->kind != BUNDLE_DELETE)
		r->data = unpack_bytes(u, BUNDLE_RECORD_MAX, &r->len);
}

int bundle_decode(const void *data, size_t len, struct bundle_record *ret, size_t *ret_used)
{
	struct unpack u = {.data = data, .len = len};
	struct bundle_record r = {0};
	size_t size;

	if (len < HEAD_SIZE)
		return 0;
	size = unpack_u32(&u);
	if (size < 1 || size > BUNDLE_RECORD_MAX - 4)
		return -EPROTO;
	if (u.len < size)
		return 0;
	u.len = size;
	r.kind = (enum bundle_kind)unpack_u8(&u);
	unpack_fields(&u, &r);
	if (unpack_end(&u) < 0 || !is_good(&r)) {
		bundle_record_done(&r);
		return -EPROTO;
	}
	*ret = r;
	*ret_used = 4 + size;
	return 1;
}
