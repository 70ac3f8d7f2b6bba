// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/namespaces.h"

#include "base/fd.h"

#include <assert.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

static int bring_lo_up(void)
{
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 ? -errno : 0;
}

int namespaces_enter_new_net(struct err *err)
{
	int r;

	if (unshare(CLONE_NEWNET) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make a net namespace");
	r = bring_lo_up();
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot bring lo up");
	/* CAP_NET_BIND_SERVICE inside has no effect in this namespace, and nobody else uses a
	 * sandbox's port 80. On a kernel without the sysctl low ports stay closed. */
	(void)!fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	return 0;
}

uint32_t namespaces_first_id(uint32_t slot)
{
	assert(slot < NAMESPACES_SLOTS_MAX);
	return NAMESPACES_FIRST_ID + slot * NAMESPACES_IDS_EACH;
}

uint32_t namespaces_owner_id(uint32_t slot)
{
	static_assert(NAMESPACES_SLOTS_MAX + 2 <= NAMESPACES_IDS_EACH, "a slot has no owner");
	assert(slot < NAMESPACES_SLOTS_MAX);
	return NAMESPACES_OWNERS_ID + slot;
}

static int write_maps(pid_t pid, uint32_t inside, uint32_t outside, uint32_t n, struct err *err)
{
	static const char *const files[] = {"uid_map", "gid_map"};
	char path[64], map[48];

	(void)snprintf(map, sizeof(map), "%u %u %u\n", inside, outside, n);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r;

		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		r = fd_write_file(AT_FDCWD, path, map);
		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot write the %s", files[i]);
	}
	return 0;
}

int namespaces_write_id_maps(pid_t pid, uint32_t slot, struct err *err)
{
	return write_maps(pid, 0, namespaces_first_id(slot), NAMESPACES_IDS_EACH, err);
}

int namespaces_write_spawner_maps(pid_t pid, struct err *err)
{
	return write_maps(pid, NAMESPACES_SPAWNER_ID, NAMESPACES_SPAWNER_ID,
	                  (NAMESPACES_SLOTS_MAX + 1) * NAMESPACES_IDS_EACH, err);
}

static int copy_mount(int dir_fd, int userns_fd, bool is_read_only, int *ret_fd, struct err *err)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
	                    (userns_fd >= 0 ? (uint64_t)MOUNT_ATTR_IDMAP : 0) |
	                    (is_read_only ? (uint64_t)MOUNT_ATTR_RDONLY : 0),
		.propagation = MS_PRIVATE,
		.userns_fd = userns_fd >= 0 ? (uint64_t)userns_fd : 0,
	};
	auto_fd int fd = open_tree(dir_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot copy a mount");
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
		bool is_passing = errno == ENOMEM || errno == EMFILE || errno == ENFILE;
		int r = err_set(err, is_passing ? ERR_INTERNAL : ERR_UNSUPPORTED, errno,
		                "cannot map the ids of a mount");

		if (!is_passing)
			err_hint(err, "the kernel must be 5.19 or newer, and the filesystem one "
			              "that can be idmapped: ext4, xfs, btrfs");
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

int namespaces_idmapped_mount(int dir_fd, int userns_fd, bool is_read_only, int *ret_fd,
                              struct err *err)
{
	return copy_mount(dir_fd, userns_fd, is_read_only, ret_fd, err);
}

int namespaces_detached_mount(int dir_fd, bool is_read_only, int *ret_fd, struct err *err)
{
	return copy_mount(dir_fd, -1, is_read_only, ret_fd, err);
}
