// SPDX-License-Identifier: Apache-2.0
/* Finds the trees of control groups that this host has, and makes our directory in each. */
#include "engine/linux/cgroup.h"

#include "base/fd.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* clang-format off */
static const struct {
	const char *v1_name, *v2_name; /* v2: NULL = every v2 group can do it */
} parts[] = {
	[CGROUP_MEMORY]    = {"memory",  "memory"},
	[CGROUP_CPU]       = {"cpu",     "cpu"},
	[CGROUP_PIDS]      = {"pids",    "pids"},
	[CGROUP_FREEZE]    = {"freezer", NULL},
	[CGROUP_CPU_USAGE] = {"cpuacct", NULL},
};
/* clang-format on */
static_assert(ARRAY_SIZE(parts) == CGROUP_PART_COUNT, "a part has no row");

#define FAVOR         "favordynmods"
#define PARTS_LIMITED (BIT(CGROUP_MEMORY) | BIT(CGROUP_CPU) | BIT(CGROUP_PIDS))

/* Whether list, separated by blanks or commas, has the word. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += len)
		if ((p == list || p[-1] == ',' || p[-1] == ' ') &&
		    (p[len] == '\0' || p[len] == ',' || p[len] == ' '))
			return true;
	return false;
}

const struct cgroup_tree *cgroup_find_tree(const struct cgroup_host *h, enum cgroup_part part)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->trees[i].parts & BIT(part))
			return &h->trees[i];
	return NULL;
}

unsigned cgroup_enable(int dir_fd, const char *dir)
{
	char path[160], offered[256];
	unsigned enabled = 0;

	(void)snprintf(path, sizeof(path), "%s/cgroup.controllers", dir);
	if (fd_read_file(dir_fd, path, offered, sizeof(offered)) < 0)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	for (size_t i = 0; i < CGROUP_PART_COUNT; i++) {
		char word[32];

		if (!parts[i].v2_name || !has_word(offered, parts[i].v2_name))
			continue;
		(void)snprintf(word, sizeof(word), "+%s", parts[i].v2_name);
		if (fd_write_file(dir_fd, path, word) == 0)
			enabled |= BIT(i);
	}
	return enabled;
}

/* The directory for PARENT: HOME, if the tree has one, else its root. A daemon of an older version,
 * or one that was started before HOME was there, has made PARENT in the root. It stays there as
 * long as there are groups in it, because a process of theirs would otherwise be lost. */
static int open_top(const struct cgroup_host *h, const char *path, const char *home)
{
	auto_fd int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int fd = -1;
	char procs[16];

	if (root >= 0 && home)
		fd = openat(root, home, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* A group that holds a process cannot limit those below it. */
	if (fd >= 0 && fd_read_file(fd, "cgroup.procs", procs, sizeof(procs)) <= 0 &&
	    (unlinkat(root, h->parent, AT_REMOVEDIR) == 0 || errno == ENOENT))
		return take_fd(&fd);
	return take_fd(&root);
}

static int add_tree(struct cgroup_host *h, const char *path, const char *home, bool is_v2,
                    unsigned wanted, struct err *err)
{
	struct cgroup_tree *t = &h->trees[h->n];
	auto_fd int top = open_top(h, path, is_v2 ? home : NULL);
	auto_fd int fd = -1;

	if (top < 0)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot open the cgroup tree '%s'",
		               path);
	if (mkdirat(top, h->parent, 0755) < 0 && errno != EEXIST)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot make a group in '%s'", path);
	fd = openat(top, h->parent, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_UNSUPPORTED, errno, "cannot open our group in '%s'", path);
	if (is_v2)
		wanted |= cgroup_enable(top, ".") & cgroup_enable(fd, ".") & ~h->parts;
	*t = (struct cgroup_tree){.top_fd = take_fd(&top),
	                          .fd = take_fd(&fd),
	                          .is_v2 = is_v2,
	                          .is_flat = !is_v2 || !(wanted & PARTS_LIMITED),
	                          .parts = wanted};
	h->parts |= wanted;
	h->n++;
	return 0;
}

