// SPDX-License-Identifier: Apache-2.0
/*
 * The root, made of overlays over detached, idmapped mounts. For an image it is one overlay, with
 * the fittings over the image; for `host` two, `/` over the skeleton and `/usr` over the host's
 * own. Everything has a one-letter name relative to the staging tmpfs, because an overlay's options
 * are in mountinfo, which all inside can read, and no host path may be there.
 */
#include "engine/jail/jail_child.h"
#include "engine/linux/syscalls.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

/*
 * userxattr: overlay's own marks are user.* attributes, which is what a user namespace may set.
 * volatile: no fsync of a guest, nor the end of its mount, makes the layers' filesystem write a
 * transaction, which every sandbox on the host would wait for. A layer does not outlive a crash of
 * the host, so nothing is lost. The kernel marks the work directory and mounts it only once. A kept
 * layer must survive crashes and be mounted again, so it is not volatile: there fsync works.
 */
#define ROOT_OPTIONS  "lowerdir=t/root,upperdir=l/root,workdir=l/root.work"
#define USR_OPTIONS   "lowerdir=t/usr:b,upperdir=l/usr,workdir=l/usr.work"
#define SHOWN         "template" /* where an image is put that is only shown */
#define SHOTS         "shown"    /* where snapshots are put */
#define OVER_OPTIONS  "lowerdir=i,upperdir=l/over,workdir=l/over.work"
#define IMAGE_OPTIONS "lowerdir=t/fit:b,upperdir=l/root,workdir=l/root.work"

static int mount_overlay(const struct jail *jail, const char *at, const char *dirs)
{
	char options[128];

	(void)snprintf(options, sizeof(options), "userxattr,%s%s",
	               jail->spec->keeper ? "" : "volatile,", dirs);
	return mount("overlay", at, "overlay", MS_NOSUID | MS_NODEV, options);
}

static const char *const places[] = {
	[JAIL_MOUNT_TEMPLATE] = "t",
	[JAIL_MOUNT_BASE] = "b",
	[JAIL_MOUNT_LAYER] = "l",
	[JAIL_MOUNT_MACHINE_VIEW] = "p",
};
static_assert(ARRAY_SIZE(places) == JAIL_MOUNT_COUNT, "a mount has no place");

