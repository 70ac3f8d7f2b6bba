// SPDX-License-Identifier: Apache-2.0
/*
 * First everything gets its place, then it is written. An inode with a rest behind it may not cross
 * a block's end; the holes that this leaves are filled with later inodes that fit.
 */
#include "engine/erofs/erofs_write.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARTS_MAX    (EROFS_BASES_MAX + 1)
#define HOLES_MAX    32
#define HEAD         sizeof(struct erofs_extended_inode)
#define USED_LEAST   16 /* a base is kept if at least one in so many of its blocks is used */
#define DEVICES_AT   10 /* in slots: behind the superblock and the settings of compression */
#define COPY_BLOCKS  64
#define CLUSTER_MOST 16 /* blocks that are compressed together: 64 KiB, as in small images */

struct place {
	uint32_t first, n_blocks; /* in the base's addresses */
	uint64_t used;
	bool is_kept;
	uint32_t new_first;
};

struct hole {
	uint64_t at;
	size_t len;
};

struct work {
	const struct erofs_output *out;
	struct erofs_tree *tree;
	struct place places[PARTS_MAX];
	size_t n_places;
	uint32_t next_block;
	uint64_t meta_len;
	struct hole holes[HOLES_MAX];
	size_t next_hole;
	unsigned char *meta;
};

static struct place *find_place(struct work *w, const struct erofs_inode *i)
{
	for (size_t k = 0; k < w->n_places; k++) {
		struct place *p = &w->places[k];

		if (i->first >= p->first && i->first - p->first <= p->n_blocks &&
		    i->n_blocks <= p->n_blocks - (i->first - p->first))
			return p;
	}
	return NULL;
}

static bool has_blocks(const struct erofs_node *n)
{
	return !S_ISDIR(n->inode.mode) && n->inode.n_blocks > 0;
}

static int count_used(struct work *w)
{
	const struct erofs_file *base = w->out->base;

	w->n_places = 1 + base->bases.n;
	w->places[0] = (struct place){.n_blocks = base->super.n_blocks};
	for (size_t i = 0; i < base->bases.n; i++)
		w->places[1 + i] = (struct place){.first = base->bases.list[i].first,
		                                  .n_blocks = base->bases.list[i].n_blocks};
	for (size_t i = 0; i < w->tree->n; i++) {
		const struct erofs_node *n = w->tree->nodes[i];
		struct place *p;

		if (!has_blocks(n))
			continue;
		if (n->is_added) {
			if (n->inode.first == 0 || n->inode.first > w->next_block ||
			    n->inode.n_blocks > w->next_block - n->inode.first)
				return -EBADMSG;
			continue;
		}
		p = find_place(w, &n->inode);
		if (!p)
			return -EBADMSG;
		p->used += n->inode.n_blocks;
	}
	return 0;
}

static void choose_bases(struct work *w)
{
	size_t n_kept = 0;

	for (size_t i = 0; i < w->n_places; i++) {
		struct place *p = &w->places[i];

		p->is_kept = p->used > 0 && p->used >= p->n_blocks / USED_LEAST &&
		             (w->out->is_whole || !w->out->parts[i].is_whole);
		n_kept += p->is_kept;
	}
	for (; n_kept > EROFS_BASES_MAX; n_kept--) {
		struct place *least = NULL;

		for (size_t i = 0; i < w->n_places; i++)
			if (w->places[i].is_kept && (!least || w->places[i].used < least->used))
				least = &w->places[i];
		if (least)
			least->is_kept = false;
	}
}

