// SPDX-License-Identifier: Apache-2.0
/*
 * The reader is fed in pieces of any size and holds at most one block and one extended header.
 *
 *	HEAD --> META (long name, pax) --> HEAD        an entry's extras come before its own header
 *	  +----> DATA --> PADDING --> HEAD
 *	  +----> END  two zero blocks; what follows is padding of the medium
 */
#include "tar/tar.h"

#include "base/parse.h"
#include "tar/format.h"

#include <assert.h>
#include <string.h>

#define META_MAX     (256 * 1024) /* one extended header; xattrs in it are dropped anyway */
#define PATH_LEN_MAX 65535

static_assert(sizeof(struct tar_head) == TAR_BLOCK, "the header is one block");

enum state { STATE_HEAD, STATE_META, STATE_DATA, STATE_PADDING, STATE_END };

struct tar_reader {
	const struct tar_ops *ops;
	void *arg;
	struct tar_limits limits;
	enum state state;
	uint64_t entries, bytes;

	union {
		struct tar_head head;
		unsigned char bytes[TAR_BLOCK];
	} block;
	size_t have;    /* bytes of block */
	uint64_t left;  /* of data or meta */
	size_t padding; /* behind it */
	unsigned zeros; /* zero blocks in a row */
	bool has_any;   /* a header was seen: this is an archive */
	bool is_file;   /* on_entry_end() is due */
	char meta_type;
	struct buf meta;

	/* From extended headers, for the next entry. */
	char *path, *target;
	bool has_size;
	uint64_t size;
	bool has_mtime, has_uid, has_gid;
	uint64_t mtime_s, uid, gid;
	uint32_t mtime_ns;
};

struct tar_reader *tar_reader_new(const struct tar_ops *ops, void *arg,
                                  const struct tar_limits *limits)
{
	struct tar_reader *r = xnew0(struct tar_reader);

	r->ops = ops;
	r->arg = arg;
	r->limits = *limits;
	buf_init(&r->meta, META_MAX);
	return r;
}

static void drop_extras(struct tar_reader *r)
{
	free(r->path);
	free(r->target);
	r->path = r->target = NULL;
	r->has_size = r->has_mtime = r->has_uid = r->has_gid = false;
	r->mtime_ns = 0;
}

void tar_reader_free(struct tar_reader *r)
{
	if (!r)
		return;
	drop_extras(r);
	buf_done(&r->meta);
	free(r);
}

bool tar_reader_is_closed(const struct tar_reader *r)
{
	return r->state == STATE_END;
}

uint64_t tar_reader_entries(const struct tar_reader *r)
{
	return r->entries;
}

uint64_t tar_reader_bytes(const struct tar_reader *r)
{
	return r->bytes;
}

static int refuse(struct err *err, int errnum, const char *entry, const char *why)
{
	if (entry)
		(void)err_set(err, ERR_FILE_INVALID, 0, "archive entry '%.200s': %s", entry, why);
	else
		(void)err_set(err, ERR_FILE_INVALID, 0, "archive: %s", why);
	if (err)
		err->errnum = errnum;
	return -errnum;
}

/* Octal digits between blanks, or GNU's base 256 with the top bit set. Negative is refused. */
static int parse_number(const char *field, size_t len, uint64_t *ret)
{
	const unsigned char *at = (const unsigned char *)field, *end = at + len;
	uint64_t v = 0;

	if (*at & 0x80) {
		if (*at != 0x80)
			return -ERANGE;
		for (at++; at < end; at++) {
			if (v >> 55)
				return -ERANGE;
			v = v << 8 | *at;
		}
		*ret = v;
		return 0;
	}
	while (at < end && *at == ' ')
		at++;
	for (; at < end && *at >= '0' && *at <= '7'; at++) {
		if (v >> 60)
			return -ERANGE;
		v = v << 3 | (uint64_t)(*at - '0');
	}
	for (; at < end; at++)
		if (*at != ' ' && *at != '\0')
			return -EINVAL;
	if (v > INT64_MAX)
		return -ERANGE;
	*ret = v;
	return 0;
}

static bool checksum_is_good(const struct tar_head *head)
{
	const unsigned char *bytes = (const unsigned char *)head;
	uint64_t told, sum = 0;
	int64_t signed_sum = 0; /* some old writers summed signed chars */

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool is_field = i >= offsetof(struct tar_head, checksum) &&
		                i < offsetof(struct tar_head, type);
		unsigned char byte = is_field ? ' ' : bytes[i];

		sum += byte;
		signed_sum += (signed char)byte;
	}
	if (parse_number(head->checksum, sizeof(head->checksum), &told) < 0)
		return false;
	return told == sum || (signed_sum >= 0 && told == (uint64_t)signed_sum);
}

