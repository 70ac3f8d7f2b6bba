// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Packs a directory as a tar stream, pulled piece by piece; what it holds in memory is the names of
 * the directories on its way. Files, directories and symbolic links; the rest is left out and told
 * of. Links are never followed.
 */
#include "base/err.h"
#include "cli/copy/ignore.h"

struct mktar;

/* name is relative to the directory. The archive is as it would be without that entry. */
typedef void (*mktar_skip_fn)(const char *name, const char *why, void *arg);

/* Takes dir_fd, also when it fails. Entries are named relative to it. */
must_check int mktar_new(int dir_fd, mktar_skip_fn skip, void *arg, struct mktar **ret,
                         struct err *err);
/* Owners and all bits of modes are told too, for what is to be somebody's root. Before the first
 * read. */
void mktar_keep_owners(struct mktar *m);
/* Leaves out what matches, without a word; NULL: nothing. Borrowed. Before the first read. */
void mktar_ignore(struct mktar *m, const struct ignore *ignore);
/* The next up to room bytes; 0 at the end. */
must_check ssize_t mktar_read(struct mktar *m, void *data, size_t room, struct err *err);
void mktar_free(struct mktar *m);
DEFINE_FREEP(struct mktar, mktar_free)
