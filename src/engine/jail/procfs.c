// SPDX-License-Identifier: Apache-2.0
/*
 * /proc and /sys. A fresh proc of the sandbox's own pid namespace, of which
 *	- files and directories that tell of the host or of other sandboxes are covered,
 *	- files that tell of the machine are covered by ones that tell of the sandbox's share,
 *	- /proc/sys is read-only.
 * Covers are files of the share: a tmpfs that belongs to the host's user namespace and is mounted
 * read-only here. After mounting, each cover is looked at from the front: what is seen must be the
 * very inode that was meant. A name that this kernel does not have needs no cover.
 */
#include "engine/jail/child.h"
#include "engine/jail/share.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* clang-format off */
static const char *const hidden_files[] = {
	"buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "crypto", "devices", "diskstats", "dma", "execdomains",
	"fb", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup",
	"kpagecount", "kpageflags", "latency_stats", "locks", "mdstat", "misc", "modules", "mtrr", "pagetypeinfo",
	"partitions", "sched_debug", "schedstat", "slabinfo", "softirqs", "sysrq-trigger", "timer_list",
	"version_signature", "vmallocinfo", "vmcore", "vmstat", "zoneinfo",
};
static const char *const hidden_dirs[] = {
	"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "pressure", "scsi", "tty",
};
/* clang-format on */

/* Puts "q/COVER" over "r/PLACE". */
static int cover(const char *what, const char *place, struct err *err)
{
	char from[64], to[64];
	struct stat meant, seen;

	(void)snprintf(from, sizeof(from), "q/%s", what);
	(void)snprintf(to, sizeof(to), "r/%s", place);
	if (stat(from, &meant) < 0)
		return err_set(err, ERR_INTERNAL, errno, "the share has no '%s'", what);
	if (mount(from, to, NULL, MS_BIND, NULL) < 0) {
		if (errno == ENOENT)
			return 0;
		return err_set(err, ERR_INTERNAL, errno, "cannot cover /%s", place);
	}
	if (lstat(to, &seen) < 0 || seen.st_dev != meant.st_dev || seen.st_ino != meant.st_ino)
		return err_set(err, ERR_INTERNAL, EXDEV, "the cover of /%s does not hold", place);
	return 0;
}

static int cover_proc(const char *what, const char *name, struct err *err)
{
	char place[48];

	(void)snprintf(place, sizeof(place), "proc/%s", name);
	return cover(what, place, err);
}

static int set_read_only(const char *path)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
	                                      MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};

	return mount_setattr(AT_FDCWD, path, 0, &attr, sizeof(attr));
}

int jail_mount_proc(struct jail *jail, struct err *err)
{
	int r = 0;

	(void)jail;
	/* q is the share again, read-only: binds of its files inherit that. */
	if (mkdir("q", 0700) < 0 || mount("p", "q", NULL, MS_BIND, NULL) < 0 ||
	    set_read_only("q") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the share read-only");
	if (mount("proc", "r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount proc");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(hidden_files); i++)
		r = cover_proc(SHARE_EMPTY_FILE, hidden_files[i], err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(hidden_dirs); i++)
		r = cover_proc(SHARE_EMPTY_DIR, hidden_dirs[i], err);
	for (size_t i = 0; r == 0 && i < share_proc_files_len; i++)
		r = cover_proc(share_proc_files[i], share_proc_files[i], err);
	if (r < 0)
		return r;
	if (mount("r/proc/sys", "r/proc/sys", NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    set_read_only("r/proc/sys") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make /proc/sys read-only");
	return 0;
}

int jail_mount_sys(struct jail *jail, struct err *err)
{
	(void)jail;
	return cover(SHARE_SYS_DIR, "sys", err);
}
