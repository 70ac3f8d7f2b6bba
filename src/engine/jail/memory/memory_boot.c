// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/memory/memory_boot.h"

#include "base/fd.h"
#include "engine/guest/machine_view.h"
#include "engine/jail/memory/memory_image.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct boot {
	char sandbox[sizeof((struct guest_spec){0}.id)];
	char id[MACHINE_VIEW_BOOT_ID_SIZE];
};

/* Nobody inside can mount or write there, and only that sandbox is shown the text again. */
int memory_boot_note(int dir_fd, const struct guest *g)
{
	char path[64], id[MACHINE_VIEW_BOOT_ID_SIZE + 1] = "";
	struct boot boot = {0};
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/root/proc/sys/kernel/random/boot_id",
	               (int)g->pid);
	r = fd_read_file(AT_FDCWD, path, id, sizeof(id));
	if (r < 0)
		return r;
	if (r != MACHINE_VIEW_BOOT_ID_SIZE - 1)
		return -EPROTO;
	id[MACHINE_VIEW_BOOT_ID_SIZE - 1] = '\n';
	memcpy(boot.sandbox, g->spec.id, sizeof(boot.sandbox));
	memcpy(boot.id, id, sizeof(boot.id));
	return fd_replace_file(dir_fd, MEMORY_BOOT, &boot, sizeof(boot), 0600, /* sync= */ false);
}

int memory_boot_resume(int dir_fd, const struct guest *g)
{
	auto_fd int fd = openat(dir_fd, MEMORY_BOOT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct boot boot;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	r = fd_read_all(fd, &boot, sizeof(boot));
	if (r < 0 || memcmp(boot.sandbox, g->spec.id, sizeof(boot.sandbox)) != 0)
		return r;
	return machine_view_set_boot_id(g->machine_view_fd, boot.id);
}
