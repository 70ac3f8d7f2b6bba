// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/boot/initrd.h"

#include "base/buf.h"
#include "base/fd.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char dir[] = "/tmp/test-initrd-XXXXXX";
static const char *const files[] = {"modules/20-second.ko", "modules/10-first.ko"};

static int make_kernel(void)
{
	int fd;

	(void)snprintf(dir, sizeof(dir), "/tmp/test-initrd-XXXXXX");
	CHECK(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(mkdirat(fd, "modules", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		CHECK_INT(fd_replace_file(fd, files[i], files[i], strlen(files[i]), 0644, false),
		          0);
	return fd;
}

static void remove_kernel(int fd)
{
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		(void)unlinkat(fd, files[i], 0);
	(void)unlinkat(fd, "modules", AT_REMOVEDIR);
	(void)rmdir(dir);
	(void)close(fd);
}

static int make_agent(void)
{
	int fd = memfd_create("agent", MFD_CLOEXEC);

	CHECK_INT(fd_write_all(fd, "agent", 5), 0);
	return fd;
}

static unsigned field(const char *head, size_t i)
{
	char text[9] = {0};

	memcpy(text, head + 6 + 8 * i, 8);
	return (unsigned)strtoul(text, NULL, 16);
}

/* "MODE NAME=CONTENT" of each entry, as the kernel walks the archive. */
static char *list(int fd)
{
	auto_call(buf_done) struct buf out = BUF_INIT(65536);
	char data[16384];
	ssize_t len = pread(fd, data, sizeof(data), 0);

	for (size_t at = 0; at + 110 < (size_t)len;) {
		const char *name = data + at + 110;
		const unsigned size = field(data + at, 6), name_size = field(data + at, 11);

		CHECK(memcmp(data + at, "070701", 6) == 0);
		CHECK_INT(strlen(name) + 1, name_size);
		at = (at + 110 + name_size + 3) / 4 * 4;
		CHECK_INT(buf_printf(&out, "%o %s=%.*s\n", field(name - 110, 1), name, (int)size,
		                     data + at),
		          0);
		at = (at + size + 3) / 4 * 4;
	}
	return xstrdup(buf_str(&out));
}

TEST(an_initial_root_has_the_agent_and_the_modules_in_order)
{
	auto_fd int agent = make_agent();
	auto_fd int fd = -1;
	auto_free char *text = NULL;
	int kernel = make_kernel();
	struct err err;

	CHECK_INT(initrd_make(kernel, agent, &fd, &err), 0);
	remove_kernel(kernel);
	text = list(fd);
	CHECK_STR(text, "40755 dev=\n40755 proc=\n40755 sys=\n40755 cgroup=\n40755 root=\n"
	                "40755 disk=\n40755 modules=\n100755 init=agent\n"
	                "100644 modules/10-first.ko=modules/10-first.ko\n"
	                "100644 modules/20-second.ko=modules/20-second.ko\n0 TRAILER!!!=\n");
}

TEST(nobody_can_write_to_an_initial_root)
{
	auto_fd int agent = make_agent();
	auto_fd int fd = -1;
	int kernel = make_kernel();
	struct err err;

	CHECK_INT(initrd_make(kernel, agent, &fd, &err), 0);
	remove_kernel(kernel);
	CHECK_INT(pwrite(fd, "x", 1, 0), -1);
	CHECK_INT(errno, EPERM);
}

TEST(a_kernel_without_modules_is_told)
{
	auto_fd int agent = make_agent();
	auto_fd int kernel = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err err;
	int fd = -1;

	CHECK_INT(initrd_make(kernel, agent, &fd, &err), -ENOENT);
	CHECK_STR(err.message, "the kernel has no modules: No such file or directory");
}
