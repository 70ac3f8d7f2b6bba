// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/boot/initrd.h"

#include "base/fs/dir_reader.h"
#include "engine/vm/boot/cpio.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MODULES     "modules"
#define MODULES_MAX 64
#define NAME_SIZE   64
#define SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const char *const dirs[] = {"dev", "proc", "sys", "cgroup", "root", "disk", MODULES};

struct names {
	char all[MODULES_MAX][NAME_SIZE];
	size_t n;
};

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int list_modules(int fd, struct names *ret, struct err *err)
{
	struct dir_reader dir;
	const char *name;
	int r = dir_begin(&dir, fd);

	while (r == 0 && (name = dir_next(&dir))) {
		if (ret->n == MODULES_MAX || strlen(name) >= NAME_SIZE)
			r = -E2BIG;
		else
			(void)snprintf(ret->all[ret->n++], NAME_SIZE, "%s", name);
	}
	if (r == 0)
		r = dir.error;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot list the kernel's modules");
	qsort(ret->all, ret->n, NAME_SIZE, compare);
	return 0;
}

static int add_file(struct cpio *c, const char *path, mode_t mode, int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return cpio_file(c, path, mode, fd, (uint64_t)st.st_size);
}

static int add_modules(struct cpio *c, int kernel_fd, struct err *err)
{
	auto_fd int dir_fd = openat(kernel_fd, MODULES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_free struct names *names = xnew0(struct names);
	int r;

	if (dir_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "the kernel has no modules");
	r = list_modules(dir_fd, names, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < names->n; i++) {
		auto_fd int fd = openat(dir_fd, names->all[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		char path[sizeof(MODULES) + NAME_SIZE];

		(void)snprintf(path, sizeof(path), MODULES "/%s", names->all[i]);
		r = add_file(c, path, 0644, fd);
		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot take the module '%s'",
			               names->all[i]);
	}
	return 0;
}

int initrd_make(int kernel_fd, int agent_fd, int *ret_fd, struct err *err)
{
	auto_fd int fd = memfd_create("cloche-initrd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct cpio c = {.fd = fd};
	int r = fd < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = cpio_dir(&c, dirs[i], 0755);
	if (r == 0)
		r = add_file(&c, "init", 0755, agent_fd);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot make the initial root");
	r = add_modules(&c, kernel_fd, err);
	if (r < 0)
		return r;
	r = cpio_end(&c);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot finish the initial root");
	*ret_fd = take_fd(&fd);
	return 0;
}
