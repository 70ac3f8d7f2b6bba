// SPDX-License-Identifier: Apache-2.0
/*
 * A tar archive from a hostile sandbox, unpacked by the CLI. Whatever it says, nothing may appear
 * or change beside the destination. Checksums are made right before it is fed, or nothing behind
 * them would ever be reached.
 */
#include "cli/copy/untar.h"

#include <assert.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#define BLOCK 512

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void fix_checksums(char *archive, size_t size)
{
	for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
		unsigned char *h = (unsigned char *)archive + at;
		unsigned sum = 0;

		if (memcmp(h + 257, "ustar", 5) != 0)
			continue;
		memset(h + 148, ' ', 8);
		for (size_t i = 0; i < BLOCK; i++)
			sum += h[i];
		for (size_t i = 0; i < 6; i++, sum >>= 3)
			h[148 + 5 - i] = (unsigned char)('0' + (sum & 7));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char dir[] = "/tmp/cloche-fuzz-untar.XXXXXX";
	auto_free char *archive = xcalloc(1, size + 1);
	auto_free char *in = NULL;
	struct untar *u;
	int dir_fd, in_fd;

	memcpy(archive, data, size);
	fix_checksums(archive, size);
	assert(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(dir_fd >= 0 && mkdirat(dir_fd, "in", 0700) == 0);
	in_fd = openat(dir_fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(in_fd >= 0);

	u = untar_new(in_fd, NULL, NULL);
	if (untar_feed(u, archive, size, NULL) == 0 && untar_finish(u, NULL) == 0)
		assert(size >= 2 * BLOCK);
	untar_free(u);

	(void)close(in_fd);
	(void)close(dir_fd);
	in = xasprintf("%s/in", dir);
	assert(nftw(in, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0);
	assert(rmdir(dir) == 0); /* it holds nothing else */
	return 0;
}
