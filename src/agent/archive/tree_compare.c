// SPDX-License-Identifier: Apache-2.0
/*
 * A name counts for a side if the side's upper directory has it, be it as a whiteout; else that
 * side has the template's file. A directory that hides the template's (the overlay's mark for that
 * is an attribute), that had another name in the template (a mark, too), or that one of the sides
 * lacks, is looked at with all that is in it.
 *
 * Three ways: a path that the second has changed and the third has not is a change; one that both
 * have changed, and not to the same, is a conflict. Where one of the three is a directory and
 * another is not, the whole tree is taken for one thing.
 *
 * Bounds: DEPTH_MAX levels, each with a few descriptors and one directory's names.
 */
#include "agent/archive/tree_compare.h"

#include "agent/archive/listing.h"
#include "agent/archive/result.h"
#include "agent/archive/staging.h"
#include "base/buf.h"
#include "proto/signer.h"
#include "proto/start.h"
#include "proto/trust.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define DEPTH_MAX 256
/* The overlay's marks: a jail's are attributes of users, a vm's the kernel's own. */
#define JAIL_MARK "user.overlay."
#define VM_MARK   "trusted.overlay."

enum { OLD, THEIRS, OURS, SIDES };

struct level {                /* a directory, on each side */
	int fd[SIDES];        /* -1: it has none there */
	int upper[SIDES];     /* what it has written there; -1: nothing */
	int usr[SIDES];       /* the root's: the upper directory of its `usr`, or -1 */
	bool is_moved[SIDES]; /* it, or one that it is in, had another name in the template */
	bool has_places;      /* where bytes lie on disk tells which they are */
};

struct node { /* a name in there */
	const char *name;
	struct entry_version at[SIDES];
	bool is_written[SIDES];
	bool has_places;
};

struct compare {
	const struct tree_compare_ops *ops;
	void *arg;
	int old, ours; /* which sides; the same: two are compared */
	int third;     /* the third's, whatever is compared; OLD where there is none */
	struct buf path;
};

/* What a start or the network wall writes anew in each sandbox. */
static bool is_own(const char *path)
{
	static const char *const own[] = {
		"/etc/hostname",  "/etc/hosts",  "/etc/machine-id",  TRUST_BUNDLE,        TRUST_OWN,
		"/" STAGING_NAME, SIGNER_SOCKET, SIGNER_KNOWN_HOSTS, "/usr/" STAGING_NAME};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (strcmp(path, own[i]) == 0)
			return true;
	return false;
}

