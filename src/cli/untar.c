// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: a push parser over blocks of 512 bytes.
 *
 *	header --> body: a file's bytes, or a long name or pax records for the header after it
 *	   ^--------- padding <--'
 *
 * Names are cleaned as text first (no leading '/', no "..", no NUL) and then resolved by the kernel
 * beneath the destination with no symbolic link on the way (openat2), so that neither what the
 * archive made nor what lay there before can lead out. An existing file is replaced, never written
 * into: a hard link to it elsewhere keeps its content. A directory is never replaced.
 *
 * A link's target may climb ("..") only at its beginning, and no further than its own directory is
 * deep: "a/.." may not be what it looks like when a is itself a link. Together with the rule above
 * every link made here ends inside, whatever others it passes.
 *
 * Owners and set-id bits are not taken over; directories stay usable by their owner.
 */
#include "cli/untar.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BLOCK     512
#define NAME_MAX_ 4096         /* as PATH_MAX */
#define META_MAX  (64 * 1024)  /* pax records of one entry */
#define TIME_MAX_ 253402300799 /* the end of the year 9999 */

enum state { AT_HEADER, IN_META, IN_FILE, IN_SKIPPED, IN_PADDING, AT_END };

struct raw_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char linkname[100], magic[6], version[2], uname[32], gname[32], major[8], minor[8];
	char prefix[155], unused[12];
};
static_assert(sizeof(struct raw_header) == BLOCK, "a header is one block");

struct untar {
	int dir_fd;
	untar_skip_fn skip;
	void *skip_arg;
	size_t n_skipped;

	enum state state;
	union {
		struct raw_header header;
		unsigned char bytes[BLOCK];
	} block;
	size_t block_len;
	unsigned zero_blocks;
	uint64_t body_left;
	size_t padding_left;

	char meta_type; /* 'x', 'L' or 'K' while IN_META */
	struct buf meta;
	struct buf path, link; /* from records before the header; empty = not given */
	bool has_size;
	uint64_t size;

	int file_fd, parent_fd; /* the file being written */
	char *leaf;
	mode_t mode;
	time_t mtime;
};

struct untar *untar_new(int dir_fd, untar_skip_fn skip, void *arg)
{
	struct untar *u = xnew0(struct untar);

	u->dir_fd = dir_fd;
	u->skip = skip;
	u->skip_arg = arg;
	u->file_fd = u->parent_fd = -1;
	buf_init(&u->meta, META_MAX);
	buf_init(&u->path, NAME_MAX_);
	buf_init(&u->link, NAME_MAX_);
	return u;
}

static void close_file(struct untar *u)
{
	if (u->file_fd >= 0)
		(void)close(take_fd(&u->file_fd));
	if (u->parent_fd >= 0)
		(void)close(take_fd(&u->parent_fd));
	free(take_ptr(u->leaf));
}

void untar_free(struct untar *u)
{
	if (!u)
		return;
	if (u->file_fd >= 0)
		(void)unlinkat(u->parent_fd, u->leaf, 0);
	close_file(u);
	buf_done(&u->meta);
	buf_done(&u->path);
	buf_done(&u->link);
	free(u);
}

size_t untar_skipped(const struct untar *u)
{
	return u->n_skipped;
}

static void skip_entry(struct untar *u, const char *name, const char *why)
{
	u->n_skipped++;
	if (u->skip)
		u->skip(name, why, u->skip_arg);
}