static int write_all(int fd, const void *bytes, size_t len, uint64_t offset)
{
	const unsigned char *at = bytes;

	while (len > 0) {
		ssize_t n = pwrite(fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static int copy_blocks(int from_fd, uint32_t from, int to_fd, uint32_t to, uint32_t n)
{
	static unsigned char chunk[COPY_BLOCKS * EROFS_BLOCK];

	while (n > 0) {
		uint32_t now = MIN(n, (uint32_t)COPY_BLOCKS);
		size_t len = (size_t)now * EROFS_BLOCK;
		ssize_t got = pread(from_fd, chunk, len, (off_t)from * EROFS_BLOCK);
		int r;

		if (got != (ssize_t)len)
			return got < 0 ? -errno : -EBADMSG;
		r = write_all(to_fd, chunk, len, (uint64_t)to * EROFS_BLOCK);
		if (r < 0)
			return r;
		from += now;
		to += now;
		n -= now;
	}
	return 0;
}

/* Takes blocks at the end of the file. */
static int take_blocks(struct work *w, uint32_t n, uint32_t *ret_first)
{
	if (n > UINT32_MAX / 4 - MIN(w->next_block, UINT32_MAX / 4))
		return -EFBIG;
	*ret_first = w->next_block;
	w->next_block += n;
	return 0;
}

/* Copies the contents, from fd, whose first block has the address `first`. */
static int copy_contents(struct work *w, struct erofs_node *n, int fd, uint32_t first)
{
	unsigned char last[EROFS_BLOCK] = {0};
	int r = take_blocks(w, n->inode.n_blocks + n->is_unpacked, &n->first);

	if (r == 0)
		r = copy_blocks(fd, n->inode.first - first, w->out->fd, n->first,
		                n->inode.n_blocks);
	if (r < 0 || !n->is_unpacked)
		return r;
	memcpy(last, n->inode.extra, n->inode.extra_len);
	return write_all(w->out->fd, last, sizeof(last),
	                 ((uint64_t)n->first + n->inode.n_blocks) * EROFS_BLOCK);
}

static int place_contents(struct work *w)
{
	for (size_t i = 0; i < w->tree->n; i++) {
		struct erofs_node *n = w->tree->nodes[i];
		const struct place *p = NULL;
		int r = 0;

		if (S_ISDIR(n->inode.mode))
			continue;
		/* In its image the inode had half the size. */
		n->is_unpacked =
			n->inode.layout == EROFS_INLINE && HEAD + n->inode.extra_len > EROFS_BLOCK;
		n->first = n->inode.first;
		if (!n->is_added && n->inode.n_blocks > 0)
			p = find_place(w, &n->inode);
		if (n->is_unpacked || (p && !p->is_kept)) {
			size_t part = p ? (size_t)(p - w->places) : 0;

			r = copy_contents(w, n, n->is_added ? w->out->fd : w->out->parts[part].fd,
			                  p ? p->first : 0);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

struct names { /* of a directory, with "." and ".." in their places */
	const struct erofs_node *dir;
	size_t child;
	unsigned dots; /* how many of the two are done */
};

static bool next_name(struct names *it, struct erofs_child *ret)
{
	static const char dots[] = "..";
	const struct erofs_child *c =
		it->child < it->dir->n_children ? &it->dir->children[it->child] : NULL;

	if (it->dots < 2 && (!c || erofs_compare_names(dots, it->dots + 1, c->name, c->len) < 0)) {
		*ret = (struct erofs_child){dots, it->dots + 1,
		                            unconst(it->dots == 0 ? it->dir : it->dir->up)};
		it->dots++;
		return true;
	}
	if (!c)
		return false;
	*ret = *c;
	it->child++;
	return true;
}

/* The bytes that a directory takes; its blocks are full as far as whole entries fit. */
static uint64_t dir_size(const struct erofs_node *dir)
{
	struct names it = {.dir = dir};
	uint64_t blocks = 0;
	size_t used = 0;
	struct erofs_child c;

	while (next_name(&it, &c)) {
		size_t len = sizeof(struct erofs_dirent) + c.len;

		if (used + len > EROFS_BLOCK) {
			blocks++;
			used = 0;
		}
		used += len;
	}
	return blocks * EROFS_BLOCK + used;
}

static size_t dir_rest(const struct erofs_node *dir)
{
	size_t rest = dir->inode.size % EROFS_BLOCK;

	return dir->is_unpacked ? 0 : rest;
}

static int place_dirs(struct work *w)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->tree->n; i++) {
		struct erofs_node *n = w->tree->nodes[i];

		if (!S_ISDIR(n->inode.mode))
			continue;
		n->inode.size = dir_size(n);
		n->is_unpacked = HEAD + n->inode.size % EROFS_BLOCK > EROFS_BLOCK;
		r = take_blocks(w, (uint32_t)(n->inode.size / EROFS_BLOCK) + n->is_unpacked,
		                &n->first);
	}
	return r;
}

static size_t extra_len(const struct erofs_node *n)
{
	if (S_ISDIR(n->inode.mode))
		return dir_rest(n);
	return n->is_unpacked ? 0 : n->inode.extra_len;
}

static size_t round_to_slot(size_t len)
{
	return (len + EROFS_SLOT - 1) / EROFS_SLOT * EROFS_SLOT;
}

static bool fill_hole(struct work *w, size_t len, uint64_t *ret)
{
	for (size_t i = 0; i < HOLES_MAX; i++) {
		struct hole *h = &w->holes[i];

		if (h->len < len)
			continue;
		*ret = h->at;
		h->at += len;
		h->len -= len;
		return true;
	}
	return false;
}

static uint64_t place_inode(struct work *w, size_t len, bool may_cross)
{
	size_t left = EROFS_BLOCK - w->meta_len % EROFS_BLOCK;
	uint64_t at;

	if (len <= EROFS_BLOCK && fill_hole(w, len, &at))
		return at;
	if (left < (may_cross ? HEAD : len)) {
		w->holes[w->next_hole++ % HOLES_MAX] = (struct hole){w->meta_len, left};
		w->meta_len += left;
	}
	at = w->meta_len;
	w->meta_len += len;
	return at;
}

static void place_inodes(struct work *w)
{
	w->meta_len = HEAD; /* no inode has the number 0 */
	for (size_t i = 0; i < w->tree->n; i++) {
		struct erofs_node *n = w->tree->nodes[i];
		bool may_cross = n->inode.layout == EROFS_COMPRESSED;

		n->id = place_inode(w, round_to_slot(HEAD + extra_len(n)), may_cross) / EROFS_SLOT;
	}
}

static uint8_t type_of(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return 1;
	case S_IFDIR:
		return 2;
	case S_IFCHR:
		return 3;
	case S_IFBLK:
		return 4;
	case S_IFIFO:
		return 5;
	case S_IFSOCK:
		return 6;
	default:
		return 7;
	}
}

/* Fills one block from the names that are left. */
static void fill_block(struct names *it, unsigned char *block)
{
	struct erofs_child c, list[EROFS_BLOCK / (sizeof(struct erofs_dirent) + 1)];
	size_t n = 0, used = 0;

	for (struct names ahead = *it; n < ARRAY_SIZE(list) && next_name(&ahead, &c); *it = ahead) {
		if (used + sizeof(struct erofs_dirent) + c.len > EROFS_BLOCK)
			break;
		used += sizeof(struct erofs_dirent) + c.len;
		list[n++] = c;
	}
	used = n * sizeof(struct erofs_dirent);
	for (size_t i = 0; i < n; i++) {
		struct erofs_dirent d = {.inode = list[i].node->id,
		                         .name_at = (uint16_t)used,
		                         .type = type_of(list[i].node->inode.mode)};

		memcpy(block + i * sizeof(d), &d, sizeof(d));
		memcpy(block + used, list[i].name, list[i].len);
		used += list[i].len;
	}
}

static int write_dir(struct work *w, const struct erofs_node *n)
{
	const uint64_t n_blocks = n->inode.size / EROFS_BLOCK + n->is_unpacked;
	struct names it = {.dir = n};
	int r = 0;

	for (uint64_t i = 0; r == 0 && i <= n_blocks; i++) {
		unsigned char block[EROFS_BLOCK] = {0};

		fill_block(&it, block);
		if (i < n_blocks)
			r = write_all(w->out->fd, block, sizeof(block),
			              (n->first + i) * EROFS_BLOCK);
		else
			memcpy(w->meta + n->id * EROFS_SLOT + HEAD, block, dir_rest(n));
	}
	return r;
}

static uint32_t new_address(struct work *w, const struct erofs_node *n)
{
	const struct place *p = NULL;

	if (!n->is_added && has_blocks(n) && !n->is_unpacked)
		p = find_place(w, &n->inode);
	return p && p->is_kept ? n->inode.first - p->first + p->new_first : n->first;
}

static void write_extra(const struct erofs_node *n, unsigned char *to, uint32_t address)
{
	memcpy(to, n->inode.extra, n->inode.extra_len);
	if (n->inode.layout == EROFS_COMPRESSED)
		erofs_move_index(to, n->inode.extra_len, n->inode.size, address - n->inode.first);
}

static int write_inode(struct work *w, const struct erofs_node *n, size_t number)
{
	const struct erofs_inode *i = &n->inode;
	const bool is_dir = S_ISDIR(i->mode);
	const uint32_t address = new_address(w, n);
	unsigned char *to = w->meta + n->id * EROFS_SLOT;
	enum erofs_layout layout = i->layout;
	struct erofs_extended_inode e = {
		.mode = (uint16_t)i->mode,
		.size = i->size,
		.data = address,
		.number = (uint32_t)number,
		.uid = i->uid,
		.gid = i->gid,
		.mtime_s = i->mtime_s,
		.mtime_ns = i->mtime_ns,
		.nlink = n->nlink,
	};

	if (is_dir)
		layout = dir_rest(n) > 0 ? EROFS_INLINE : EROFS_PLAIN;
	else if (n->is_unpacked)
		layout = EROFS_PLAIN;
	else if (i->layout == EROFS_COMPRESSED)
		e.data = i->n_blocks;
	else if (!S_ISREG(i->mode) && !S_ISLNK(i->mode))
		e.data = i->rdev;
	e.format = (uint16_t)(1U | (unsigned)layout << 1);
	memcpy(to, &e, sizeof(e));
	if (is_dir)
		return write_dir(w, n);
	if (extra_len(n) > 0)
		write_extra(n, to + HEAD, address);
	return 0;
}

static void write_bases(struct work *w, unsigned char *first_block, struct erofs_super *super)
{
	uint32_t next = super->n_blocks;

	super->n_devices = 0;
	for (size_t i = 0; i < w->n_places; i++) {
		struct place *p = &w->places[i];
		struct erofs_device d = {.n_blocks = p->n_blocks, .first = next};
		char hex[DIGEST_HEX];

		if (!p->is_kept)
			continue;
		p->new_first = next;
		next += p->n_blocks;
		digest_to_hex(&w->out->parts[i].digest, hex);
		memcpy(d.tag, hex, sizeof(d.tag));
		memcpy(first_block + (size_t)(DEVICES_AT + super->n_devices) * EROFS_DEVICE_SLOT,
		       &d, sizeof(d));
		super->n_devices++;
	}
	if (super->n_devices == 0)
		return;
	super->devices_at = DEVICES_AT;
	super->feature_incompat |= EROFS_DEVICES;
}

static void make_first_block(struct work *w, uint32_t meta_block, unsigned char block[EROFS_BLOCK])
{
	const struct erofs_super *added = &w->out->added->super;
	const struct erofs_lz4_settings settings = {.size = sizeof(settings) - sizeof(uint16_t),
	                                            .distance_max = UINT16_MAX,
	                                            .cluster_blocks_max = CLUSTER_MOST};
	struct erofs_super super = {
		.magic = EROFS_MAGIC,
		.feature_compat = EROFS_COMPAT_MTIME,
		.block_bits = EROFS_BLOCK_BITS,
		.root = (uint16_t)w->tree->nodes[0]->id,
		.n_inodes = w->tree->n,
		.time_s = added->time_s,
		.time_ns = added->time_ns,
		.n_blocks = w->next_block,
		.meta_block = meta_block,
		.feature_incompat = EROFS_ZERO_PADDING | EROFS_COMPRESSION,
		.algorithms = 1, /* lz4 */
	};

	memcpy(super.uuid, added->uuid, sizeof(super.uuid));
	if (w->out->is_whole)
		memcpy(super.label, EROFS_WHOLE, sizeof(EROFS_WHOLE));
	write_bases(w, block, &super);
	memcpy(block + EROFS_SUPER_AT, &super, sizeof(super));
	memcpy(block + EROFS_SUPER_AT + sizeof(super), &settings, sizeof(settings));
}

static int write_metadata(struct work *w)
{
	const uint64_t n_blocks = (w->meta_len + EROFS_BLOCK - 1) / EROFS_BLOCK;
	unsigned char first_block[EROFS_BLOCK] = {0};
	uint32_t meta_block;
	int r = n_blocks > UINT32_MAX ? -EFBIG : take_blocks(w, (uint32_t)n_blocks, &meta_block);

	if (r < 0)
		return r;
	w->meta = xcalloc(n_blocks, EROFS_BLOCK);
	make_first_block(w, meta_block, first_block);
	for (size_t i = 0; r == 0 && i < w->tree->n; i++)
		r = write_inode(w, w->tree->nodes[i], i + 1);
	if (r == 0)
		r = write_all(w->out->fd, w->meta, n_blocks * EROFS_BLOCK,
		              (uint64_t)meta_block * EROFS_BLOCK);
	if (r == 0) /* at last: it makes the rest valid */
		r = write_all(w->out->fd, first_block, sizeof(first_block), 0);
	free(w->meta);
	return r;
}

int erofs_write(const struct erofs_output *out, struct erofs_tree *tree)
{
	struct work w = {.out = out, .tree = tree, .next_block = out->added->super.n_blocks};
	int r;

	if (out->added->size != (uint64_t)out->added->super.n_blocks * EROFS_BLOCK)
		return -EBADMSG;
	r = count_used(&w);
	if (r < 0)
		return r;
	choose_bases(&w);
	r = place_contents(&w);
	if (r == 0)
		r = place_dirs(&w);
	if (r == 0)
		place_inodes(&w);
	return r == 0 ? write_metadata(&w) : r;
}
