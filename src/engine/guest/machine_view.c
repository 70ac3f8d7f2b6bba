// SPDX-License-Identifier: Apache-2.0
#include "engine/guest/machine_view.h"

#include "base/buf.h"
#include "base/fd.h"
#include "engine/layer/own_tmpfs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define TEXT_MAX (1 << 20)

const char *const machine_view_proc_files[] = {"cpuinfo", "loadavg", "meminfo", "stat", "swaps"};
const size_t machine_view_proc_files_len = ARRAY_SIZE(machine_view_proc_files);

#define BOOT_ID "boot_id"

/* clang-format off */
const struct machine_view_setting machine_view_settings[] = {
	{BOOT_ID,        "sys/kernel/random/boot_id", NULL},
	{"file-nr",      "sys/fs/file-nr",            "0\t0\t9223372036854775807\n"},
	{"inode-nr",     "sys/fs/inode-nr",           "0\t0\n"},
	{"inode-state",  "sys/fs/inode-state",        "0\t0\t0\t0\t0\t0\t0\n"},
	{"dentry-state", "sys/fs/dentry-state",       "0\t0\t45\t0\t0\t0\n"},
	{"aio-nr",       "sys/fs/aio-nr",             "0\n"},
	{"pty-nr",       "sys/kernel/pty/nr",         "0\n"},
};
/* clang-format on */
const size_t machine_view_settings_len = ARRAY_SIZE(machine_view_settings);

static unsigned count_cpus(const struct guest_limits *limits)
{
	cpu_set_t mine;
	unsigned most = 1, n = (limits->cpu_milli + 999) / 1000;

	if (sched_getaffinity(0, sizeof(mine), &mine) == 0)
		most = (unsigned)CPU_COUNT(&mine);
	return MAX(1U, MIN(n, most));
}

void machine_view_pick_cpus(uint32_t slot, const struct guest_limits *limits, cpu_set_t *ret)
{
	unsigned n = count_cpus(limits), most, skip;
	cpu_set_t mine;

	CPU_ZERO(ret);
	if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
		CPU_SET(0, &mine);
	most = (unsigned)CPU_COUNT(&mine);
	skip = (unsigned)((uint64_t)slot * n % most);
	for (unsigned cpu = 0; n > 0; cpu = (cpu + 1) % CPU_SETSIZE) {
		if (!CPU_ISSET(cpu, &mine))
			continue;
		if (skip > 0) {
			skip--;
			continue;
		}
		CPU_SET(cpu, ret);
		n--;
	}
}

static int write_cpuinfo(struct buf *out, unsigned n)
{
	FILE *host = fopen("/proc/cpuinfo", "re");
	unsigned seen = 0;
	char line[8192];
	int r = 0;

	/* The first n stanzas, numbered from 0. */
	while (host && r == 0 && fgets(line, sizeof(line), host)) {
		if (strncmp(line, "processor", 9) == 0) {
			if (seen == n)
				break;
			r = buf_printf(out, "processor\t: %u\n", seen++);
		} else {
			r = buf_append_str(out, line);
		}
	}
	if (host)
		(void)fclose(host);
	return r;
}

static int write_loadavg(struct buf *out, unsigned n)
{
	(void)n;
	return buf_append_str(out, "0.00 0.00 0.00 1/1 1\n");
}

static int write_meminfo(struct buf *out, uint64_t memory_bytes)
{
	static const char *const full[] = {"MemTotal:", "MemFree:", "MemAvailable:"};
	static const char *const none[] = {
		"Buffers:",  "Cached:", "SwapCached:", "Active:", "Inactive:",    "SwapTotal:",
		"SwapFree:", "Dirty:",  "Shmem:",      "Slab:",   "SReclaimable:"};
	uint64_t kib = memory_bytes / 1024;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(full); i++)
		r = buf_printf(out, "%-16s%8" PRIu64 " kB\n", full[i], kib);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(none); i++)
		r = buf_printf(out, "%-16s%8d kB\n", none[i], 0);
	return r;
}

/* ps computes the start time of a process from btime, so that is the host's. */
static int write_stat(struct buf *out, unsigned n)
{
	FILE *host = fopen("/proc/stat", "re");
	char line[256];
	int r = buf_append_str(out, "cpu  0 0 0 0 0 0 0 0 0 0\n");

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = buf_printf(out, "cpu%u 0 0 0 0 0 0 0 0 0 0\n", i);
	if (r == 0)
		r = buf_append_str(out, "intr 0\nctxt 0\n");
	while (host && r == 0 && fgets(line, sizeof(line), host))
		if (strncmp(line, "btime ", 6) == 0)
			r = buf_append_str(out, line);
	if (host)
		(void)fclose(host);
	if (r == 0)
		r = buf_append_str(out, "processes 0\nprocs_running 1\nprocs_blocked 0\n");
	return r;
}