static char *head_path(const struct tar_head *head)
{
	int name_len = (int)strnlen(head->name, sizeof(head->name));
	int prefix_len = (int)strnlen(head->prefix, sizeof(head->prefix));

	/* GNU's old format keeps other things where POSIX has the prefix. */
	if (memcmp(head->magic, "ustar", 6) == 0 && prefix_len > 0)
		return xasprintf("%.*s/%.*s", prefix_len, head->prefix, name_len, head->name);
	return xstrndup(head->name, (size_t)name_len);
}

/* "./a//b/" becomes "a/b", in place. "." alone is the directory itself. */
static int clean_path(char *path)
{
	char *out = path;
	const char *at = path;

	if (*at == '\0' || *at == '/' || strlen(path) > PATH_LEN_MAX)
		return -EINVAL;
	while (*at) {
		size_t len = strcspn(at, "/");

		if (len == 2 && at[0] == '.' && at[1] == '.')
			return -EINVAL;
		if (len > 0 && !(len == 1 && at[0] == '.')) {
			if (out > path)
				*out++ = '/';
			memmove(out, at, len);
			out += len;
		}
		at += len;
		at += strspn(at, "/");
	}
	if (out == path)
		*out++ = '.';
	*out = '\0';
	return 0;
}

static int kind_of(char type, const char *path, enum tar_kind *ret)
{
	size_t len = strlen(path);

	switch (type) {
	case '0':
	case '7':
	case '\0':
		*ret = len > 0 && path[len - 1] == '/' ? TAR_DIR : TAR_FILE;
		return 0;
	case '1':
		*ret = TAR_HARDLINK;
		return 0;
	case '2':
		*ret = TAR_SYMLINK;
		return 0;
	case '5':
		*ret = TAR_DIR;
		return 0;
	default:
		return -EINVAL;
	}
}

static const char *why_not(char type)
{
	switch (type) {
	case '3':
	case '4':
		return "is a device";
	case '6':
		return "is a named pipe";
	case 'S':
		return "is a sparse file of GNU tar";
	default:
		return "is of an unknown kind";
	}
}

static int check_path(char *path, struct err *err)
{
	if (clean_path(path) < 0)
		return refuse(err, EINVAL, path, "the path is absolute, empty or leads upwards");
	return 0;
}

static int check_entry(struct tar_reader *r, struct tar_entry *e, char *path, char *target,
                       struct err *err)
{
	int status = check_path(path, err);

	if (status < 0)
		return status;
	if (e->kind == TAR_HARDLINK && clean_path(target) < 0)
		return refuse(err, EINVAL, path, "links to a path outside the archive");
	if (e->kind == TAR_SYMLINK && (target[0] == '\0' || strlen(target) > PATH_LEN_MAX))
		return refuse(err, EINVAL, path, "is a link to nowhere");
	if (e->kind != TAR_DIR && strcmp(path, ".") == 0)
		return refuse(err, EINVAL, path, "would replace the directory itself");
	if (r->limits.entries > 0 && r->entries >= r->limits.entries)
		return refuse(err, E2BIG, path, "there are too many entries");
	if (r->limits.bytes > 0 && e->size > r->limits.bytes - r->bytes)
		return refuse(err, EFBIG, path, "the contents are too large");
	r->entries++;
	r->bytes += e->size;
	return 0;
}

static void begin_data(struct tar_reader *r, enum state state, uint64_t size)
{
	r->left = size;
	r->padding = tar_padding(size);
	r->state = state;
}

static int end_data(struct tar_reader *r, struct err *err)
{
	r->state = r->padding > 0 ? STATE_PADDING : STATE_HEAD;
	if (!r->is_file)
		return 0;
	r->is_file = false;
	return r->ops->on_entry_end(r->arg, err);
}

static int pass_pipe(struct tar_reader *r, char *path, struct err *err)
{
	int status = check_path(path, err);

	drop_extras(r);
	if (status >= 0)
		r->ops->on_pipe(path, r->arg);
	return status;
}

static int pass_device(struct tar_reader *r, char *path, struct err *err)
{
	int status = check_path(path, err);

	drop_extras(r);
	return status < 0 ? status : r->ops->on_device(path, r->arg, err);
}

static uint32_t owner_of(const char *field, size_t len, bool has_pax, uint64_t pax)
{
	uint64_t id = pax;

	if (!has_pax && parse_number(field, len, &id) < 0)
		return UINT32_MAX;
	return (uint32_t)MIN(id, (uint64_t)UINT32_MAX);
}

