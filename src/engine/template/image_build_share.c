// SPDX-License-Identifier: Apache-2.0
#include "engine/template/image_build_share.h"

#include "engine/erofs/erofs_write.h"

#include <fcntl.h>

static int read_parts(const struct image_build_share *s, struct erofs_part parts[IMAGE_FILES_MAX])
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->orders->n_parts; i++) {
		parts[i] = (struct erofs_part){.digest = s->orders->parts[i], .fd = s->part_fds[i]};
		r = erofs_is_whole(s->part_fds[i], &parts[i].is_whole);
	}
	return r;
}

static int write_tree(const struct image_build_share *s, int out_fd, int upper_fd,
                      const struct erofs_file *base, const struct erofs_file *added)
{
	struct erofs_part parts[IMAGE_FILES_MAX];
	const struct erofs_merge merge = {
		.base = base, .added = added, .upper_fd = upper_fd, .is_left_out = s->is_left_out};
	const struct erofs_output out = {.fd = out_fd,
	                                 .base = base,
	                                 .added = added,
	                                 .parts = parts,
	                                 .is_whole = s->orders->is_whole != 0};
	struct erofs_tree tree;
	int r = base->bases.n + 1 == s->orders->n_parts ? read_parts(s, parts) : -EBADMSG;

	if (r == 0)
		r = erofs_merge(&merge, &tree);
	if (r < 0)
		return r;
	r = erofs_write(&out, &tree);
	erofs_tree_free(&tree);
	return r;
}

int image_build_share(const struct image_build_share *share)
{
	auto_fd int out_fd = open("/out/" IMAGE_BUILD_FILE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int upper_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct erofs_file base, added;
	int r;

	if (out_fd < 0 || upper_fd < 0)
		return -errno;
	r = erofs_open(share->part_fds[0], &base);
	if (r < 0)
		return r;
	r = erofs_open(out_fd, &added);
	if (r == 0) {
		r = write_tree(share, out_fd, upper_fd, &base, &added);
		erofs_close(&added);
	}
	erofs_close(&base);
	return r;
}
