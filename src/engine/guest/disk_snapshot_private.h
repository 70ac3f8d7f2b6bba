// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the disk_snapshot files. */
#include "engine/guest/guest.h"
#include "engine/layer/below.h"

#define DISK_SNAPSHOT_FILES     "files"
#define DISK_SNAPSHOT_MEMORY    "memory"
#define DISK_SNAPSHOT_SPARE     "spare"
#define DISK_SNAPSHOT_NAME_SIZE (ID_SIZE + 8)

const struct snapshot_info *disk_snapshot_find(const char *id); /* borrowed or NULL */
bool disk_snapshot_is_brief(const char *id); /* a fork's, whose work directories are empty */
size_t disk_snapshot_count(void);
void disk_snapshot_add(const struct snapshot_info *info, bool is_brief); /* it is there now */
struct disk_snapshot_below disk_snapshot_below(
	struct guest_host *host, const char *id); /* of a layer; zero without a snapshot */
void disk_snapshot_set_limit(struct guest_host *host,
                             const char *id); /* of a layer whose guest runs */
void disk_snapshot_lower_limit(struct guest_host *host,
                               const char *id);           /* as soon as btrfs has freed the space */
int disk_snapshot_open_dir(int dir_fd, const char *name); /* or -1 and errno */
void disk_snapshot_remove_dir(struct guest_host *host,
                              const char *name); /* with the subvolume in it; blocks */
/* The same in a child; gone comes when it has ended. */
must_check int disk_snapshot_start_removal(struct guest_host *host, const char *name,
                                           guest_gone_fn gone, void *arg);
int disk_snapshot_tidy(int layer_fd);     /* empties overlay's work directories; in a child */
pid_t disk_snapshot_fork(int *ret_pidfd); /* a child that ends with the broker */
/* Freezes the guest until all who hold it have released it. True if it is frozen or cannot be;
 * false: ask again. */
enum held_by { HELD_BY_BACKUP = 1, HELD_BY_COPY = 2 };
bool disk_snapshot_hold(struct guest *g, enum held_by who);
void disk_snapshot_unhold(struct guest *g, enum held_by who);
void disk_snapshot_take_end(struct guest_host *host); /* the broker leaves */

/* Turns a copy of the snapshot into the layer of g, except for its name. */
must_check int disk_snapshot_set_up(const struct guest *g, const struct snapshot_info *info,
                                    int layer_fd);

/* disk_snapshot_spare.c */
void disk_snapshot_want_spare(struct guest_host *host,
                              const char *id); /* a copy of the snapshot will be wanted */
void disk_snapshot_drop_spare(const char *id); /* the snapshot is removed, with its files */
must_check int disk_snapshot_take_spare(const struct guest *g, const struct snapshot_info *info);
int disk_snapshot_remove_spare(int dir_fd); /* from a snapshot's directory, if there is one */
void spares_close(void);
