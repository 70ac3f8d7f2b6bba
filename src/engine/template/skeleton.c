// SPDX-License-Identifier: Apache-2.0
#include "engine/template/skeleton.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int skeleton_dir(int fd, const char *path, mode_t mode, uid_t owner)
{
	if (mkdirat(fd, path, 0700) < 0 ||
	    fchownat(fd, path, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(fd, path, mode, 0) < 0) /* whatever the umask is */
		return -errno;
	return 0;
}

int skeleton_file(int fd, const char *path, mode_t mode, uid_t owner, const void *data, size_t len)
{
	auto_fd int file = openat(fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (file < 0)
		return -errno;
	r = fd_write_all(file, data, len);
	if (r == 0 && (fchown(file, owner, owner) < 0 || fchmod(file, mode) < 0))
		r = -errno;
	return r;
}

static int read_shipped(struct buf *out)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	int r = 0;

	if (dir_open(&dir, AT_FDCWD, "/usr/share/ca-certificates/mozilla") < 0)
		return 0;
	while (r == 0 && (name = dir_next(&dir))) {
		size_t len = strlen(name);
		char text[16384];

		if (len > 4 && strcmp(name + len - 4, ".crt") == 0 &&
		    fd_read_file(dir.fd, name, text, sizeof(text)) > 0)
			r = buf_printf(out, "%s\n", text);
	}
	return r < 0 ? r : dir.error;
}

int skeleton_read_ca(struct buf *out)
{
	if (buf_append_file(out, "/" SKELETON_CA) == 0 && out->len > 0)
		return 0;
	buf_truncate(out, 0);
	return read_shipped(out);
}
