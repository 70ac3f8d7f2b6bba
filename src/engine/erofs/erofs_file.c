// SPDX-License-Identifier: Apache-2.0
#include "engine/erofs/erofs_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOWN_FEATURES (EROFS_ZERO_PADDING | EROFS_COMPRESSION | EROFS_DEVICES)
#define FIRST_PACKS    6 /* entries in packs of two, before the index is aligned for those of 16 */
#define SMALL_PACK     8 /* bytes */
#define LARGE_PACK     32
#define LARGE_ENTRIES  16

static const unsigned char *at(const struct erofs_file *f, uint64_t offset, uint64_t len)
{
	if (offset > f->size || len > f->size - offset)
		return NULL;
	return f->bytes + offset;
}

static int check_super(const struct erofs_super *s)
{
	if (s->magic != EROFS_MAGIC)
		return -EBADMSG;
	if (s->block_bits != EROFS_BLOCK_BITS || s->n_slots != 0 ||
	    (s->feature_incompat & ~(uint32_t)KNOWN_FEATURES) != 0 || s->dir_block_bits != 0 ||
	    s->n_devices > EROFS_BASES_MAX)
		return -EOPNOTSUPP;
	return 0;
}

static int read_super(int fd, struct erofs_super *ret)
{
	ssize_t n = pread(fd, ret, sizeof(*ret), EROFS_SUPER_AT);

	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(*ret) ? check_super(ret) : -EBADMSG;
}

static int read_base(const struct erofs_device *d, struct erofs_base *ret)
{
	char hex[DIGEST_HEX];

	memcpy(hex, d->tag, sizeof(d->tag));
	hex[DIGEST_HEX - 1] = '\0';
	*ret = (struct erofs_base){.first = d->first, .n_blocks = d->n_blocks};
	if (digest_parse(hex, &ret->digest) < 0 || d->first == 0 ||
	    d->n_blocks > UINT32_MAX - d->first)
		return -EBADMSG;
	return 0;
}

int erofs_read_bases(int fd, struct erofs_bases *ret)
{
	struct erofs_device devices[EROFS_BASES_MAX];
	struct erofs_super super;
	int r = read_super(fd, &super);
	ssize_t n;

	*ret = (struct erofs_bases){.n = 0};
	if (r < 0 || super.n_devices == 0)
		return r;
	n = pread(fd, devices, super.n_devices * sizeof(devices[0]),
	          (off_t)super.devices_at * EROFS_DEVICE_SLOT);
	if (n != (ssize_t)(super.n_devices * sizeof(devices[0])))
		return n < 0 ? -errno : -EBADMSG;
	for (; r == 0 && ret->n < super.n_devices; ret->n += r == 0)
		r = read_base(&devices[ret->n], &ret->list[ret->n]);
	return r;
}

int erofs_is_whole(int fd, bool *ret)
{
	struct erofs_super super;
	int r = read_super(fd, &super);

	*ret = r == 0 && strncmp(super.label, EROFS_WHOLE, sizeof(super.label)) == 0;
	return r;
}

int erofs_open(int fd, struct erofs_file *ret)
{
	struct stat st;
	void *bytes;
	int r;

	*ret = (struct erofs_file){.size = 0};
	r = read_super(fd, &ret->super);
	if (r == 0)
		r = erofs_read_bases(fd, &ret->bases);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	ret->bytes = bytes;
	ret->size = (size_t)st.st_size;
	return 0;
}

void erofs_close(struct erofs_file *f)
{
	if (f->bytes)
		(void)munmap(unconst(take_ptr(f->bytes)), f->size);
}

/* Reads the inode itself. Returns its size, 0 if it is not in the file. */
static size_t read_head(const struct erofs_file *f, const unsigned char *bytes, uint64_t offset,
                        struct erofs_inode *ret, uint32_t *ret_data, uint16_t *ret_xattrs)
{
	struct erofs_compact_inode c;
	struct erofs_extended_inode e;
	uint16_t format;

