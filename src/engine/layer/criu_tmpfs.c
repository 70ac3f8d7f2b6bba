// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/criu_tmpfs.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

int criu_tmpfs_open(struct criu_tmpfs *s, const char *run_dir, struct err *err)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	*s = (struct criu_tmpfs){.fd = -1, .path = xasprintf("%s/stage", run_dir)};
	if (mkdir(s->path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", s->path);
	/* Removes one that a killed broker left behind. */
	while (umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		;
	if (mount("tmpfs", s->path, "tmpfs", flags, "mode=755,size=64k,nr_inodes=64") == 0)
		s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->fd < 0 ? err_set(err, ERR_UNSUPPORTED, errno, "cannot mount a tmpfs for CRIU")
	                 : 0;
}

void criu_tmpfs_close(struct criu_tmpfs *s)
{
	if (!s->path)
		return;
	if (s->fd >= 0)
		(void)close(take_fd(&s->fd));
	(void)umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW);
	(void)rmdir(s->path);
	free(take_ptr(s->path));
}