static void read_owner(const struct tar_reader *r, struct tar_entry *e)
{
	const struct tar_head *head = &r->block.head;

	e->uid = owner_of(head->uid, sizeof(head->uid), r->has_uid, r->uid);
	e->gid = owner_of(head->gid, sizeof(head->gid), r->has_gid, r->gid);
}

static int begin_entry(struct tar_reader *r, uint64_t size, struct err *err)
{
	const struct tar_head *head = &r->block.head;
	auto_free char *path = r->path ? take_ptr(r->path) : head_path(head);
	auto_free char *target =
		r->target ? take_ptr(r->target) : xstrndup(head->target, sizeof(head->target));
	struct tar_entry e = {.size = r->has_size ? r->size : size,
	                      .mtime_s = r->mtime_s,
	                      .mtime_ns = r->mtime_ns};
	uint64_t mode, mtime;
	int status;

	if (head->type == '6' && r->ops->on_pipe)
		return pass_pipe(r, path, err);
	if ((head->type == '3' || head->type == '4') && r->ops->on_device)
		return pass_device(r, path, err);
	if (kind_of(head->type, path, &e.kind) < 0)
		return refuse(err, EINVAL, path, why_not(head->type));
	if (parse_number(head->mode, sizeof(head->mode), &mode) < 0)
		return refuse(err, EINVAL, path, "the mode is no number");
	e.mode = (uint32_t)mode & (r->limits.is_root ? 07777 : 0777);
	read_owner(r, &e);
	if (!r->has_mtime)
		e.mtime_s = parse_number(head->mtime, sizeof(head->mtime), &mtime) == 0 ? mtime : 0;
	drop_extras(r);
	if (e.kind != TAR_FILE)
		e.size = 0; /* some writers tell a link's size; no data follows */
	status = check_entry(r, &e, path, target, err);
	if (status < 0)
		return status;
	e.path = path;
	e.target = target;
	status = r->ops->on_entry(&e, r->arg, err);
	if (status < 0)
		return status;
	r->is_file = e.kind == TAR_FILE;
	begin_data(r, STATE_DATA, e.size);
	return e.size == 0 ? end_data(r, err) : 0;
}

static int set_text(char **field, const char *text, size_t len)
{
	if (memchr(text, '\0', len) || len > PATH_LEN_MAX)
		return -EINVAL;
	free(*field);
	*field = xstrndup(text, len);
	return 0;
}

