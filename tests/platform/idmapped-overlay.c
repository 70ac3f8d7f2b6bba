// SPDX-License-Identifier: Apache-2.0
/*
 * An overlay can be mounted inside a user namespace over detached, idmapped mounts that were made
 * outside of it, and files made through it bear the inside's ids on disk. Since Linux 5.19.
 */
#include "platform.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct {
	char top[64];
	int lower_fd, upper_fd; /* directories, then in the child mounts */
	int sock[2];
} t;

static int detach(int userns_fd, int dir_fd)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};
	int fd = open_tree(dir_fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE);

	CHECK(fd >= 0);
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		SKIP("the filesystem of /tmp has no idmapped mounts");
	return fd;
}

static void send_fd(int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_level = SOL_SOCKET,
	                        .cmsg_type = SCM_RIGHTS,
	                        .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec iov = {.iov_base = unconst("f"), .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
	                     .msg_iovlen = 1,
	                     .msg_control = control.space,
	                     .msg_controllen = sizeof(control.space)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	CHECK_INT(sendmsg(t.sock[0], &msg, 0), 1);
	(void)close(fd);
}

static int receive_fd(void)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char c;
	struct iovec iov = {.iov_base = &c, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
	                     .msg_iovlen = 1,
	                     .msg_control = control.space,
	                     .msg_controllen = sizeof(control.space)};
	int fd = -1;

	if (recvmsg(t.sock[1], &msg, 0) == 1)
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static void make_mounts(int userns_fd, void *arg)
{
	(void)arg;
	send_fd(detach(userns_fd, t.lower_fd));
	send_fd(detach(userns_fd, t.upper_fd));
}

static int use_overlay(void *arg)
{
	int lower = receive_fd(), upper = receive_fd();
	struct stat st;

	(void)arg;
	/* /tmp is writable for all, so that this user's staging can be mounted on it. */
	if (mount("tmpfs", "/tmp", "tmpfs", 0, "mode=755") < 0 || chdir("/tmp") < 0)
		return 2;
	if (mkdir("l", 0755) < 0 || mkdir("u", 0755) < 0 || mkdir("m", 0755) < 0)
		return 3;
	if (move_mount(lower, "", AT_FDCWD, "l", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    move_mount(upper, "", AT_FDCWD, "u", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return 4;
	if (mount("overlay", "m", "overlay", 0,
	          "userxattr,lowerdir=l,upperdir=u/upper,workdir=u/work") < 0)
		return 5;
	if (stat("m/file", &st) < 0 || st.st_uid != 0)
		return 6;
	if (close(open("m/made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) < 0 ||
	    chown("m/made", 1000, 1000) < 0 || chmod("m/file", 0600) < 0)
		return 7;
	return 0;
}

TEST_FORKED(an_overlay_inside_keeps_the_insides_ids_on_disk, 20)
{
	static const char *const dirs[] = {"lower", "layer", "layer/upper", "layer/work"};
	char path[128];
	struct stat st;
	int top_fd;

	platform_need_root();
	(void)snprintf(t.top, sizeof(t.top), "/tmp/platform.XXXXXX");
	CHECK(mkdtemp(t.top) != NULL);
	top_fd = open(t.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		CHECK_INT(mkdirat(top_fd, dirs[i], 0755), 0);
	(void)close(openat(top_fd, "lower/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	t.lower_fd = openat(top_fd, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t.upper_fd = openat(top_fd, "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, t.sock), 0);
	CHECK_INT(platform_in_userns(CLONE_NEWNS, use_overlay, make_mounts, NULL), 0);
	CHECK_INT(fstatat(top_fd, "layer/upper/made", &st, 0), 0);
	CHECK_INT(st.st_uid, 1000);
	CHECK_INT(fstatat(top_fd, "layer/upper/file", &st, 0), 0);
	CHECK_INT(st.st_uid, 0);
	CHECK_INT(fstatat(top_fd, "lower/file", &st, 0), 0);
	CHECK_INT(st.st_mode & 0777, 0644);

	(void)snprintf(path, sizeof(path), "rm -rf %s", t.top);
	(void)execl("/bin/sh", "sh", "-c", path, NULL);
}
