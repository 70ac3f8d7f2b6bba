// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Users and groups as the sandbox's own /etc/passwd and /etc/group tell them, without NSS. Both
 * files are the sandbox's to fill: a line that is not exactly a line of theirs is skipped, and a
 * file that is no regular file, or too large, counts as empty.
 */
#include "base/buf.h"
#include "base/err.h"

#include <sys/types.h>

#define IDENTITY_GROUPS_MAX 64

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t groups[IDENTITY_GROUPS_MAX]; /* supplementary */
	size_t n_groups;
	char name[64]; /* "" when the number has none */
	char home[256];
	char shell[256];
};

/* user: a name, a number, or "" for the sandbox's default user. With ":GROUP" behind it, it is in
 * that group and in no other. */
must_check int identity_find(const char *user, struct identity *ret, struct err *err);
/* "user[:group]", names or numbers; -1 for the half that is not given. */
must_check int identity_parse_owner(const char *owner, uid_t *ret_uid, gid_t *ret_gid,
                                    struct err *err);

/*
 * Adds a further name of the sandbox's default user to the texts of passwd and group: before its
 * old lines, so that whoever asks for the number's name is told this one, and to the groups that
 * the old name is a member of. It has no password and no line in shadow. 0 without a change: it has
 * this name already. -ENOENT: there is no default user; -EEXIST: the name is another's; -E2BIG: a
 * text has no room for it.
 */
must_check int names_add(struct buf *passwd, struct buf *group, const char *name, const char *home);

/* Names for numbers, many times over: the files are read once. */
struct names;
struct names *names_new(void);
void names_free(struct names *n);
void names_user(const struct names *n, uid_t uid, char *ret, size_t size); /* "" = none */
void names_group(const struct names *n, gid_t gid, char *ret, size_t size);