/* Mounts an image that is only shown: read-only, and in no search path. */
static int mount_shown(struct jail *jail, struct err *err)
{
	if (mkdir("r/" SHOWN, 0755) < 0 ||
	    move_mount(jail->shown_fd, "", AT_FDCWD, "r/" SHOWN, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot attach the image");
	(void)close(take_fd(&jail->shown_fd));
	return 0;
}

/* Mounts an image that is shown so that it can be changed: what is written lies beside what is
 * written to the root, and is the upper half of a new image. */
static int mount_writable(struct jail *jail, struct err *err)
{
	static const char *const dirs[] = {"i", "l/over", "l/over.work"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", dirs[i]);
	if (mkdir("r/" SHOWN, 0755) < 0 ||
	    move_mount(jail->shown_fd, "", AT_FDCWD, "i", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    mount_overlay(jail, "r/" SHOWN, OVER_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the image");
	(void)close(take_fd(&jail->shown_fd));
	return 0;
}

static int make_place(const char *path, struct err *err)
{
	return mkdir(path, 0755) < 0
	               ? err_set(err, ERR_INTERNAL, errno, "cannot make a place for a snapshot")
	               : 0;
}

/* Binds what was written over the template, as it is on disk. */
static int bind_upper(const char *layer, const char *tree, const char *name, struct err *err)
{
	char from[32], to[32];
	int r;

	(void)snprintf(from, sizeof(from), "%s/%s", layer, tree);
	(void)snprintf(to, sizeof(to), "r/" SHOTS "/%s.%s", name, tree);
	r = make_place(to, err);
	if (r == 0 && mount(from, to, NULL, MS_BIND, NULL) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot attach what a snapshot has written");
	return r;
}

static int mount_over(const char *to, const char *dirs, const char *layer, struct err *err)
{
	const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
	char options[96];

	(void)snprintf(options, sizeof(options), "userxattr,lowerdir=%s/%s", layer, dirs);
	if (mount("overlay", to, "overlay", flags, options) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount a snapshot's root");
	return 0;
}

/*
 * Shows a snapshot as three directories: /shown/N is its root as its sandbox would see it; N.root
 * and, for `host`, N.usr are the overlay's upper directories. To compare two snapshots of one
 * template, only those need to be read.
 */
static int mount_disk_snapshot(struct jail *jail, size_t i, struct err *err)
{
	const bool is_host = jail->shown_fd < 0;
	const char layer[] = {'x', (char)('0' + i), '\0'}, name[] = {(char)('0' + i), '\0'};
	char root[32], usr[40];
	int r;

	(void)snprintf(root, sizeof(root), "r/" SHOTS "/%s", name);
	(void)snprintf(usr, sizeof(usr), "%s/usr", root);
	if (mkdir(layer, 0700) < 0 || move_mount(jail->disk_snapshot_fds[i], "", AT_FDCWD, layer,
	                                         MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot attach a snapshot");
	(void)close(take_fd(&jail->disk_snapshot_fds[i]));
	r = make_place(root, err);
	if (r == 0)
		r = bind_upper(layer, "root", name, err);
	if (r == 0)
		r = mount_over(root, is_host ? "root:t/root" : "root:t/fit:i", layer, err);
	if (r == 0 && is_host)
		r = bind_upper(layer, "usr", name, err);
	return r == 0 && is_host ? mount_over(usr, "usr:t/usr:b", layer, err) : r;
}

/* For a single snapshot: shows its template as /shown/t. */
static int mount_template(const struct jail *jail, struct err *err)
{
	static const char root[] = "r/" SHOTS "/t";
	int r = make_place(root, err);

	if (r < 0)
		return r;
	if (jail->shown_fd >= 0)
		return mount_over(root, "fit:i", "t", err);
	if (mount("t/root", root, NULL, MS_BIND, NULL) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot attach the template");
	return mount_over("r/" SHOTS "/t/usr", "usr:b", "t", err);
}

static int mount_disk_snapshots(struct jail *jail, struct err *err)
{
	const bool is_single = jail->disk_snapshot_fds[1] < 0;
	int r = make_place("r/" SHOTS, err);

	if (r == 0 && jail->shown_fd >= 0 &&
	    (mkdir("i", 0700) < 0 ||
	     move_mount(jail->shown_fd, "", AT_FDCWD, "i", MOVE_MOUNT_F_EMPTY_PATH) < 0))
		r = err_set(err, ERR_INTERNAL, errno, "cannot attach the image");
	for (size_t i = 0; r == 0 && i < SHOWN_MAX; i++)
		if (jail->disk_snapshot_fds[i] >= 0)
			r = mount_disk_snapshot(jail, i, err);
	return r == 0 && is_single ? mount_template(jail, err) : r;
}

int jail_mount_root(struct jail *jail, struct err *err)
{
	const bool has_disk_snapshots = jail->disk_snapshot_fds[0] >= 0;
	const bool is_host = digest_is_zero(&jail->spec->image) || jail->spec->shows;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (mkdir(places[i], 0700) < 0 ||
		    move_mount(jail->mounts[i], "", AT_FDCWD, places[i], MOVE_MOUNT_F_EMPTY_PATH) <
		            0)
			return err_set(err, ERR_INTERNAL, errno, "cannot attach mount '%s'",
			               places[i]);
		(void)close(take_fd(&jail->mounts[i]));
	}
	if (mkdir("r", 0700) < 0 ||
	    mount_overlay(jail, "r", is_host ? ROOT_OPTIONS : IMAGE_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the root overlay");
	if (is_host && mount_overlay(jail, "r/usr", USR_OPTIONS) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot mount the usr overlay");
	if (has_disk_snapshots)
		return mount_disk_snapshots(jail, err);
	if (jail->spec->shows == SHOWS_IMAGE_TO_WRITE)
		return mount_writable(jail, err);
	return jail->shown_fd >= 0 ? mount_shown(jail, err) : 0;
}

int jail_pivot(struct jail *jail, struct err *err)
{
	(void)jail;
	/* With both names ".", the old root ends up stacked under the new one, and is then detached
	 * with all its mounts. */
	if (chdir("r") < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
	    chdir("/") < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot change the root");
	return 0;
}