static int open_dir(int dir_fd, const char *name)
{
	return dir_fd < 0 ? -1
	                  : openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool has_mark(int fd, const char *jail_mark, const char *vm_mark)
{
	return fd >= 0 &&
	       (fgetxattr(fd, jail_mark, NULL, 0) >= 0 || fgetxattr(fd, vm_mark, NULL, 0) >= 0);
}

static void level_done(struct level *lv)
{
	int *const fds[] = {lv->fd, lv->upper, lv->usr};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		for (size_t side = 0; side < SIDES; side++)
			if (fds[i][side] >= 0)
				(void)close(fds[i][side]);
}

/* The child of that name, on each side where it is a directory. */
static int level_enter(const struct level *lv, const struct node *n, struct level *ret,
                       struct err *err)
{
	*ret = (struct level){{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
	ret->has_places = lv->has_places;
	for (size_t i = 0; i < SIDES; i++) {
		const bool is_usr = lv->usr[i] >= 0 && strcmp(n->name, "usr") == 0;

		if (!entry_version_is_dir(&n->at[i]))
			continue;
		ret->fd[i] = open_dir(lv->fd[i], n->name);
		if (ret->fd[i] < 0)
			return result_error(err, errno, "cannot open the directory", n->name);
		ret->upper[i] = is_usr ? fcntl(lv->usr[i], F_DUPFD_CLOEXEC, 0)
		                       : open_dir(lv->upper[i], n->name);
		if (ret->upper[i] < 0 && (is_usr || (n->is_written[i] && !lv->is_moved[i])))
			return result_error(err, errno, "cannot open the directory", n->name);
		ret->is_moved[i] = lv->is_moved[i] || has_mark(ret->upper[i], JAIL_MARK "redirect",
		                                               VM_MARK "redirect");
	}
	return 0;
}

static bool is_partial(const struct level *lv, const int sides[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lv->fd[sides[i]] < 0 || lv->is_moved[sides[i]] ||
		    has_mark(lv->upper[sides[i]], JAIL_MARK "opaque", VM_MARK "opaque"))
			return false;
	return true;
}

/* The names that may be another thing on one of these sides than on the others. */
static int list_names(const struct level *lv, const int sides[], size_t n, struct listing *ret,
                      struct err *err)
{
	const int *fds = is_partial(lv, sides, n) ? lv->upper : lv->fd;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (fds[sides[i]] >= 0)
			r = listing_add(ret, fds[sides[i]], err);
		if (lv->usr[sides[i]] >= 0)
			listing_add_name(ret, "usr");
	}
	listing_sort(ret);
	return r;
}

static bool is_written(const struct level *lv, int side, const char *name)
{
	struct stat st;

	if (lv->is_moved[side] || (lv->usr[side] >= 0 && strcmp(name, "usr") == 0))
		return true;
	return lv->upper[side] >= 0 &&
	       fstatat(lv->upper[side], name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int node_look(const struct level *lv, const char *name, struct node *ret, struct err *err)
{
	int r = 0;

	*ret = (struct node){.name = name, .has_places = lv->has_places};
	for (int i = 0; r == 0 && i < SIDES; i++) {
		r = entry_version_look(lv->fd[i], name, &ret->at[i], err);
		ret->is_written[i] = is_written(lv, i, name);
	}
	return r;
}

static int differ(const struct node *n, int a, int b, uint32_t *ret, struct err *err)
{
	enum kinship kin = n->is_written[a] != n->is_written[b] ? KIN_NONE
	                   : !n->is_written[a]                  ? KIN_ONE
	                   : n->has_places                      ? KIN_LAYERS
	                                                        : KIN_NONE;

	*ret = 0;
	return a == b ? 0 : entry_versions_differ(&n->at[a], &n->at[b], kin, ret, err);
}

static bool has_more(const struct node *n, int a, int b)
{
	return entry_version_is_dir(&n->at[a]) != entry_version_is_dir(&n->at[b]) ||
	       (entry_version_is_dir(&n->at[a]) && (n->is_written[a] || n->is_written[b]));
}

static int too_deep(struct err *err)
{
	return err_set(err, ERR_FILE_INVALID, ELOOP,
	               "there are directories deeper than %d in each other", DEPTH_MAX);
}

/* 1: they differ, somewhere. */
static int trees_differ(const struct level *lv, const struct node *n, int a, int b, size_t depth,
                        struct err *err)
{
	const int sides[] = {a, b};
	auto_call(listing_done) struct listing names = {0};
	auto_call(level_done) struct level in = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
	uint32_t changes;
	int r = differ(n, a, b, &changes, err);

	if (r < 0 || changes)
		return r < 0 ? r : 1;
	if (a == b || !entry_version_is_dir(&n->at[a]) || !has_more(n, a, b))
		return 0;
	if (depth == DEPTH_MAX)
		return too_deep(err);
	r = level_enter(lv, n, &in, err);
	if (r == 0)
		r = list_names(&in, sides, ARRAY_SIZE(sides), &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		struct node child;

		r = node_look(&in, names.names[i], &child, err);
		if (r == 0)
			r = trees_differ(&in, &child, a, b, depth + 1, err);
	}
	return r;
}

static int tell(struct compare *c, const struct node *n, uint32_t changes, struct err *err)
{
	const struct change ch = {.path = buf_str(&c->path),
	                          .changes = changes,
	                          .old = &n->at[c->old],
	                          .now = &n->at[THEIRS],
	                          .ours = &n->at[c->third]};

	return changes ? c->ops->on_change(&ch, c->arg, err) : 0;
}

/* Of this name alone. */
static int judge(struct compare *c, const struct node *n, struct err *err)
{
	uint32_t theirs, ours = 0, between = 0;
	int r = differ(n, c->old, THEIRS, &theirs, err);

	if (r == 0 && theirs)
		r = differ(n, c->old, c->ours, &ours, err);
	if (r == 0 && ours)
		r = differ(n, THEIRS, c->ours, &between, err);
	if (r < 0 || (ours && !between))
		return r;
	return tell(c, n, theirs | (ours ? (uint32_t)CHANGE_CONFLICT : 0), err);
}

static int visit_dir(struct compare *c, const struct level *lv, size_t depth, struct err *err);

static int descend(struct compare *c, const struct level *lv, const struct node *n, size_t depth,
                   struct err *err)
{
	auto_call(level_done) struct level in = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
	int r;

	if (!has_more(n, c->old, THEIRS) && !has_more(n, c->ours, THEIRS))
		return 0;
	if (depth == DEPTH_MAX)
		return too_deep(err);
	r = level_enter(lv, n, &in, err);
	return r < 0 ? r : visit_dir(c, &in, depth + 1, err);
}

/* From that side to the second, whatever the others are. */
static int tell_tree(struct compare *c, const struct level *lv, const struct node *n, int from,
                     size_t depth, struct err *err)
{
	const int old = c->old, ours = c->ours;
	int r;

	c->old = c->ours = from;
	r = judge(c, n, err);
	if (r == 0)
		r = descend(c, lv, n, depth, err);
	c->old = old;
	c->ours = ours;
	return r;
}

static int visit_tree(struct compare *c, const struct level *lv, const struct node *n, size_t depth,
                      struct err *err)
{
	uint32_t changes;
	int r = trees_differ(lv, n, c->old, THEIRS, depth, err);

	if (r <= 0)
		return r;
	r = trees_differ(lv, n, c->old, c->ours, depth, err);
	if (r <= 0)
		return r < 0 ? r : tell_tree(c, lv, n, c->old, depth, err);
	r = trees_differ(lv, n, THEIRS, c->ours, depth, err);
	if (r <= 0)
		return r;
	if (c->ops->takes_theirs)
		return tell_tree(c, lv, n, c->ours, depth, err);
	r = differ(n, c->old, THEIRS, &changes, err);
	return r < 0 ? r : tell(c, n, changes | CHANGE_CONFLICT, err);
}

static int visit(struct compare *c, const struct level *lv, const char *name, size_t depth,
                 struct err *err)
{
	struct node n;
	int r = is_own(buf_str(&c->path)) ? 1 : node_look(lv, name, &n, err);

	if (r != 0)
		return MIN(r, 0);
	if (entry_version_is_dir(&n.at[THEIRS]) && entry_version_is_dir(&n.at[c->ours])) {
		r = judge(c, &n, err);
		return r == 0 ? descend(c, lv, &n, depth, err) : r;
	}
	if (entry_version_is_dir(&n.at[THEIRS]) || entry_version_is_dir(&n.at[c->old]) ||
	    entry_version_is_dir(&n.at[c->ours]))
		return visit_tree(c, lv, &n, depth, err);
	return judge(c, &n, err);
}

static int visit_dir(struct compare *c, const struct level *lv, size_t depth, struct err *err)
{
	const int sides[] = {c->old, THEIRS, c->ours};
	auto_call(listing_done) struct listing names = {0};
	const size_t len = c->path.len;
	int r = list_names(lv, sides, ARRAY_SIZE(sides), &names, err);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		r = buf_append(&c->path, "/", 1);
		if (r == 0)
			r = buf_append(&c->path, names.names[i], strlen(names.names[i]));
		if (r < 0)
			return too_deep(err);
		r = visit(c, lv, names.names[i], depth, err);
		buf_truncate(&c->path, len);
	}
	return r;
}

static int open_side(struct level *lv, int side, int shown_fd, char name, struct err *err)
{
	const char root[] = {name, '\0'};
	char upper[8], usr[8];

	(void)snprintf(upper, sizeof(upper), "%c.root", name);
	(void)snprintf(usr, sizeof(usr), "%c.usr", name);
	lv->fd[side] = open_dir(shown_fd, root);
	lv->upper[side] = open_dir(shown_fd, upper);
	lv->usr[side] = open_dir(shown_fd, usr);
	return lv->fd[side] < 0 ? result_error(err, errno, "cannot open", root) : 0;
}

/* Each vm has a disk of its own, and what lies at one place of two disks is not the same. */
static bool has_places(const struct level *lv)
{
	struct statfs fs;

	return fstatfs(lv->upper[THEIRS], &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

int tree_compare_run(const char *shown, const struct tree_compare_ops *ops, void *arg,
                     struct err *err)
{
	auto_call(level_done) struct level lv = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
	auto_fd int shown_fd = open(shown, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const bool is_single = faccessat(shown_fd, "1", F_OK, AT_SYMLINK_NOFOLLOW) < 0;
	const bool has_ours = faccessat(shown_fd, "2", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	struct compare c = {.ops = ops,
	                    .arg = arg,
	                    .old = OLD,
	                    .ours = has_ours ? OURS : OLD,
	                    .third = has_ours ? OURS : OLD,
	                    .path = BUF_INIT(RECORD_PATH_MAX)};
	int r;

	if (shown_fd < 0)
		return result_error(err, errno, "cannot open", shown);
	r = open_side(&lv, OLD, shown_fd, is_single ? 't' : '0', err);
	if (r == 0)
		r = open_side(&lv, THEIRS, shown_fd, is_single ? '0' : '1', err);
	if (r == 0 && has_ours)
		r = open_side(&lv, OURS, shown_fd, '2', err);
	lv.has_places = has_places(&lv);
	if (r == 0)
		r = visit_dir(&c, &lv, 1, err);
	buf_done(&c.path);
	return r;
}