	memcpy(&format, bytes, sizeof(format));
	ret->layout = (enum erofs_layout)((format >> 1) & 7);
	if ((format & 1) == 0) {
		memcpy(&c, bytes, sizeof(c));
		ret->size = c.size;
		ret->mtime_s = f->super.time_s;
		ret->mtime_ns = f->super.time_ns;
		ret->mode = c.mode;
		ret->nlink = c.nlink;
		ret->uid = c.uid;
		ret->gid = c.gid;
		*ret_data = c.data;
		*ret_xattrs = c.n_xattrs;
		return sizeof(c);
	}
	if (!at(f, offset, sizeof(e)))
		return 0;
	memcpy(&e, bytes, sizeof(e));
	ret->size = e.size;
	ret->mtime_s = e.mtime_s;
	ret->mtime_ns = e.mtime_ns;
	ret->mode = e.mode;
	ret->nlink = e.nlink;
	ret->uid = e.uid;
	ret->gid = e.gid;
	*ret_data = e.data;
	*ret_xattrs = e.n_xattrs;
	return sizeof(e);
}

/*
 * An index has an entry for each block of the file: six or fewer in packs of two, then as many
 * packs of 16 as there can be, then packs of two again. Each pack ends with an address, from which
 * its entries count. Where a pack begins depends on the inode's place modulo 32, which is always 0.
 */
struct index_shape {
	size_t first, large, last; /* packs */
};

static int index_shape(const struct erofs_map_header *h, uint64_t size, struct index_shape *ret)
{
	uint64_t n = (size + EROFS_BLOCK - 1) / EROFS_BLOCK, large = 0;
	uint64_t first = MIN(n, FIRST_PACKS);

	if ((h->advice & ~(EROFS_ADVICE_SHORT | EROFS_ADVICE_LARGE)) != 0 || h->cluster_bits != 0 ||
	    h->reserved != 0)
		return -EOPNOTSUPP;
	if (n > UINT32_MAX)
		return -EBADMSG;
	if ((h->advice & EROFS_ADVICE_SHORT) && n > FIRST_PACKS)
		large = (n - FIRST_PACKS) / LARGE_ENTRIES;
	*ret = (struct index_shape){
		.first = (first + 1) / 2,
		.large = large,
		.last = (n - first - large * LARGE_ENTRIES + 1) / 2,
	};
	return 0;
}

static size_t index_len(const struct index_shape *s)
{
	return sizeof(struct erofs_map_header) + (s->first + s->last) * SMALL_PACK +
	       s->large * LARGE_PACK;
}

static int read_index(const struct erofs_file *f, uint64_t offset, uint32_t n_blocks,
                      struct erofs_inode *ret)
{
	const unsigned char *bytes = at(f, offset, sizeof(struct erofs_map_header));
	struct erofs_map_header header;
	struct index_shape shape;
	int r;

	if (!bytes)
		return -EBADMSG;
	memcpy(&header, bytes, sizeof(header));
	r = index_shape(&header, ret->size, &shape);
	if (r < 0)
		return r;
	ret->extra_len = index_len(&shape);
	ret->extra = at(f, offset, ret->extra_len);
	if (!ret->extra || ret->size == 0)
		return -EBADMSG;
	memcpy(&ret->first, ret->extra + sizeof(header) + SMALL_PACK - sizeof(ret->first),
	       sizeof(ret->first));
	if (!(header.advice & EROFS_ADVICE_LARGE)) /* there it counts from the block before */
		ret->first++;
	ret->n_blocks = n_blocks;
	return 0;
}

void erofs_move_index(unsigned char *index, size_t len, uint64_t size, uint32_t distance)
{
	struct erofs_map_header header;
	struct index_shape shape;
	size_t at_byte = sizeof(header);

	memcpy(&header, index, sizeof(header));
	if (index_shape(&header, size, &shape) < 0 || index_len(&shape) != len)
		return; /* read_index() has seen to it */
	for (size_t i = 0; i < shape.first + shape.large + shape.last; i++) {
		bool is_large = i >= shape.first && i < shape.first + shape.large;
		uint32_t address;

		at_byte += is_large ? LARGE_PACK : SMALL_PACK;
		memcpy(&address, index + at_byte - sizeof(address), sizeof(address));
		address += distance;
		memcpy(index + at_byte - sizeof(address), &address, sizeof(address));
	}
}

static int read_contents(const struct erofs_file *f, uint64_t offset, uint32_t data,
                         struct erofs_inode *ret)
{
	const uint64_t n_blocks = ret->size / EROFS_BLOCK;
	const bool has_rest = ret->size % EROFS_BLOCK != 0;

