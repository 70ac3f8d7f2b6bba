// SPDX-License-Identifier: Apache-2.0
/*
 * /dev: nodes of the sandbox's own tmpfs, a devpts and shared memory. The nodes are mounted
 * read-only: that protects their inodes, but devices can still be written to.
 */
#include "engine/jail/jail_child.h"
#include "engine/layer/own_tmpfs.h"
#include "engine/linux/kernel_share.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>

#define PTS_OPTIONS "newinstance,ptmxmode=0666,mode=0620,gid=5,max=%" PRIu64

int jail_mount_dev(struct jail *jail, struct err *err)
{
	char pts[80], shm[64];

	if (mount("s/" OWN_TMPFS_DEV, "r/dev", NULL, MS_BIND, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount /dev");
	(void)snprintf(pts, sizeof(pts), PTS_OPTIONS, jail->shares[SHARE_TERMINALS]);
	if (mount("devpts", "r/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, pts) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount devpts");
	/* Files in it count as memory of the process that wrote them; half of the limit leaves room
	 * for others. */
	(void)snprintf(shm, sizeof(shm), "mode=1777,nr_inodes=65536,size=%" PRIu64,
	               jail->spec->limits.memory_bytes / 2);
	if (mount("tmpfs", "r/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, shm) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount /dev/shm");
	return 0;
}