static int write_swaps(struct buf *out, unsigned n)
{
	(void)n;
	return buf_append_str(out, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
}

static int write_cpu_list(struct buf *out, unsigned n)
{
	return n == 1 ? buf_append_str(out, "0\n") : buf_printf(out, "0-%u\n", n - 1);
}

#define SYS_CPU MACHINE_VIEW_SYS_DIR "/devices/system/cpu"

static const char *const dirs[] = {
	MACHINE_VIEW_SYS_DIR,
	MACHINE_VIEW_SYS_DIR "/devices",
	MACHINE_VIEW_SYS_DIR "/devices/system",
	SYS_CPU,
	MACHINE_VIEW_SYS_DIR "/fs",
	MACHINE_VIEW_SYS_DIR "/kernel",
};

/* Texts that depend only on the number of CPUs are cached: reading the host's files costs more than
 * everything else here. */
static struct {
	const char *path;
	int (*write)(struct buf *out, unsigned n_cpus);
	unsigned n_cpus; /* text is for so many; 0: there is none */
	struct buf text;
} files[] = {
	{"cpuinfo", write_cpuinfo},
	{"loadavg", write_loadavg},
	{"stat", write_stat},
	{"swaps", write_swaps},
	{SYS_CPU "/online", write_cpu_list},
	{SYS_CPU "/possible", write_cpu_list},
	{SYS_CPU "/present", write_cpu_list},
};

/* Written in place, because the inode is mounted inside, not the name. */
static int put_text(int fd, const char *path, const char *text, size_t len)
{
	auto_fd int file = openat(fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);

	return file < 0 ? -errno : fd_write_all(file, text, len);
}

static int put_file(int fd, const char *path, const struct buf *text)
{
	return put_text(fd, path, text->data, text->len);
}

static int put_kept_file(int fd, size_t i, unsigned n_cpus)
{
	int r = 0;

	if (files[i].n_cpus != n_cpus) {
		files[i].n_cpus = 0;
		buf_done(&files[i].text);
		buf_init(&files[i].text, TEXT_MAX);
		r = files[i].write(&files[i].text, n_cpus);
		if (r == 0)
			files[i].n_cpus = n_cpus;
	}
	return r < 0 ? r : put_file(fd, files[i].path, &files[i].text);
}

static int put_meminfo(int fd, uint64_t memory_bytes)
{
	auto_call(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	int r = write_meminfo(&text, memory_bytes);

	return r < 0 ? r : put_file(fd, "meminfo", &text);
}

/* Some programs count the directories cpu0, cpu1, …. */
static int make_cpu_dirs(int fd, unsigned n)
{
	for (unsigned i = 0; i < CPU_SETSIZE; i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), SYS_CPU "/cpu%u", i);
		if (i < n) {
			if (mkdirat(fd, path, 0755) < 0 && errno != EEXIST)
				return -errno;
		} else if (unlinkat(fd, path, AT_REMOVEDIR) < 0) {
			break;
		}
	}
	return 0;
}

int machine_view_update(int fd, const struct guest_limits *limits, struct err *err)
{
	unsigned n_cpus = count_cpus(limits);
	int r = make_cpu_dirs(fd, n_cpus);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = put_kept_file(fd, i, n_cpus);
	if (r == 0)
		r = put_meminfo(fd, limits->memory_bytes);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot tell the sandbox its share") : 0;
}

int machine_view_set_boot_id(int fd, const char id[MACHINE_VIEW_BOOT_ID_SIZE])
{
	return put_text(fd, BOOT_ID, id, MACHINE_VIEW_BOOT_ID_SIZE);
}

static int put_settings(int fd)
{
	char id[MACHINE_VIEW_BOOT_ID_SIZE + 1];
	int r = fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/uuid", id, sizeof(id));

	if (r < 0)
		return r;
	id[MACHINE_VIEW_BOOT_ID_SIZE - 1] = '\n';
	r = machine_view_set_boot_id(fd, id);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(machine_view_settings); i++)
		if (machine_view_settings[i].text)
			r = put_text(fd, machine_view_settings[i].name,
			             machine_view_settings[i].text,
			             strlen(machine_view_settings[i].text));
	return r;
}

int machine_view_make(const struct guest_limits *limits, int *ret_fd, struct err *err)
{
	auto_fd int fd = -1;
	int r = own_tmpfs_make(&fd, err);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(fd, dirs[i], 0755) < 0)
			r = err_set(err, ERR_INTERNAL, errno, "cannot make the sandbox's share");
	if (r == 0 && put_settings(fd) < 0)
		r = err_set(err, ERR_INTERNAL, EIO, "cannot make the sandbox's settings");
	if (r == 0)
		r = machine_view_update(fd, limits, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}