/* Octal with blanks or NULs around it, or GNU's big-endian binary where the first bit is set. */
static int parse_number(const char *field, size_t len, uint64_t *ret)
{
	const unsigned char *p = (const unsigned char *)field;
	uint64_t value = 0;
	size_t i = 0;

	if (p[0] & 0x80) {
		if (p[0] != 0x80)
			return -ERANGE; /* negative, or past 88 bits */
		for (i = 1; i < len; i++) {
			if (value >> 55)
				return -ERANGE;
			value = value << 8 | p[i];
		}
		*ret = value;
		return 0;
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(p[i] - '0'); /* 12 digits at most */
	for (; i < len; i++)
		if (p[i] != ' ' && p[i] != '\0')
			return -EINVAL;
	*ret = value;
	return 0;
}

static bool checksum_is_right(const struct untar *u)
{
	static const size_t from = offsetof(struct raw_header, checksum);
	uint64_t wanted, sum = 0;

	if (parse_number(u->block.header.checksum, sizeof(u->block.header.checksum), &wanted) < 0)
		return false;
	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= from && i < from + 8 ? ' ' : u->block.bytes[i];
	return sum == wanted;
}

static int broken(struct err *err, const char *what)
{
	return err_set(err, ERR_FILE_INVALID, EBADMSG, "the archive is broken: %s", what);
}

static int hostile(struct err *err, const char *name, const char *what)
{
	return err_set(err, ERR_FILE_INVALID, EPERM, "the archive is not safe: '%s' %s", name,
	               what);
}

/* The name in its plain form, "a/b/c"; "" is the destination itself. */
static int clean_name(const char *name, size_t len, char **ret, struct err *err)
{
	auto_free char *clean = xcalloc(1, len + 1);
	const char *p = name;
	size_t used = 0;

	if (memchr(name, '\0', len))
		return hostile(err, name, "has a NUL in its name");
	if (len == 0)
		return broken(err, "an entry has no name");
	if (*p == '/')
		return hostile(err, name, "has an absolute name");
	while (*p) {
		size_t n = (size_t)(strchrnul(p, '/') - p);

		if (n == 2 && p[0] == '.' && p[1] == '.')
			return hostile(err, name, "climbs out with '..'");
		if (n > 0 && !(n == 1 && p[0] == '.')) {
			if (used > 0)
				clean[used++] = '/';
			memcpy(clean + used, p, n);
			used += n;
		}
		p += n + (p[n] == '/');
	}
	clean[used] = '\0';
	*ret = take_ptr(clean);
	return 0;
}

static int open_beneath(int dir_fd, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir_fd, *path ? path : ".", &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* Opens a directory beneath the destination, making what is missing of it. */
static int open_dirs(struct untar *u, const char *path)
{
	int fd = open_beneath(u->dir_fd, path);
	auto_free char *parent = NULL;
	auto_fd int parent_fd = -1;
	const char *slash;

	if (fd != -ENOENT || !*path)
		return fd;
	slash = strrchr(path, '/');
	parent = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	parent_fd = open_dirs(u, parent);
	if (parent_fd < 0)
		return parent_fd;
	if (mkdirat(parent_fd, slash ? slash + 1 : path, 0777) < 0 && errno != EEXIST)
		return -errno;
	return open_beneath(u->dir_fd, path);
}

/* The directory that path lies in, and its last name. */
static int open_parent(struct untar *u, const char *path, int *ret_fd, char **ret_leaf,
                       struct err *err)
{
	const char *slash = strrchr(path, '/');
	auto_free char *parent = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	int fd = open_dirs(u, parent);

	if (fd == -ELOOP || fd == -EXDEV)
		return hostile(err, path, "leads through a symbolic link");
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, -fd, "cannot make the directory of '%s'", path);
	*ret_fd = fd;
	*ret_leaf = xstrdup(slash ? slash + 1 : path);
	return 0;
}

/* What is in the way goes, unless it is a directory. */
static int clear_leaf(int parent_fd, const char *leaf, const char *path, struct err *err)
{
	if (unlinkat(parent_fd, leaf, 0) < 0 && errno != ENOENT)
		return err_set(err, ERR_FILE_EXISTS, errno, "cannot replace '%s'", path);
	return 0;
}

static int make_file(struct untar *u, const char *path, struct err *err)
{
	int r = open_parent(u, path, &u->parent_fd, &u->leaf, err);

	if (r < 0)
		return r;
	r = clear_leaf(u->parent_fd, u->leaf, path, err);
	if (r < 0)
		return r;
	u->file_fd = openat(u->parent_fd, u->leaf,
	                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (u->file_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	return 0;
}

static int finish_file(struct untar *u, struct err *err)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = u->mtime}};
	mode_t mask = umask(0);

	(void)umask(mask);
	if (fchmod(u->file_fd, u->mode & 0777 & ~mask) < 0 || futimens(u->file_fd, times) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot finish '%s'", u->leaf);
	close_file(u);
	return 0;
}

static int make_dir(struct untar *u, const char *path, struct err *err)
{
	auto_fd int parent_fd = -1;
	auto_free char *leaf = NULL;
	auto_fd int fd = -1;
	int r;

	if (!*path)
		return 0;
	r = open_parent(u, path, &parent_fd, &leaf, err);
	if (r < 0)
		return r;
	if (mkdirat(parent_fd, leaf, (u->mode & 0777) | 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the directory '%s'", path);
	fd = open_beneath(parent_fd, leaf);
	if (fd == -ELOOP || fd == -EXDEV)
		return hostile(err, path, "is a directory where a symbolic link lies");
	if (fd < 0)
		return err_set(err, ERR_FILE_EXISTS, -fd, "'%s' is no directory here", path);
	return 0;
}

/* depth: how many directories the link lies below the destination. */
static bool target_stays_inside(const char *target, size_t depth)
{
	bool has_descended = false;

	if (*target == '/' || *target == '\0')
		return false;
	while (*target) {
		size_t n = (size_t)(strchrnul(target, '/') - target);

		if (n == 2 && target[0] == '.' && target[1] == '.') {
			if (has_descended || depth == 0)
				return false;
			depth--;
		} else if (n > 0 && !(n == 1 && target[0] == '.')) {
			has_descended = true;
		}
		target += n + (target[n] == '/');
	}
	return true;
}

static int make_symlink(struct untar *u, const char *path, const char *target, struct err *err)
{
	auto_fd int parent_fd = -1;
	auto_free char *leaf = NULL;
	size_t depth = 0;
	int r;

	for (const char *p = path; *p; p++)
		depth += *p == '/';
	if (!target_stays_inside(target, depth)) {
		skip_entry(u, path, "a link that points out of the directory");
		return 0;
	}
	r = open_parent(u, path, &parent_fd, &leaf, err);
	if (r < 0)
		return r;
	r = clear_leaf(parent_fd, leaf, path, err);
	if (r < 0)
		return r;
	if (symlinkat(target, parent_fd, leaf) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the link '%s'", path);
	return 0;
}

static int make_hardlink(struct untar *u, const char *path, const char *target, struct err *err)
{
	auto_fd int from_fd = -1, to_fd = -1;
	auto_free char *from_leaf = NULL, *to_leaf = NULL, *from = NULL;
	struct stat st;
	int r = clean_name(target, strlen(target), &from, err);

	if (r < 0)
		return r;
	if (!*from || strcmp(from, path) == 0)
		return hostile(err, path, "is a hard link to itself or to the directory");
	r = open_parent(u, from, &from_fd, &from_leaf, err);
	if (r < 0)
		return r;
	if (fstatat(from_fd, from_leaf, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return hostile(err, path, "is a hard link to what is no file in the archive");
	r = open_parent(u, path, &to_fd, &to_leaf, err);
	if (r < 0)
		return r;
	r = clear_leaf(to_fd, to_leaf, path, err);
	if (r < 0)
		return r;
	if (linkat(from_fd, from_leaf, to_fd, to_leaf, 0) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make the hard link '%s'", path);
	return 0;
}

static int header_text(struct buf *given, const char *prefix, size_t prefix_max, const char *field,
                       size_t field_max, struct buf *ret)
{
	size_t prefix_len = prefix ? strnlen(prefix, prefix_max) : 0;
	int r;

	if (given->len > 0)
		return buf_append(ret, given->data, given->len);
	r = prefix_len ? buf_append(ret, prefix, prefix_len) : 0;
	if (r == 0 && prefix_len)
		r = buf_append_str(ret, "/");
	return r == 0 ? buf_append(ret, field, strnlen(field, field_max)) : r;
}

static int make_entry(struct untar *u, const char *path, const char *target, struct err *err)
{
	char type = u->block.header.type;

	if (!*path && type != '5')
		return hostile(err, ".", "is the destination itself");
	switch (type) {
	case '0':
	case '7': /* contiguous, as any file */
	case '\0':
		u->state = IN_FILE;
		return make_file(u, path, err);
	case '1':
		return make_hardlink(u, path, target, err);
	case '2':
		return make_symlink(u, path, target, err);
	case '5':
		return make_dir(u, path, err);
	case '6':
		skip_entry(u, path, "a fifo");
		return 0;
	case '3':
	case '4':
		return hostile(err, path, "is a device");
	default:
		return broken(err, "an entry is of an unknown type");
	}
}

static int begin_entry(struct untar *u, struct err *err)
{
	const struct raw_header *h = &u->block.header;
	bool is_gnu = memcmp(h->magic, "ustar ", 6) == 0; /* which has no prefix */
	struct buf name = BUF_INIT(NAME_MAX_), target = BUF_INIT(NAME_MAX_);
	auto_free char *path = NULL;
	uint64_t mode, mtime;
	int r;

	if (parse_number(h->mode, sizeof(h->mode), &mode) < 0 ||
	    parse_number(h->mtime, sizeof(h->mtime), &mtime) < 0)
		return broken(err, "a mode or time is no number");
	u->mode = (mode_t)(mode & 0777);
	u->mtime = (time_t)MIN(mtime, (uint64_t)TIME_MAX_);
	if (header_text(&u->path, is_gnu ? NULL : h->prefix, sizeof(h->prefix), h->name,
	                sizeof(h->name), &name) < 0 ||
	    header_text(&u->link, NULL, 0, h->linkname, sizeof(h->linkname), &target) < 0)
		r = broken(err, "a name is too long");
	else
		r = clean_name(buf_str(&name), name.len, &path, err);
	u->state = IN_SKIPPED; /* unless it is a file: bytes behind other entries are not ours */
	if (r == 0)
		r = make_entry(u, path, buf_str(&target), err);
	buf_done(&name);
	buf_done(&target);
	buf_truncate(&u->path, 0);
	buf_truncate(&u->link, 0);
	u->has_size = false;
	return r;
}

static int end_body(struct untar *u, struct err *err);

static int begin_header(struct untar *u, struct err *err)
{
	const struct raw_header *h = &u->block.header;
	bool is_meta = h->type == 'x' || h->type == 'g' || h->type == 'L' || h->type == 'K';
	int r;

	if (memcmp(h->magic, "ustar", 5) != 0 || !checksum_is_right(u))
		return broken(err, "a header's checksum or magic is wrong");
	if (parse_number(h->size, sizeof(h->size), &u->body_left) < 0)
		return broken(err, "a size is no number");
	if (!is_meta && u->has_size)
		u->body_left = u->size;
	if (u->body_left > INT64_MAX - BLOCK)
		return broken(err, "a size is too large");
	u->padding_left = (size_t)(-u->body_left & (BLOCK - 1));
	if (is_meta) {
		if (u->body_left > META_MAX)
			return broken(err, "a header's records are too large");
		u->meta_type = h->type;
		buf_truncate(&u->meta, 0);
		u->state = IN_META;
	} else {
		r = begin_entry(u, err);
		if (r < 0)
			return r;
	}
	return u->body_left == 0 ? end_body(u, err) : 0;
}

static int apply_record(struct untar *u, const char *key, size_t key_len, const char *value,
                        size_t len, struct err *err)
{
	auto_free char *text = xstrndup(value, len);

	if (key_len == 4 && memcmp(key, "path", 4) == 0) {
		buf_truncate(&u->path, 0);
		return buf_append(&u->path, value, len) < 0 ? broken(err, "a name is too long") : 0;
	}
	if (key_len == 8 && memcmp(key, "linkpath", 8) == 0) {
		buf_truncate(&u->link, 0);
		if (memchr(value, '\0', len))
			return broken(err, "a link has a NUL in its target");
		return buf_append(&u->link, value, len) < 0 ? broken(err, "a name is too long") : 0;
	}
	if (key_len == 4 && memcmp(key, "size", 4) == 0) {
		if (strlen(text) != len || parse_u64(text, INT64_MAX, &u->size) < 0)
			return broken(err, "a size is no number");
		u->has_size = true;
		return 0;
	}
	if (key_len >= 10 && memcmp(key, "GNU.sparse", 10) == 0)
		return broken(err, "sparse files are not understood");
	return 0; /* times, owners, attributes: not taken over */
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts the whole record */
static int apply_pax(struct untar *u, struct err *err)
{
	const char *p = buf_str(&u->meta);
	size_t left = u->meta.len;

	while (left > 0) {
		size_t digits = strspn(p, "0123456789");
		auto_free char *number = xstrndup(p, MIN(digits, (size_t)20));
		const char *equals;
		uint64_t len;
		int r;

		if (parse_u64(number, left, &len) < 0 || p[digits] != ' ' || len < digits + 3 ||
		    p[len - 1] != '\n')
			return broken(err, "a pax record is malformed");
		equals = memchr(p + digits + 1, '=', len - digits - 2);
		if (!equals)
			return broken(err, "a pax record has no value");
		r = apply_record(u, p + digits + 1, (size_t)(equals - p) - digits - 1, equals + 1,
		                 (size_t)(p + len - 1 - (equals + 1)), err);
		if (r < 0)
			return r;
		p += len;
		left -= len;
	}
	return 0;
}

static int apply_meta(struct untar *u, struct err *err)
{
	struct buf *name = u->meta_type == 'L' ? &u->path : &u->link;

	if (u->meta_type == 'g')
		return 0; /* defaults for owners and times */
	if (u->meta_type == 'x')
		return apply_pax(u, err);
	buf_truncate(name, 0);
	if (buf_append(name, buf_str(&u->meta), strnlen(buf_str(&u->meta), u->meta.len)) < 0)
		return broken(err, "a name is too long");
	return 0;
}

static int end_body(struct untar *u, struct err *err)
{
	int r = 0;

	if (u->state == IN_META)
		r = apply_meta(u, err);
	else if (u->state == IN_FILE)
		r = finish_file(u, err);
	u->state = u->padding_left ? IN_PADDING : AT_HEADER;
	return r;
}

static int take_header(struct untar *u, const char **data, size_t *len, struct err *err)
{
	static const unsigned char zeros[BLOCK];
	size_t n = MIN(*len, BLOCK - u->block_len);

	memcpy(u->block.bytes + u->block_len, *data, n);
	*data += n;
	*len -= n;
	u->block_len += n;
	if (u->block_len < BLOCK)
		return 0;
	u->block_len = 0;
	if (memcmp(u->block.bytes, zeros, BLOCK) == 0) {
		if (++u->zero_blocks == 2)
			u->state = AT_END;
		return 0;
	}
	if (u->zero_blocks > 0)
		return broken(err, "there is something behind its end");
	return begin_header(u, err);
}

static int take_body(struct untar *u, const char **data, size_t *len, struct err *err)
{
	size_t n = (size_t)MIN((uint64_t)*len, u->body_left);
	int r = 0;

	if (u->state == IN_META)
		r = buf_append(&u->meta, *data, n);
	else if (u->state == IN_FILE)
		r = fd_write_all(u->file_fd, *data, n);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot write '%s'",
		               u->leaf ? u->leaf : "a header");
	*data += n;
	*len -= n;
	u->body_left -= n;
	return u->body_left == 0 ? end_body(u, err) : 0;
}

int untar_feed(struct untar *u, const char *data, size_t len, struct err *err)
{
	int r = 0;

	while (len > 0 && r == 0) {
		size_t n;

		switch (u->state) {
		case AT_HEADER:
			r = take_header(u, &data, &len, err);
			break;
		case IN_META:
		case IN_FILE:
		case IN_SKIPPED:
			r = take_body(u, &data, &len, err);
			break;
		case IN_PADDING:
			n = MIN(len, u->padding_left);
			data += n;
			len -= n;
			u->padding_left -= n;
			if (u->padding_left == 0)
				u->state = AT_HEADER;
			break;
		case AT_END:
			return 0; /* writers pad to a record of theirs */
		}
	}
	return r;
}

int untar_finish(const struct untar *u, struct err *err)
{
	return u->state == AT_END ? 0 : broken(err, "it ends too early");
}
