// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Reads an erofs image that we made, from its bytes. They describe files of a sandbox, so nothing
 * in them is believed before it is checked. What mkfs.erofs does not write with our options is
 * refused with -EOPNOTSUPP, and what contradicts itself with -EBADMSG.
 *
 * An image may have *bases*: other images whose blocks it uses. They are the entries of its device
 * table, named by digest. Together their blocks are one range of addresses: first those of the
 * image itself, then those of each base, from `first` on.
 */
#include "base/digest.h"
#include "engine/erofs/format.h"

#include <stdbool.h>
#include <stddef.h>

#define EROFS_BASES_MAX 8
#define EROFS_WHOLE     "cloche step" /* the label of an image that is only a step to another one */

struct erofs_base {
	struct digest digest;
	uint32_t first, n_blocks;
};

struct erofs_bases {
	struct erofs_base list[EROFS_BASES_MAX];
	size_t n;
};

struct erofs_file {
	const unsigned char *bytes; /* mapped */
	size_t size;
	struct erofs_super super;
	struct erofs_bases bases;
};

struct erofs_inode {
	uint64_t id, size, mtime_s;
	uint32_t mtime_ns, mode, nlink, uid, gid, rdev;
	enum erofs_layout layout;
	uint32_t first, n_blocks;   /* of its contents */
	const unsigned char *extra; /* what is behind the inode: the rest, or the index */
	size_t extra_len;
};

struct erofs_entry {
	const char *name; /* no NUL at its end */
	size_t len;
	uint64_t id;
};

/* Only what it says of its bases, read with two system calls. 0 or a negative errno. */
must_check int erofs_read_bases(int fd, struct erofs_bases *ret);
must_check int erofs_is_whole(int fd, bool *ret);

must_check int erofs_open(int fd, struct erofs_file *ret); /* does not keep fd */
void erofs_close(struct erofs_file *f);
must_check int erofs_inode(const struct erofs_file *f, uint64_t id, struct erofs_inode *ret);
/* The entries of a directory in their order, without "." and "..". *ret is freed by the caller. */
must_check int erofs_list(const struct erofs_file *f, const struct erofs_inode *dir,
                          struct erofs_entry **ret, size_t *ret_n);
/* Moves the addresses of a compressed file's index. */
void erofs_move_index(unsigned char *index, size_t len, uint64_t size, uint32_t distance);
int erofs_compare_names(const char *a, size_t a_len, const char *b, size_t b_len);
