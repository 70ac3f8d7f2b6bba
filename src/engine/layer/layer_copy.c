// SPDX-License-Identifier: Apache-2.0
/*
 * The child runs beside us in our memory, so it may write to nothing of ours but its own copy,
 * and calls no function of libc: errno is ours, too. Its descriptors are its own. The kernel marks
 * the copy as free when the child has left its stack for good (CLONE_CHILD_CLEARTID).
 */
#include "engine/layer/layer_copy.h"

#include "base/fd.h"
#include "driver/system_call.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define COPIES_MAX 64
#define STACK_SIZE (16U << 10)
#define NAME_SIZE  48
#define DIR_FLAGS  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_FLAGS (O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC)

struct child_copy {
	_Atomic pid_t is_taken;
	int layers_fd;
	char place[NAME_SIZE], id[NAME_SIZE];
	struct btrfs_ioctl_vol_args_v2 subvolume;
	struct disk_snapshot_below below;
	char entries[128]; /* room for more than the two of an empty directory */
	char *stack;       /* kept for the next child */
};

/* Overlay's, which it mounts only while they are empty. */
static const char *const work[] = {"root.work", "usr.work"};

static struct child_copy child_copies[COPIES_MAX];

/* Whether it has only "." and "..", which are 24 bytes each. */
static bool is_empty(struct child_copy *c, long layer_fd, const char *name)
{
	long fd = call5(__NR_openat, layer_fd, (long)name, DIR_FLAGS, 0, 0);
	long n = fd < 0 ? fd : call(__NR_getdents64, fd, (long)c->entries, sizeof(c->entries));

	if (fd >= 0)
		(void)call(__NR_close, fd, 0, 0);
	return n == 48;
}

/* Makes what was copied the layer of its sandbox: it is nobody's yet. */
static long set_up(struct child_copy *c, long layer_fd)
{
	long fd, n;

	for (size_t i = 0; i < ARRAY_SIZE(work); i++)
		if (!is_empty(c, layer_fd, work[i]))
			return -LAYER_COPY_UNTIDY;
	fd = call5(__NR_openat, layer_fd, (long)DISK_SNAPSHOT_BELOW, FILE_FLAGS, 0600, 0);
	if (fd < 0)
		return fd;
	n = call(__NR_write, fd, (long)&c->below, sizeof(c->below));
	(void)call(__NR_close, fd, 0, 0);
	if (n != sizeof(c->below))
		return n < 0 ? n : -EIO;
	n = call(__NR_unlinkat, layer_fd, (long)"keeper", 0); /* of a source that is kept */
	return n < 0 && n != -ENOENT ? n : 0;
}

static long make(struct child_copy *c)
{
	const char *name = c->subvolume.name;
	long place_fd, layer_fd, r;

	r = call(__NR_mkdirat, c->layers_fd, (long)c->place, 0700);
	if (r < 0)
		return r;
	place_fd = call5(__NR_openat, c->layers_fd, (long)c->place, DIR_FLAGS, 0, 0);
	if (place_fd < 0)
		return place_fd;
	r = call(__NR_ioctl, place_fd, (long)BTRFS_IOC_SNAP_CREATE_V2, (long)&c->subvolume);
	if (r < 0)
		return r;
	layer_fd = call5(__NR_openat, place_fd, (long)name, DIR_FLAGS, 0, 0);
	r = layer_fd < 0 ? layer_fd : set_up(c, layer_fd);
	if (r == 0)
		r = call5(__NR_renameat2, place_fd, (long)name, c->layers_fd, (long)c->id,
		          RENAME_NOREPLACE);
	if (r == 0) /* else the next start of the broker does */
		(void)call(__NR_unlinkat, c->layers_fd, (long)c->place, AT_REMOVEDIR);
	return r;
}

static int run(void *arg)
{
	(void)call5(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return (int)-make(arg);
}

static struct child_copy *find_free(void)
{
	for (size_t i = 0; i < COPIES_MAX; i++) {
		struct child_copy *c = &child_copies[i];

		if (atomic_load(&c->is_taken))
			continue;
		if (!c->stack) {
			char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

			if (stack == MAP_FAILED)
				return NULL;
			c->stack = stack;
		}
		return c;
	}
	return NULL;
}

int layer_copy_start(const struct layer_copy *copy, int *ret_pidfd)
{
	/* Neither CLONE_FS nor CLONE_SIGHAND: a process of its own in all else. */
	const int flags = CLONE_VM | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD;
	struct child_copy *c = find_free();

	if (!c || strlen(copy->place) >= NAME_SIZE || strlen(copy->id) >= NAME_SIZE)
		return 0;
	c->layers_fd = copy->layers_fd;
	c->below = copy->below;
	(void)snprintf(c->place, sizeof(c->place), "%s", copy->place);
	(void)snprintf(c->id, sizeof(c->id), "%s", copy->id);
	c->subvolume = (struct btrfs_ioctl_vol_args_v2){.fd = copy->files_fd};
	(void)snprintf(c->subvolume.name, sizeof(c->subvolume.name), "%s", copy->name);
	atomic_store(&c->is_taken, 1);
	if (clone(run, c->stack + STACK_SIZE, flags, c, ret_pidfd, NULL, &c->is_taken) < 0) {
		atomic_store(&c->is_taken, 0);
		return 0;
	}
	return 1;
}