static int set_decimal(const char *text, size_t len, uint64_t *ret)
{
	char digits[24];

	if (len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return parse_u64(digits, INT64_MAX, ret);
}

/* "SECONDS[.FRACTION]". A time before 1970 or one that we cannot read is ignored; the file is still
 * taken. */
static void set_mtime(struct tar_reader *r, const char *value, size_t len)
{
	const char *dot = memchr(value, '.', len);
	size_t whole = dot ? (size_t)(dot - value) : len;
	uint32_t ns = 0;

	r->has_mtime = set_decimal(value, whole, &r->mtime_s) == 0;
	for (size_t i = 0; i < 9; i++) {
		char c = whole + 1 + i < len ? value[whole + 1 + i] : '0';

		if (c < '0' || c > '9')
			return;
		ns = ns * 10 + (uint32_t)(c - '0');
	}
	r->mtime_ns = r->has_mtime ? ns : 0;
}

static bool key_is(const char *key, size_t len, const char *name)
{
	return len == strlen(name) && memcmp(key, name, len) == 0;
}

static int apply_pax(struct tar_reader *r, const char *key, size_t key_len, const char *value,
                     size_t value_len)
{
	if (key_is(key, key_len, "path"))
		return set_text(&r->path, value, value_len);
	if (key_is(key, key_len, "linkpath"))
		return set_text(&r->target, value, value_len);
	if (key_is(key, key_len, "size")) {
		r->has_size = true;
		return set_decimal(value, value_len, &r->size);
	}
	if (key_is(key, key_len, "mtime")) {
		set_mtime(r, value, value_len);
		return 0;
	}
	if (key_is(key, key_len, "uid"))
		r->has_uid = set_decimal(value, value_len, &r->uid) == 0;
	if (key_is(key, key_len, "gid"))
		r->has_gid = set_decimal(value, value_len, &r->gid) == 0;
	if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
		return -ENOTSUP;
	return 0; /* owners' names, xattrs, comments: dropped */
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts the whole record. */
static int parse_pax(struct tar_reader *r)
{
	const char *at = buf_str(&r->meta), *end = at + r->meta.len;

	while (at < end) {
		const char *blank = memchr(at, ' ', (size_t)MIN(end - at, (ptrdiff_t)21));
		const char *key, *equals;
		uint64_t len;
		int status;

		if (!blank || set_decimal(at, (size_t)(blank - at), &len) < 0 ||
		    len > (uint64_t)(end - at) || at + len <= blank + 1 || at[len - 1] != '\n')
			return -EINVAL;
		key = blank + 1;
		equals = memchr(key, '=', (size_t)(at + len - 1 - key));
		if (!equals || equals == key)
			return -EINVAL;
		status = apply_pax(r, key, (size_t)(equals - key), equals + 1,
		                   (size_t)(at + len - 1 - (equals + 1)));
		if (status < 0)
			return status;
		at += len;
	}
	return 0;
}

static int end_meta(struct tar_reader *r, struct err *err)
{
	size_t len = strnlen(buf_str(&r->meta), r->meta.len);
	int status = 0;

	if (r->meta_type == 'L')
		status = set_text(&r->path, buf_str(&r->meta), len);
	else if (r->meta_type == 'K')
		status = set_text(&r->target, buf_str(&r->meta), len);
	else if (r->meta_type == 'x')
		status = parse_pax(r);
	buf_done(&r->meta); /* 'g': settings for all entries; none of them matters to us */
	r->state = r->padding > 0 ? STATE_PADDING : STATE_HEAD;
	if (status == -ENOTSUP)
		return refuse(err, EINVAL, r->path, "is a sparse file of GNU tar");
	return status < 0 ? refuse(err, EINVAL, r->path, "an extended header is malformed") : 0;
}

static bool is_meta(char type)
{
	return type == 'x' || type == 'g' || type == 'L' || type == 'K';
}

static int on_head(struct tar_reader *r, struct err *err)
{
	static const unsigned char zero[TAR_BLOCK];
	const struct tar_head *head = &r->block.head;
	uint64_t size;

	if (memcmp(r->block.bytes, zero, TAR_BLOCK) == 0) {
		r->has_any = true;
		if (++r->zeros == 2)
			r->state = STATE_END;
		return 0;
	}
	if (r->zeros > 0 || !checksum_is_good(head))
		return refuse(err, EINVAL, NULL, r->has_any ? "is damaged" : "is no tar archive");
	r->has_any = true;
	if (parse_number(head->size, sizeof(head->size), &size) < 0)
		return refuse(err, EINVAL, r->path, "the size is no number, or negative");
	if (!is_meta(head->type))
		return begin_entry(r, size, err);
	if (size == 0 || size > META_MAX)
		return refuse(err, EINVAL, r->path, "an extended header is empty or too large");
	r->meta_type = head->type;
	begin_data(r, STATE_META, size);
	return 0;
}

/* Consumes some input according to the state. Returns how much. */
static ssize_t step(struct tar_reader *r, const char *data, size_t len, struct err *err)
{
	size_t n = 0;
	int status = 0;

	switch (r->state) {
	case STATE_HEAD:
		n = MIN(len, TAR_BLOCK - r->have);
		memcpy(r->block.bytes + r->have, data, n);
		r->have += n;
		if (r->have == TAR_BLOCK) {
			r->have = 0;
			status = on_head(r, err);
		}
		break;
	case STATE_META:
		n = (size_t)MIN(r->left, (uint64_t)len);
		status = buf_append(&r->meta, data, n);
		r->left -= n;
		if (status < 0)
			return err_set(err, ERR_FILE_INVALID, -status,
			               "archive: an extended header");
		if (r->left == 0)
			status = end_meta(r, err);
		break;
	case STATE_DATA:
		n = (size_t)MIN(r->left, (uint64_t)len);
		status = r->ops->on_data(data, n, r->arg, err);
		r->left -= n;
		if (status >= 0 && r->left == 0)
			status = end_data(r, err);
		break;
	case STATE_PADDING:
		n = MIN(r->padding, len);
		r->padding -= n;
		if (r->padding == 0)
			r->state = STATE_HEAD;
		break;
	case STATE_END:
		n = len;
		break;
	}
	return status < 0 ? status : (ssize_t)n;
}

int tar_reader_feed(struct tar_reader *r, const void *data, size_t len, struct err *err)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = step(r, at, len, err);

		if (n < 0)
			return (int)n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int tar_reader_finish(struct tar_reader *r, struct err *err)
{
	if (!r->has_any)
		return refuse(err, EINVAL, NULL, "is no tar archive");
	if (r->state == STATE_END)
		return 0;
	if (r->state != STATE_HEAD || r->have > 0 || r->path || r->target)
		return refuse(err, EINVAL, r->path, "ends in the middle");
	return 0;
}
