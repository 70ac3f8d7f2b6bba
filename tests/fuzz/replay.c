// SPDX-License-Identifier: Apache-2.0
/* Feeds every file of the directories that it is given to a fuzz target: what once broke a parser,
 * and the seeds, stay tested by any compiler. An empty corpus is an error, for it would pass
 * unseen. */
#include "base/auto.h"

#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (1024 * 1024)

static int feed(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free uint8_t *data = xcalloc(INPUT_MAX, 1);
	auto_free uint8_t *input = NULL;
	ssize_t len = fd < 0 ? -1 : read(fd, data, INPUT_MAX);

	if (len < 0)
		return -errno;
	/* A copy of the exact size, so that a sanitizer sees a read past its end. */
	input = xcalloc(len > 0 ? (size_t)len : 1, 1);
	if (len > 0)
		memcpy(input, data, (size_t)len);
	(void)LLVMFuzzerTestOneInput(input, (size_t)len);
	return 0;
}

static int feed_directory(const char *dir)
{
	auto_free char *pattern = xasprintf("%s/*", dir);
	glob_t found = {0};
	size_t n;
	int r = glob(pattern, 0, NULL, &found) == 0 ? 0 : -ENOENT;

	n = found.gl_pathc;
	for (size_t i = 0; i < n && r == 0; i++)
		r = feed(found.gl_pathv[i]);
	globfree(&found);
	if (r < 0)
		(void)fprintf(stderr, "%s: %s\n", dir, strerror(-r));
	else
		(void)printf("%s: %zu inputs\n", dir, n);
	return r;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (feed_directory(argv[i]) < 0)
			return 1;
	return argc > 1 ? 0 : 2;
}
