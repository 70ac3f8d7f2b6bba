// SPDX-License-Identifier: Apache-2.0
#include "engine/jail/record.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#define RECORD_MAGIC   0x636c6a72U /* "cljr" */
#define RECORD_VERSION 6
#define GUEST_FILE     "record"
#define SAVER_FILE     "saver"

static int read_boot_id(char boot_id[40])
{
	int r = fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot_id, 40);

	return r < 0 ? r : 0;
}

static int read_start_ticks(pid_t pid, uint64_t *ret)
{
	char path[32], text[1024];
	const char *p;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	r = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return -ESRCH;
	p = strrchr(text, ')'); /* the name before it may hold anything */
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -ESRCH;
	*ret = strtoull(p, NULL, 10);
	return 0;
}

static int write_as(int dir_fd, const char *name, const struct guest_spec *spec, pid_t pid,
                    struct err *err)
{
	struct record record = {
		.magic = RECORD_MAGIC, .version = RECORD_VERSION, .spec = *spec, .pid = pid};
	int r = read_start_ticks(pid, &record.start_ticks);

	if (r == 0)
		r = read_boot_id(record.boot_id);
	/* No sync: after a crash of the host there is no process to adopt. */
	if (r == 0)
		r = fd_replace_file(dir_fd, name, &record, sizeof(record), 0600,
		                    /* sync= */ false);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write the sandbox's record") : 0;
}

int record_write(int dir_fd, const struct guest_spec *spec, pid_t pid, struct err *err)
{
	return write_as(dir_fd, GUEST_FILE, spec, pid, err);
}

static int read_as(int dir_fd, const char *name, const char *id, struct record *ret)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, ret, sizeof(*ret));

	if (r < 0)
		return r == -ENOENT ? r : -EPROTO;
	if (ret->magic == RECORD_MAGIC && ret->version != RECORD_VERSION)
		return -EPROTONOSUPPORT;
	if (ret->magic != RECORD_MAGIC || ret->pid <= 1 ||
	    strnlen(ret->spec.id, sizeof(ret->spec.id)) == sizeof(ret->spec.id) ||
	    strcmp(ret->spec.id, id) != 0)
		return -EPROTO;
	return 0;
}

int record_read(int dir_fd, const char *id, struct record *ret)
{
	return read_as(dir_fd, GUEST_FILE, id, ret);
}

int record_write_saver(int dir_fd, const struct guest_spec *spec, pid_t pid, struct err *err)
{
	return write_as(dir_fd, SAVER_FILE, spec, pid, err);
}

int record_open_saver(int dir_fd, const char *id, int *ret_pidfd)
{
	struct record record;
	int r = read_as(dir_fd, SAVER_FILE, id, &record);

	return r < 0 ? r : record_open_process(&record, ret_pidfd);
}

int record_open_process(const struct record *record, int *ret_pidfd)
{
	auto_fd int fd = -1;
	char boot_id[40];
	uint64_t ticks;
	int r = read_boot_id(boot_id);

	if (r < 0 || strncmp(boot_id, record->boot_id, sizeof(boot_id)) != 0)
		return -ESRCH;
	fd = pidfd_open(record->pid, 0);
	if (fd < 0)
		return -ESRCH;
	/* Only now: the pidfd holds the process, so what is read is about it or it is dead. */
	r = read_start_ticks(record->pid, &ticks);
	if (r < 0 || ticks != record->start_ticks)
		return -ESRCH;
	*ret_pidfd = take_fd(&fd);
	return 0;
}
