// SPDX-License-Identifier: Apache-2.0
/*
 * What is read of a saved memory, from files in any state. The input is a row of files, each a byte
 * that names it, its length as a u16 and its bytes. Nothing is read past its end; what could be put
 * right and described is found whole, and so it is not when it was not.
 */
#include "base/fd.h"
#include "engine/jail/memory/memory_agent.h"
#include "engine/jail/memory/memory_image.h"

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {
	"files.img",           "mm-1.img",       "mm-2.img",         "userns-3.img", "utsns-4.img",
	"pages-1.img",         MEMORY_MANIFEST,  MEMORY_CONFINEMENT, MEMORY_MOUNTS,  "memfd.img",
	"pagemap-shmem-1.img", MEMORY_AGENT_HASH};
static char place[] = "/tmp/cloche-fuzz-XXXXXX", own_place[] = "/tmp/cloche-fuzz-XXXXXX";
static int images_fd = -1, own_fd = -1;

static void empty(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)unlinkat(images_fd, names[i], 0);
		(void)unlinkat(own_fd, names[i], 0);
	}
}

static void leave(void)
{
	empty();
	(void)rmdir(place);
	(void)rmdir(own_place);
}

static int open_fresh(char *template)
{
	int fd = mkdtemp(template) ? open(template, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	assert(fd >= 0);
	return fd;
}

static void enter(void)
{
	int r = atexit(leave);

	assert(r == 0);
	images_fd = open_fresh(place);
	own_fd = open_fresh(own_place);
}

static void lay_out(const uint8_t *data, size_t size)
{
	while (size >= 3) {
		const char *name = names[data[0] % ARRAY_SIZE(names)];
		size_t len = MIN((size_t)data[1] | (size_t)data[2] << 8, size - 3);
		int r = fd_replace_file(images_fd, name, data + 3, len, 0644, false);

		assert(r == 0);
		data += 3 + len;
		size -= 3 + len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct digest agent = {0};
	struct err err;
	uint64_t bytes;
	int r, agent_fd;

	if (images_fd < 0)
		enter();
	empty();
	lay_out(data, size);
	(void)!memory_image_adapt(images_fd, own_fd, 0x30000000, 65536, "copy", &err);
	(void)!memory_image_check(images_fd, MEMORY_PARSED, &err);
	(void)!memory_image_check(images_fd, MEMORY_PAGES, &err);
	(void)!memory_agent_read(images_fd, &agent);
	r = memory_agent_extract(images_fd, &agent, &agent_fd);
	assert(r < 0); /* no input has the hash that it names */
	(void)unlinkat(images_fd, MEMORY_MANIFEST, 0);
	(void)unlinkat(images_fd, MEMORY_AGENT_HASH, 0);
	if (memory_image_finish(images_fd, &bytes, &err) == 0) {
		r = memory_image_check(images_fd, MEMORY_PARSED, &err);
		assert(r == 0);
		r = memory_image_check(images_fd, MEMORY_PAGES, &err);
		assert(r == 0);
	}
	return 0;
}
