// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What the files of snapshots share. */
#include "engine/jail/below.h"
#include "engine/jail/guest.h"

#define SHOT_FILES     "files"
#define SHOT_MEMORY    "memory"
#define SHOT_SPARE     "spare"
#define SHOT_NAME_SIZE (ID_SIZE + 8)

const struct snapshot_info *shot_find(const char *id); /* borrowed or NULL */
size_t shot_count(void);
void shot_add(const struct snapshot_info *info, bool is_brief); /* it is there now */
struct shot_below shot_below(const char *id);    /* of a layer; zero where it is its own first */
void shot_set_limit(const char *id);             /* of a layer whose guest runs */
void shot_lower_limit(const char *id);           /* as soon as btrfs has freed what it may */
int shot_open_dir(int dir_fd, const char *name); /* or -1 and errno */
void shot_remove_dir(const char *name);          /* with the subvolume in it; blocks */
int shot_tidy(int layer_fd);     /* empties overlay's work directories; in a child */
pid_t shot_fork(int *ret_pidfd); /* a child that ends with the broker */
/* For a backup: stands still until it is let go. True: it does, or cannot; false: ask again. */
bool shot_hold(struct guest *g);
void shot_unhold(struct guest *g);
void shot_take_end(void); /* the broker leaves */

/* Makes a copy of the snapshot the layer of g in all but its name. */
must_check int shot_set_up(const struct guest *g, const struct snapshot_info *info, int layer_fd);

/* shot_spare.c */
void shot_want_spare(const char *id); /* a copy of the snapshot will be wanted */
void shot_drop_spare(const char *id); /* the snapshot goes, and what is on disk with it */
must_check int shot_take_spare(const struct guest *g, const struct snapshot_info *info);
int shot_remove_spare(int dir_fd); /* from a snapshot's directory, if there is one */
void spares_close(void);
