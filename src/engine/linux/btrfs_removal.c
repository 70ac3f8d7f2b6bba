// SPDX-License-Identifier: Apache-2.0
/*
 * The child runs beside us in our memory, so it may write to nothing of ours but its own removal,
 * and calls no function of libc: errno is ours, too. The kernel marks that as free when the child
 * has left its stack for good (CLONE_CHILD_CLEARTID).
 */
#include "engine/linux/btrfs_removal.h"

#include "base/fd.h"
#include "driver/system_call.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define REMOVALS_MAX 16
#define STACK_SIZE   (16U << 10)

struct removal {
	_Atomic pid_t is_taken;
	int fs_fd;
	struct btrfs_ioctl_vol_args subvolume;
	struct btrfs_ioctl_qgroup_create_args quota;
	char *stack; /* kept for the next child */
};

static struct removal removals[REMOVALS_MAX];

static int run(void *arg)
{
	struct removal *s = arg;

	if (call(__NR_ioctl, s->fs_fd, (long)BTRFS_IOC_SNAP_DESTROY, (long)&s->subvolume) < 0)
		return 1;
	/* Newer kernels return EBUSY until the last block is freed, and then drop it themselves. */
	(void)call(__NR_ioctl, s->fs_fd, (long)BTRFS_IOC_QGROUP_CREATE, (long)&s->quota);
	return 0;
}

static struct removal *find_free(void)
{
	for (size_t i = 0; i < REMOVALS_MAX; i++) {
		struct removal *s = &removals[i];

		if (atomic_load(&s->is_taken))
			continue;
		if (!s->stack) {
			char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

			if (stack == MAP_FAILED)
				return NULL;
			s->stack = stack;
		}
		return s;
	}
	return NULL;
}

int btrfs_removal_start(int dir_fd, const char *name, int *ret_pidfd)
{
	/* Not CLONE_FS and CLONE_SIGHAND: a process of its own in all else. */
	const int flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD | CLONE_CHILD_CLEARTID | SIGCHLD;
	struct removal *s = find_free();
	uint64_t id = 0;
	auto_fd int fd = -1;

	if (!s)
		return 0;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || !btrfs_is_subvol(fd, &id))
		return 0;
	s->fs_fd = dir_fd;
	s->quota = (struct btrfs_ioctl_qgroup_create_args){.qgroupid = id};
	s->subvolume = (struct btrfs_ioctl_vol_args){0};
	(void)snprintf(s->subvolume.name, sizeof(s->subvolume.name), "%s", name);
	atomic_store(&s->is_taken, 1);
	if (clone(run, s->stack + STACK_SIZE, flags, s, ret_pidfd, NULL, &s->is_taken) < 0) {
		atomic_store(&s->is_taken, 0);
		return 0;
	}
	return 1;
}
