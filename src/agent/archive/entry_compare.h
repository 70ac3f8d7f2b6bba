// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Whether one name is the same thing in two trees: kind, mode, owner, content, attributes. Times
 * are not compared: writing the same bytes again changes nothing. No link is followed, nothing but
 * a regular file is opened.
 */
#include "base/err.h"

#include <stdbool.h>
#include <sys/stat.h>

struct entry_version {
	int dir_fd; /* it is `name` in there; -1: there is no such directory */
	const char *name;
	bool is_there;
	struct stat st;
};

/* What there is of a name; *ret borrows both. -1 for dir_fd: nothing. */
must_check int entry_version_look(int dir_fd, const char *name, struct entry_version *ret,
                                  struct err *err);
static inline bool entry_version_is_dir(const struct entry_version *t)
{
	return t->is_there && S_ISDIR(t->st.st_mode);
}

/* Is an extended attribute the file's own, and not the overlay's or a privilege's? */
bool entry_version_keeps_attribute(const char *name);

/* What the caller knows of two things before they are looked at. */
enum kinship {
	KIN_NONE,
	KIN_LAYERS, /* both lie on the layers' filesystem */
	KIN_ONE,    /* both are the template's: one and the same */
};
/* CHANGE_… from old to now, 0 = none. */
must_check int entry_versions_differ(const struct entry_version *old,
                                     const struct entry_version *now, enum kinship kin,
                                     uint32_t *ret, struct err *err);
