// SPDX-License-Identifier: Apache-2.0
/*
 * /proc and /sys. A fresh proc of the sandbox's own pid namespace, in which
 *	- files and directories that tell of the host or of other sandboxes are covered,
 *	- files that tell of the machine are covered by ones that tell of the sandbox's share,
 *	- /proc/sys is read-only, and some files in it are covered by ones of the sandbox's own.
 * Covers are files of the sandbox's own tmpfs (own_tmpfs.h), which belongs to the host's user
 * namespace and is mounted read-only here. After mounting, each cover is checked: its path must
 * lead to exactly the inode of the cover. A name that this kernel does not have needs no cover, nor
 * does a file that only the host's root may open: nobody inside is its owner or can act as the
 * owner.
 */
#include "engine/guest/machine_view.h"
#include "engine/jail/jail_child.h"
#include "engine/layer/own_tmpfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define OVERFLOW_ID 65534 /* how an id without a place in our user namespace is seen */

/* clang-format off */
static const char *const hidden_files[] = {
	"buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "crypto", "devices", "diskstats", "dma", "execdomains",
	"fb", "interrupts", "iomem", "ioports", "kallsyms", "key-users", "keys", "latency_stats", "locks", "mdstat", "misc",
	"modules", "mtrr", "partitions", "sched_debug", "schedstat", "softirqs", "version_signature", "vmstat", "zoneinfo",
};
static const char *const hidden_dirs[] = {
	"acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "pressure", "scsi", "tty",
};
/* Only the host's root may open these, unless the administrator has changed that. */
static const char *const closed_files[] = {
	"kcore", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "pagetypeinfo", "slabinfo", "sysrq-trigger",
	"timer_list", "vmallocinfo", "vmcore",
};
/* clang-format on */

/* Puts COVER over "r/proc/NAME"; meant is the cover's own stat. */
static int put_cover(const char *cover, const struct stat *meant, const char *name, struct err *err)
{
	char place[48];
	struct stat seen;

	(void)snprintf(place, sizeof(place), "r/proc/%s", name);
	if (mount(cover, place, NULL, MS_BIND, NULL) < 0) {
		if (errno == ENOENT)
			return 0;
		return err_set(err, ERR_INTERNAL, errno, "cannot cover /proc/%s", name);
	}
	if (lstat(place, &seen) < 0 || seen.st_dev != meant->st_dev || seen.st_ino != meant->st_ino)
		return err_set(err, ERR_INTERNAL, EXDEV, "the cover of /proc/%s does not hold",
		               name);
	return 0;
}

static int put_covers(const char *cover, const char *const *names, size_t n, struct err *err)
{
	struct stat meant;

	if (stat(cover, &meant) < 0)
		return err_set(err, ERR_INTERNAL, errno, "there is no '%s'", cover);
	for (size_t i = 0; i < n; i++) {
		int r = put_cover(cover, &meant, names[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int put_own(const char *name, struct err *err)
{
	char cover[48];

	(void)snprintf(cover, sizeof(cover), "q/%s", name);
	return put_covers(cover, &name, 1, err);
}

/* Owner and group are not mapped here, so the bits for others decide, even for root. */
static bool is_closed(const char *name)
{
	char place[48];
	struct stat st;

	(void)snprintf(place, sizeof(place), "r/proc/%s", name);
	if (lstat(place, &st) < 0)
		return errno == ENOENT;
	return S_ISREG(st.st_mode) && (st.st_mode & S_IRWXO) == 0 && st.st_uid == OVERFLOW_ID &&
	       st.st_gid == OVERFLOW_ID;
}

static int set_read_only(const char *path, uint64_t more)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
	                                      MOUNT_ATTR_NOEXEC | more};

	return mount_setattr(AT_FDCWD, path, 0, &attr, sizeof(attr));
}

int jail_bind_machine_view(struct err *err)
{
	/* Each is a bind of the view: binds of its contents inherit the flags. */
	static const struct {
		const char *path;
		uint64_t more;
	} binds[] = {{"q", MOUNT_ATTR_NODEV}, {"s", 0}};

	for (size_t i = 0; i < ARRAY_SIZE(binds); i++)
		if (mkdir(binds[i].path, 0700) < 0 ||
		    mount("p", binds[i].path, NULL, MS_BIND, NULL) < 0 ||
		    set_read_only(binds[i].path, binds[i].more) < 0)
			return err_set(err, ERR_INTERNAL, errno,
			               "cannot mount the machine view read-only");
	return 0;
}

/* Mounted over the bind of /proc/sys, not below it: CRIU cannot save a hidden mount. */
static int put_settings(struct err *err)
{
	static const char *const counts = "sys/fs/quota"; /* of all disks, and none is a limit */
	int r = put_covers("q/" OWN_TMPFS_EMPTY_DIR, &counts, 1, err);

	for (size_t i = 0; r == 0 && i < machine_view_settings_len; i++) {
		char cover[48];

		(void)snprintf(cover, sizeof(cover), "q/%s", machine_view_settings[i].name);
		r = put_covers(cover, &machine_view_settings[i].place, 1, err);
	}
	return r;
}

int jail_mount_proc(struct jail *jail, struct err *err)
{
	int r = jail_bind_machine_view(err);

	(void)jail;
	if (r < 0)
		return r;
	if (mount("proc", "r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount proc");
	r = put_covers("s/" OWN_TMPFS_EMPTY_FILE, hidden_files, ARRAY_SIZE(hidden_files), err);
	if (r == 0)
		r = put_covers("s/" OWN_TMPFS_EMPTY_DIR, hidden_dirs, ARRAY_SIZE(hidden_dirs), err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(closed_files); i++)
		if (!is_closed(closed_files[i]))
			r = put_covers("s/" OWN_TMPFS_EMPTY_FILE, &closed_files[i], 1, err);
	for (size_t i = 0; r == 0 && i < machine_view_proc_files_len; i++)
		r = put_own(machine_view_proc_files[i], err);
	if (r < 0)
		return r;
	if (mount("r/proc/sys", "r/proc/sys", NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    set_read_only("r/proc/sys", MOUNT_ATTR_NODEV) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make /proc/sys read-only");
	return put_settings(err);
}

int jail_mount_sys(struct jail *jail, struct err *err)
{
	(void)jail;
	if (mount("q/" MACHINE_VIEW_SYS_DIR, "r/sys", NULL, MS_BIND, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount /sys");
	return 0;
}
