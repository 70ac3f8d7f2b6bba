// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/btrfs.h"

#include "base/fd.h"
#include "base/parse.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* From Linux 6.7; linux-libc-dev 6.1 does not have them. */
#define QUOTA_CTL_ENABLE_SIMPLE 4
#define QUOTA_FLAG_SIMPLE       (UINT64_C(1) << 3)

#define DEVICE 1 /* mkfs numbers from there, and we give it one */

int btrfs_quota_on(int fs_fd)
{
	struct btrfs_ioctl_quota_ctl_args args = {.cmd = QUOTA_CTL_ENABLE_SIMPLE};

	if (ioctl(fs_fd, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
		return 0;
	args.cmd = BTRFS_QUOTA_CTL_ENABLE;
	if (ioctl(fs_fd, BTRFS_IOC_QUOTA_CTL, &args) == 0 || errno == EEXIST)
		return 0;
	return -errno;
}

int btrfs_subvol_make(int dir_fd, const char *name)
{
	struct btrfs_ioctl_vol_args_v2 args = {0};

	(void)snprintf(args.name, sizeof(args.name), "%s", name);
	return ioctl(dir_fd, BTRFS_IOC_SUBVOL_CREATE_V2, &args) < 0 ? -errno : 0;
}

static int copy_subvol(int dir_fd, int subvol_fd, const char *name, uint64_t flags)
{
	struct btrfs_ioctl_vol_args_v2 args = {.fd = subvol_fd, .flags = flags};

	(void)snprintf(args.name, sizeof(args.name), "%s", name);
	return ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0 ? -errno : 0;
}

int btrfs_snapshot(int dir_fd, int subvol_fd, const char *name)
{
	return copy_subvol(dir_fd, subvol_fd, name, BTRFS_SUBVOL_RDONLY);
}

int btrfs_clone(int dir_fd, int subvol_fd, const char *name)
{
	return copy_subvol(dir_fd, subvol_fd, name, 0);
}

static int subvol_id(int subvol_fd, uint64_t *ret)
{
	struct btrfs_ioctl_ino_lookup_args args = {.objectid = BTRFS_FIRST_FREE_OBJECTID};

	if (ioctl(subvol_fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
		return -errno;
	*ret = args.treeid;
	return 0;
}

bool btrfs_is_subvol(int fd, uint64_t *ret_id)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == BTRFS_FIRST_FREE_OBJECTID &&
	       subvol_id(fd, ret_id) == 0;
}

static bool drop_quota(int fs_fd, uint64_t id)
{
	struct btrfs_ioctl_qgroup_create_args args = {.create = 0, .qgroupid = id};

	/* Newer kernels return EBUSY until the subvolume's last block is freed, and then drop it
	 * themselves. */
	return ioctl(fs_fd, BTRFS_IOC_QGROUP_CREATE, &args) == 0;
}

int btrfs_subvol_delete(int dir_fd, const char *name)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct btrfs_ioctl_vol_args args = {0};
	uint64_t id = 0;
	int r;

	if (fd < 0)
		return -errno;
	r = subvol_id(fd, &id);
	if (r < 0)
		return r;
	(void)close(take_fd(&fd));
	(void)snprintf(args.name, sizeof(args.name), "%s", name);
	if (ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0)
		return -errno;
	(void)drop_quota(dir_fd, id);
	return 0;
}

int btrfs_limit(int subvol_fd, uint64_t bytes)
{
	/* Group 0 is the subvolume's own. */
	struct btrfs_ioctl_qgroup_limit_args args = {
		.lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};

	return ioctl(subvol_fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

/* Finds items of one type in a tree, with objectid and offset within bounds; only the first
 * page. */
static int search(int fd, uint64_t tree, uint32_t type, const uint64_t object[2],
                  const uint64_t offset[2], struct btrfs_ioctl_search_args *ret)
{
	*ret = (struct btrfs_ioctl_search_args){.key = {.tree_id = tree,
	                                                .min_objectid = object[0],
	                                                .max_objectid = object[1],
	                                                .min_offset = offset[0],
	                                                .max_offset = offset[1],
	                                                .min_type = type,
	                                                .max_type = type,
	                                                .max_transid = UINT64_MAX,
	                                                .nr_items = 64}};
	return ioctl(fd, BTRFS_IOC_TREE_SEARCH, ret) < 0 ? -errno : 0;
}

/* Reads an item of a subvolume's quota group. Returns 1, or 0 if there is none. */
static int read_quota(int subvol_fd, uint32_t type, void *ret, size_t size)
{
	struct btrfs_ioctl_search_args args;
	struct btrfs_ioctl_search_header header;
	uint64_t id = 0;
	int r = subvol_id(subvol_fd, &id);

	if (r == 0)
		r = search(subvol_fd, BTRFS_QUOTA_TREE_OBJECTID, type, (const uint64_t[]){0, 0},
		           (const uint64_t[]){id, id}, &args);
	if (r < 0)
		return r;
	memcpy(&header, args.buf, sizeof(header));
	if (args.key.nr_items == 0 || header.len != size)
		return 0;
	memcpy(ret, args.buf + sizeof(header), size);
	return 1;
}

int btrfs_get_limit(int subvol_fd, uint64_t *ret_bytes)
{
	struct btrfs_qgroup_limit_item item;
	int r = read_quota(subvol_fd, BTRFS_QGROUP_LIMIT_KEY, &item, sizeof(item));

	if (r < 0)
		return r;
	*ret_bytes = r > 0 && (le64toh(item.flags) & BTRFS_QGROUP_LIMIT_MAX_RFER)
	                     ? le64toh(item.max_rfer)
	                     : 0;
	return 0;
}

int btrfs_usage(int subvol_fd, uint64_t *ret_bytes)
{
	struct btrfs_qgroup_info_item item;
	int r = read_quota(subvol_fd, BTRFS_QGROUP_INFO_KEY, &item, sizeof(item));

	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*ret_bytes = le64toh(item.rfer);
	return 0;
}

/* name: of a file in the filesystem's directory. */
static int read_sys(const uint8_t *fsid, const char *name, uint64_t *ret)
{
	char uuid[37], path[192], text[32];
	size_t at = 0;
	int r;

	for (size_t i = 0; i < BTRFS_FSID_SIZE; i++)
		at += (size_t)snprintf(uuid + at, sizeof(uuid) - at, "%s%02x",
		                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", fsid[i]);
	(void)snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/%s", uuid, name);
	r = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	return r < 0 ? r : parse_u64(text, UINT64_MAX, ret);
}

static int read_sys_quota(const uint8_t *fsid, uint64_t id, const char *name, uint64_t *ret)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "qgroups/0_%" PRIu64 "/%s", id, name);
	return read_sys(fsid, path, ret);
}

/* Usage changes only at a commit, every 30 s. But the kernel reserves a write at once, to enforce
 * the limit. */
int btrfs_usage_now(int subvol_fd, uint64_t *ret_bytes)
{
	struct btrfs_ioctl_fs_info_args fs;
	uint64_t id = 0, referenced, reserved;
	int r = subvol_id(subvol_fd, &id);

	if (r < 0)
		return r;
	if (ioctl(subvol_fd, BTRFS_IOC_FS_INFO, &fs) < 0 ||
	    read_sys_quota(fs.fsid, id, "referenced", &referenced) < 0 ||
	    read_sys_quota(fs.fsid, id, "rsv_data", &reserved) < 0)
		return btrfs_usage(subvol_fd, ret_bytes);
	*ret_bytes = referenced + reserved;
	return 0;
}

uint64_t btrfs_in_memory(int fs_fd)
{
	struct btrfs_ioctl_fs_info_args fs;
	uint64_t written, placed;

	if (ioctl(fs_fd, BTRFS_IOC_FS_INFO, &fs) < 0 ||
	    read_sys(fs.fsid, "allocation/data/bytes_may_use", &written) < 0 ||
	    read_sys(fs.fsid, "allocation/data/bytes_reserved", &placed) < 0)
		return 0;
	return written + placed; /* the second have a place that is not counted as used yet */
}

bool btrfs_counts_once(int fs_fd)
{
	struct btrfs_ioctl_search_args args;
	struct btrfs_ioctl_search_header header;
	struct btrfs_qgroup_status_item item;
	int r = search(fs_fd, BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_STATUS_KEY,
	               (const uint64_t[]){0, 0}, (const uint64_t[]){0, 0}, &args);

	if (r < 0 || args.key.nr_items == 0)
		return false;
	memcpy(&header, args.buf, sizeof(header));
	if (header.len < sizeof(item))
		return false;
	memcpy(&item, args.buf + sizeof(header), sizeof(item));
	return (le64toh(item.flags) & QUOTA_FLAG_SIMPLE) != 0;
}

static bool has_subvol(int fs_fd, uint64_t id)
{
	struct btrfs_ioctl_search_args args;

	return search(fs_fd, BTRFS_ROOT_TREE_OBJECTID, BTRFS_ROOT_ITEM_KEY,
	              (const uint64_t[]){id, id}, (const uint64_t[]){0, UINT64_MAX}, &args) < 0 ||
	       args.key.nr_items > 0;
}

void btrfs_prune_quota(int fs_fd)
{
	struct btrfs_ioctl_search_args args;
	uint64_t from = BTRFS_FIRST_FREE_OBJECTID;

	for (;;) {
		const char *p = args.buf;

		if (search(fs_fd, BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_INFO_KEY,
		           (const uint64_t[]){0, 0},
		           (const uint64_t[]){from, (UINT64_C(1) << 48) - 1}, &args) < 0 ||
		    args.key.nr_items == 0)
			return;
		for (uint32_t i = 0; i < args.key.nr_items; i++) {
			struct btrfs_ioctl_search_header header;

			memcpy(&header, p, sizeof(header));
			p += sizeof(header) + header.len;
			if (!has_subvol(fs_fd, header.offset))
				(void)drop_quota(fs_fd, header.offset);
			from = header.offset + 1;
		}
	}
}

int btrfs_device(int fs_fd, struct btrfs_device *ret)
{
	struct btrfs_ioctl_dev_info_args args = {.devid = DEVICE};

	if (ioctl(fs_fd, BTRFS_IOC_DEV_INFO, &args) < 0)
		return -errno;
	*ret = (struct btrfs_device){args.total_bytes, args.bytes_used};
	return 0;
}

int btrfs_last_chunk_end(int fs_fd, uint64_t *ret)
{
	struct btrfs_ioctl_search_args args;
	uint64_t from = 0, end = 0;

	for (;;) {
		const char *p = args.buf;
		int r = search(fs_fd, BTRFS_DEV_TREE_OBJECTID, BTRFS_DEV_EXTENT_KEY,
		               (const uint64_t[]){DEVICE, DEVICE},
		               (const uint64_t[]){from, UINT64_MAX}, &args);

		if (r < 0)
			return r;
		if (args.key.nr_items == 0)
			break;
		for (uint32_t i = 0; i < args.key.nr_items; i++) {
			struct btrfs_ioctl_search_header header;
			struct btrfs_dev_extent extent;

			memcpy(&header, p, sizeof(header));
			if (header.len < sizeof(extent))
				return -EPROTO;
			memcpy(&extent, p + sizeof(header), sizeof(extent));
			p += sizeof(header) + header.len;
			end = MAX(end, header.offset + le64toh(extent.length));
			from = header.offset + 1;
		}
	}
	*ret = end;
	return 0;
}

int btrfs_resize(int fs_fd, uint64_t bytes)
{
	struct btrfs_ioctl_vol_args args = {0};

	(void)snprintf(args.name, sizeof(args.name), "%d:%" PRIu64, DEVICE, bytes);
	return ioctl(fs_fd, BTRFS_IOC_RESIZE, &args) < 0 ? -errno : 0;
}

#define GROUP (UINT64_C(1) << 48) /* level 1 */

static uint64_t group_id(uint64_t number)
{
	return GROUP | number;
}

int btrfs_group_make(int fs_fd, uint64_t number)
{
	struct btrfs_ioctl_qgroup_create_args args = {.create = 1, .qgroupid = group_id(number)};

	return ioctl(fs_fd, BTRFS_IOC_QGROUP_CREATE, &args) < 0 && errno != EEXIST ? -errno : 0;
}

int btrfs_group_limit(int fs_fd, uint64_t number, uint64_t bytes)
{
	struct btrfs_ioctl_qgroup_limit_args args = {
		.qgroupid = group_id(number),
		.lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};

	return ioctl(fs_fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

int btrfs_group_join(int subvol_fd, uint64_t number)
{
	struct btrfs_ioctl_qgroup_assign_args args = {.assign = 1, .dst = group_id(number)};
	uint64_t id = 0;
	int r = subvol_id(subvol_fd, &id);

	if (r < 0)
		return r;
	args.src = id;
	return ioctl(subvol_fd, BTRFS_IOC_QGROUP_ASSIGN, &args) < 0 && errno != EEXIST ? -errno : 0;
}

void btrfs_group_unlimit(int fs_fd, uint64_t number)
{
	(void)!btrfs_group_limit(fs_fd, number, UINT64_MAX); /* which is none */
}

void btrfs_each_group(int fs_fd, void (*fn)(uint64_t number, void *arg), void *arg)
{
	struct btrfs_ioctl_search_args args;
	uint64_t from = GROUP;

	for (;;) {
		const char *p = args.buf;

		if (search(fs_fd, BTRFS_QUOTA_TREE_OBJECTID, BTRFS_QGROUP_INFO_KEY,
		           (const uint64_t[]){0, 0}, (const uint64_t[]){from, 2 * GROUP - 1},
		           &args) < 0 ||
		    args.key.nr_items == 0)
			return;
		for (uint32_t i = 0; i < args.key.nr_items; i++) {
			struct btrfs_ioctl_search_header header;

			memcpy(&header, p, sizeof(header));
			p += sizeof(header) + header.len;
			if (!drop_quota(fs_fd, header.offset))
				fn(header.offset - GROUP, arg);
			from = header.offset + 1;
		}
	}
}
