// SPDX-License-Identifier: Apache-2.0
/*
 * If image and fittings both have a directory, it has the image's contents and our mode and owner.
 * Anything else that both have is ours. So only names that belong to us are here.
 */
#include "engine/template/fittings.h"

#include "engine/template/drivers.h"
#include "engine/template/skeleton.h"

#include <string.h>

#define USER_ID 1000

static const struct {
	const char *path;
	mode_t mode;
	uid_t owner;
} dirs[] = {
	{"dev", 0755, 0},
	{"etc", 0755, 0},
	{"etc/ssl", 0755, 0},
	{"etc/ssl/certs", 0755, 0},
	{"home", 0755, 0},
	{"home/user", 0755, USER_ID},
	{"opt", 0755, 0},
	{"opt/cloche", 0755, 0},
	{"opt/cloche/bin", 0755, 0},
	{"opt/cloche/kernels", 0755, 0},
	{"proc", 0555, 0},
	{"run", 0755, 0},
	{"run/lock", 01777, 0},
	{"sys", 0555, 0},
	{"tmp", 01777, 0},
	{"usr", 0755, 0},
	{"usr/local", 0755, 0},
	{"usr/local/bin", 0755, 0},
};

static const struct {
	const char *path, *text;
} files[] = {
	{"etc/resolv.conf", "nameserver 127.0.0.1\noptions attempts:3 timeout:3\n"},
	/* These three are set anew for each sandbox. */
	{"etc/hostname", "sandbox\n"},
	{"etc/hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"},
	{"etc/machine-id", ""},
};

int fittings_write(int fd, const void *agent, size_t agent_len, const struct buf *drivers,
                   const struct buf *ca)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		r = skeleton_dir(fd, dirs[i].path, dirs[i].mode, dirs[i].owner);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = skeleton_file(fd, files[i].path, 0644, 0, files[i].text, strlen(files[i].text));
	if (r == 0 && ca->len > 0)
		r = skeleton_file(fd, SKELETON_CA, 0644, 0, ca->data, ca->len);
	if (r == 0)
		r = skeleton_file(fd, "opt/cloche/bin/sudo", 0755, 0, agent, agent_len);
	if (r == 0 && symlinkat("/opt/cloche/bin/sudo", fd, "usr/local/bin/sudo") < 0)
		r = -errno;
	return r == 0 ? drivers_write(drivers, fd) : r;
}