/* One line: "31 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory" */
struct mount_line {
	char point[256];
	char type[32];
	char options[256];
};

static bool read_mount_line(const char *line, struct mount_line *m)
{
	const char *dash = strstr(line, " - ");

	return sscanf(line, "%*s %*s %*s %*s %255s", m->point) == 1 && dash &&
	       sscanf(dash + 3, "%31s %*s %255[^\n]", m->type, m->options) == 2;
}

static int add_trees(struct cgroup_host *h, const char *prefix, const char *mountinfo,
                     const char *home, bool is_v2, struct err *err)
{
	for (const char *line = mountinfo; line && *line; line = strchr(line, '\n')) {
		struct mount_line m;
		unsigned wanted = 0;

		line += *line == '\n';
		if (!read_mount_line(line, &m) || strcmp(m.type, is_v2 ? "cgroup2" : "cgroup") != 0)
			continue;
		for (size_t i = 0; i < CGROUP_PART_COUNT; i++)
			if (is_v2 ? !parts[i].v2_name : has_word(m.options, parts[i].v1_name))
				wanted |= BIT(i);
		wanted &= ~h->parts;
		/* A second mount of the same tree offers nothing new. */
		if (wanted != 0 && h->n < CGROUP_TREES_MAX) {
			char path[600];
			int r;

			(void)snprintf(path, sizeof(path), "%s%s", prefix, m.point);
			r = add_tree(h, path, home, is_v2, wanted, err);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* A reconfiguration drops all options that it does not name. */
static int set_options(int fs, char *options, const char *omitted)
{
	char *rest = options;
	char *word;

	while ((word = strsep(&rest, ",")))
		if (strcmp(word, "rw") != 0 && strcmp(word, "ro") != 0 &&
		    (!omitted || strcmp(word, omitted) != 0) &&
		    fsconfig(fs, FSCONFIG_SET_FLAG, word, NULL, 0) < 0)
			return -errno;
	return 0;
}

static int set_favor(struct mount_line *m, bool is_on)
{
	auto_fd int fs = fspick(AT_FDCWD, m->point, FSPICK_CLOEXEC);
	int r;

	if (fs < 0)
		return -errno;
	r = set_options(fs, m->options, FAVOR);
	if (r == 0 && is_on && fsconfig(fs, FSCONFIG_SET_FLAG, FAVOR, NULL, 0) < 0)
		r = -errno;
	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		r = -errno;
	return r < 0 ? r : 1;
}

int cgroup_set_favor_moves(const char *mountinfo, bool is_on)
{
	for (const char *line = mountinfo; line && *line; line = strchr(line, '\n')) {
		struct mount_line m;

		line += *line == '\n';
		if (read_mount_line(line, &m) && strcmp(m.type, "cgroup2") == 0)
			return has_word(m.options, FAVOR) == is_on ? 0 : set_favor(&m, is_on);
	}
	return 0;
}

int cgroup_host_open(struct cgroup_host *h, const char *prefix, const char *mountinfo,
                     const char *home, const char *parent, struct err *err)
{
	int r;

	*h = (struct cgroup_host){0};
	(void)snprintf(h->parent, sizeof(h->parent), "%s", parent);
	r = add_trees(h, prefix, mountinfo, home, /* is_v2= */ true, err);
	if (r == 0)
		r = add_trees(h, prefix, mountinfo, home, /* is_v2= */ false, err);
	if (r < 0)
		cgroup_host_close(h);
	return r;
}

void cgroup_host_close(struct cgroup_host *h)
{
	for (size_t i = 0; i < h->n; i++) {
		(void)close(h->trees[i].fd);
		(void)close(h->trees[i].top_fd);
	}
	h->n = 0;
}

void cgroup_host_remove(struct cgroup_host *h)
{
	for (size_t i = 0; i < h->n; i++)
		(void)unlinkat(h->trees[i].top_fd, h->parent, AT_REMOVEDIR);
	cgroup_host_close(h);
}
