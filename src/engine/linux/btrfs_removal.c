// SPDX-License-Identifier: Apache-2.0
/*
 * The child runs beside us in our memory, so it may write to nothing of ours but its own removal,
 * and calls no function of libc: errno is ours, too. The kernel marks that as free when the child
 * has left its stack for good (CLONE_CHILD_CLEARTID).
 */
#include "engine/linux/btrfs_removal.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "driver/system_call.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <linux/btrfs.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define REMOVALS_MAX 16
#define STACK_SIZE   (16U << 10)

struct removal {
	_Atomic pid_t is_taken;
	int fs_fd;
	int aside_fd; /* -1 where there is none */
	struct btrfs_ioctl_vol_args subvolume;
	struct btrfs_ioctl_qgroup_create_args quota;
	char *stack; /* kept for the next child */
};

static struct removal removals[REMOVALS_MAX];
static int aside_fds[REMOVALS_MAX]; /* a place for each; -1 where it could not be made */
static size_t n_aside;

static long move(const char *name, int from_fd, int to_fd)
{
	return call5(__NR_renameat2, from_fd, (long)name, to_fd, (long)name, 0);
}

static int run(void *arg)
{
	struct removal *s = arg;
	const char *name = s->subvolume.name;
	const bool is_aside = s->aside_fd >= 0 && move(name, s->fs_fd, s->aside_fd) == 0;
	const int dir_fd = is_aside ? s->aside_fd : s->fs_fd;

	if (call(__NR_ioctl, dir_fd, (long)BTRFS_IOC_SNAP_DESTROY, (long)&s->subvolume) < 0) {
		if (is_aside)
			(void)move(name, s->aside_fd, s->fs_fd);
		return 1;
	}
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

static void bring_back(int dir_fd, const char *aside)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;

	(void)!dir_open(&dir, dir_fd, aside);
	while ((name = dir_next(&dir)))
		(void)renameat(dir.fd, name, dir_fd, name);
	dir_tell(&dir, aside);
}

void btrfs_removal_open(int dir_fd)
{
	char name[16];

	btrfs_removal_close();
	for (size_t i = 0; i < REMOVALS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "aside.%zu", i);
		if (mkdirat(dir_fd, name, 0700) < 0 && errno == EEXIST)
			bring_back(dir_fd, name);
		aside_fds[i] =
			openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	n_aside = REMOVALS_MAX;
}

void btrfs_removal_close(void)
{
	while (n_aside > 0)
		if (aside_fds[--n_aside] >= 0)
			(void)close(aside_fds[n_aside]);
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
	s->aside_fd = n_aside > 0 ? aside_fds[s - removals] : -1;
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
