// SPDX-License-Identifier: Apache-2.0
/*
 * A record outlives the program that wrote it: after an upgrade the new broker must read the old
 * one's records to take over its guests. So the bytes are not a dump of the struct, but its fields
 * in the order of a table, which says since which version each field exists. A record of version N
 * has all rows whose `since` is N or less; fields that an older record lacks are zero.
 *
 * To add a field: add a row with a version one higher than GUEST_RECORD_VERSION; raise that; keep a
 * record of the new version in tests/upgrade/records (test-record says how). Zero must mean "as
 * before". Rows are never removed and never change their size.
 */
#include "engine/guest/guest_record.h"

#include "base/fd.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#define RECORD_MAGIC 0x636c6a72U /* "cljr" */
#define GUEST_FILE   "record"
#define SAVER_FILE   "saver"

#define FIELD(name, since_)                                                                        \
	{                                                                                          \
		offsetof(struct guest_record, name), sizeof(((struct guest_record *)NULL)->name),  \
			since_                                                                     \
	}

/* clang-format off */
static const struct {
	size_t offset, size;
	uint32_t since;
} fields[] = {
	FIELD(magic, 4),
	FIELD(version, 4),
	FIELD(spec.id, 4),
	FIELD(spec.hostname, 4),
	FIELD(spec.slot, 4),
	FIELD(spec.is_resumed, 4),
	FIELD(spec.shows, 4),
	FIELD(spec.engine, 4),
	FIELD(spec.is_kvm, 4),
	FIELD(spec.with_memory, 4),
	FIELD(spec.image, 4),
	FIELD(spec.limits.memory_bytes, 4),
	FIELD(spec.limits.disk_bytes, 4),
	FIELD(spec.limits.inodes, 4),
	FIELD(spec.limits.cpu_milli, 4),
	FIELD(spec.limits.pids, 4),
	FIELD(spec.limits.open_files, 4),
	FIELD(spec.limits.reserved, 4),
	FIELD(spec.keeper, 4),
	FIELD(spec.snapshot, 4),
	FIELD(spec.shown, 5),
	FIELD(spec.volumes, 6),
	FIELD(pid, 4),
	FIELD(reserved, 4),
	FIELD(start_ticks, 4),
	FIELD(boot_id, 4),
};
/* clang-format on */

struct record_head { /* the first two fields, the same in every version */
	uint32_t magic, version;
};

size_t guest_record_size(uint32_t version)
{
	size_t size = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].since <= version)
			size += fields[i].size;
	return size;
}

size_t guest_record_to_bytes(const struct guest_record *record,
                             unsigned char bytes[GUEST_RECORD_SIZE_MAX])
{
	size_t at = 0;

	assert(guest_record_size(GUEST_RECORD_VERSION) <= GUEST_RECORD_SIZE_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		memcpy(bytes + at, (const char *)record + fields[i].offset, fields[i].size);
		at += fields[i].size;
	}
	return at;
}

int guest_record_from_bytes(const unsigned char *bytes, size_t len, struct guest_record *ret)
{
	struct record_head head;
	size_t at = 0;

	memset(ret, 0, sizeof(*ret));
	if (len < sizeof(head))
		return -EPROTO;
	memcpy(&head, bytes, sizeof(head));
	if (head.magic != RECORD_MAGIC)
		return -EPROTO;
	ret->version = head.version;
	if (head.version < GUEST_RECORD_OLDEST || head.version > GUEST_RECORD_VERSION)
		return -EPROTONOSUPPORT;
	if (len != guest_record_size(head.version)) /* early versions had several layouts */
		return head.version < GUEST_RECORD_VERSION ? -EPROTONOSUPPORT : -EPROTO;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (fields[i].since > head.version)
			continue;
		memcpy((char *)ret + fields[i].offset, bytes + at, fields[i].size);
		at += fields[i].size;
	}
	return 0;
}

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
	struct guest_record record = {
		.magic = RECORD_MAGIC, .version = GUEST_RECORD_VERSION, .spec = *spec, .pid = pid};
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];
	int r = read_start_ticks(pid, &record.start_ticks);

	if (r == 0)
		r = read_boot_id(record.boot_id);
	/* No sync: after a crash of the host there is no process left to adopt. */
	if (r == 0)
		r = fd_replace_file(dir_fd, name, bytes, guest_record_to_bytes(&record, bytes),
		                    0600,
		                    /* sync= */ false);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot write the sandbox's record") : 0;
}

int guest_record_write(int dir_fd, const struct guest_spec *spec, pid_t pid, struct err *err)
{
	return write_as(dir_fd, GUEST_FILE, spec, pid, err);
}

static int read_as(int dir_fd, const char *name, const char *id, struct guest_record *ret)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];
	ssize_t n = fd < 0 ? -errno : pread(fd, bytes, sizeof(bytes), 0);
	int r;

	memset(ret, 0, sizeof(*ret));
	if (n < 0)
		return n == -ENOENT ? -ENOENT : -EPROTO;
	r = guest_record_from_bytes(bytes, (size_t)n, ret);
	if (r < 0)
		return r;
	if (ret->pid <= 1 || strnlen(ret->spec.id, sizeof(ret->spec.id)) == sizeof(ret->spec.id) ||
	    strcmp(ret->spec.id, id) != 0)
		return -EPROTO;
	return 0;
}

int guest_record_read(int dir_fd, const char *id, struct guest_record *ret)
{
	return read_as(dir_fd, GUEST_FILE, id, ret);
}

int guest_record_write_saver(int dir_fd, const struct guest_spec *spec, pid_t pid, struct err *err)
{
	return write_as(dir_fd, SAVER_FILE, spec, pid, err);
}

int guest_record_open_saver(int dir_fd, const char *id, int *ret_pidfd)
{
	struct guest_record record;
	int r = read_as(dir_fd, SAVER_FILE, id, &record);

	return r < 0 ? r : guest_record_open_process(&record, ret_pidfd);
}

int guest_record_open_process(const struct guest_record *record, int *ret_pidfd)
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
	/* Read only now: the pidfd pins the process, so this is about that process, or it is
	 * dead. */
	r = read_start_ticks(record->pid, &ticks);
	if (r < 0 || ticks != record->start_ticks)
		return -ESRCH;
	*ret_pidfd = take_fd(&fd);
	return 0;
}