	if (!S_ISREG(ret->mode) && !S_ISDIR(ret->mode) && !S_ISLNK(ret->mode)) {
		ret->rdev = data;
		ret->size = 0;
		ret->layout = EROFS_PLAIN;
		return 0;
	}
	if (n_blocks + has_rest > UINT32_MAX)
		return -EBADMSG;
	switch (ret->layout) {
	case EROFS_PLAIN:
		ret->first = data;
		ret->n_blocks = (uint32_t)n_blocks + has_rest;
		return 0;
	case EROFS_INLINE:
		ret->first = data;
		ret->n_blocks = (uint32_t)n_blocks;
		ret->extra_len = ret->size % EROFS_BLOCK;
		ret->extra = at(f, offset, ret->extra_len);
		return ret->extra ? 0 : -EBADMSG;
	case EROFS_COMPRESSED:
		return S_ISREG(ret->mode) ? read_index(f, offset, data, ret) : -EBADMSG;
	default:
		return -EOPNOTSUPP;
	}
}

int erofs_inode(const struct erofs_file *f, uint64_t id, struct erofs_inode *ret)
{
	uint64_t offset = (uint64_t)f->super.meta_block * EROFS_BLOCK + id * EROFS_SLOT;
	const unsigned char *bytes;
	uint16_t n_xattrs = 0;
	uint32_t data = 0;
	size_t head;

	*ret = (struct erofs_inode){.id = id};
	if (id > UINT64_MAX / EROFS_SLOT / 2)
		return -EBADMSG;
	bytes = at(f, offset, sizeof(struct erofs_compact_inode));
	head = bytes ? read_head(f, bytes, offset, ret, &data, &n_xattrs) : 0;
	if (head == 0)
		return -EBADMSG;
	if (n_xattrs != 0)
		return -EOPNOTSUPP;
	return read_contents(f, offset + head, data, ret);
}

int erofs_compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int c = memcmp(a, b, MIN(a_len, b_len));

	return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

/* list has room for all entries of the block. */
static int list_block(const unsigned char *block, size_t len, struct erofs_entry *list, size_t *n)
{
	struct erofs_dirent first, d, next;
	size_t count;

	if (len < sizeof(first))
		return -EBADMSG;
	memcpy(&first, block, sizeof(first));
	count = first.name_at / sizeof(first);
	if (count == 0 || first.name_at % sizeof(first) != 0 || first.name_at > len)
		return -EBADMSG;
	for (size_t i = 0; i < count; i++) {
		size_t end = len;
		const char *name;

		memcpy(&d, block + i * sizeof(d), sizeof(d));
		if (i + 1 < count) {
			memcpy(&next, block + (i + 1) * sizeof(d), sizeof(d));
			end = next.name_at;
		}
		if (d.name_at < first.name_at || end > len || d.name_at >= end)
			return -EBADMSG;
		name = (const char *)block + d.name_at;
		end = strnlen(name, end - d.name_at);
		if (end == 0 || end > EROFS_NAME_MAX || memchr(name, '/', end))
			return -EBADMSG;
		if (!is_dots(name, end))
			list[(*n)++] = (struct erofs_entry){name, end, d.inode};
	}
	return 0;
}

int erofs_list(const struct erofs_file *f, const struct erofs_inode *dir, struct erofs_entry **ret,
               size_t *ret_n)
{
	const size_t n_blocks = (dir->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
	auto_free struct erofs_entry *list = NULL;
	int r = 0;

	*ret_n = 0;
	if (!S_ISDIR(dir->mode) || dir->size > f->size)
		return -EBADMSG;
	list = xcalloc(dir->size / (sizeof(struct erofs_dirent) + 1) + 1, sizeof(*list));
	for (size_t i = 0; r == 0 && i < n_blocks; i++) {
		size_t len = MIN(EROFS_BLOCK, dir->size - i * EROFS_BLOCK);
		const unsigned char *block =
			i < dir->n_blocks ? at(f, ((uint64_t)dir->first + i) * EROFS_BLOCK, len)
					  : dir->extra;

		r = block ? list_block(block, len, list, ret_n) : -EBADMSG;
	}
	for (size_t i = 1; r == 0 && i < *ret_n; i++)
		if (erofs_compare_names(list[i - 1].name, list[i - 1].len, list[i].name,
		                        list[i].len) >= 0)
			r = -EBADMSG;
	if (r == 0)
		*ret = take_ptr(list);
	return r;
}
