// SPDX-License-Identifier: Apache-2.0
#include "engine/erofs/erofs_tree.h"

#include "engine/erofs/erofs_links.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define DEPTH_MAX 500
#define NODES_MAX (UINT32_C(1) << 24)
#define OPAQUE    "user.overlay.opaque"

struct run {
	const struct erofs_merge *merge;
	struct erofs_tree *tree;
	struct erofs_links links;
	char path[PATH_MAX];
	size_t path_len;
	unsigned depth;
};

static const struct erofs_file *file_of(const struct run *run, bool is_added)
{
	return is_added ? run->merge->added : run->merge->base;
}

static bool is_whiteout(const struct erofs_inode *i)
{
	return S_ISCHR(i->mode) && i->rdev == 0;
}

static int add_node(struct run *run, const struct erofs_inode *inode, bool is_added,
                    struct erofs_node **ret)
{
	struct erofs_tree *t = run->tree;
	struct erofs_node *node;

	if (t->n == NODES_MAX)
		return -EOPNOTSUPP;
	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 1024;
		struct erofs_node **nodes = xcalloc(room, sizeof(struct erofs_node *));

		if (t->n > 0)
			memcpy(nodes, t->nodes, t->n * sizeof(struct erofs_node *));
		free(t->nodes);
		t->nodes = nodes;
		t->room = room;
	}
	node = xcalloc(1, sizeof(*node));
	node->inode = *inode;
	node->is_added = is_added;
	node->nlink = S_ISDIR(inode->mode) ? 2 : 1;
	t->nodes[t->n++] = node;
	*ret = node;
	return 0;
}

/* Anything but a directory. */
static int add_leaf(struct run *run, const struct erofs_inode *inode, bool is_added,
                    struct erofs_node **ret)
{
	struct erofs_node *node =
		inode->nlink > 1 ? erofs_links_find(&run->links, inode->id, is_added) : NULL;
	int r;

	if (node) {
		node->nlink++;
		*ret = node;
		return 0;
	}
	r = add_node(run, inode, is_added, ret);
	if (r == 0 && inode->nlink > 1)
		erofs_links_add(&run->links, inode->id, is_added, *ret);
	return r;
}

static int push(struct run *run, const struct erofs_entry *e)
{
	if (run->path_len + e->len + 2 > sizeof(run->path) || ++run->depth > DEPTH_MAX)
		return -EOPNOTSUPP;
	if (run->path_len > 0)
		run->path[run->path_len++] = '/';
	memcpy(run->path + run->path_len, e->name, e->len);
	run->path_len += e->len;
	run->path[run->path_len] = '\0';
	return 0;
}

static void pop(struct run *run, size_t path_len)
{
	run->path_len = path_len;
	run->path[path_len] = '\0';
	run->depth--;
}

static void put_child(struct erofs_node *dir, const struct erofs_entry *e, struct erofs_node *node)
{
	dir->children[dir->n_children++] = (struct erofs_child){e->name, e->len, node};
	if (S_ISDIR(node->inode.mode)) {
		node->up = dir;
		dir->nlink++;
	}
}

static int take_dir(struct run *run, const struct erofs_inode *inode, bool is_added,
                    struct erofs_node **ret);

/* Adds an entry of one of the images, with all below it; nothing if it is a whiteout. */
static int take(struct run *run, const struct erofs_entry *e, bool is_added,
                struct erofs_node *parent)
{
	const size_t path_len = run->path_len;
	struct erofs_node *node = NULL;
	struct erofs_inode inode;
	int r = erofs_inode(file_of(run, is_added), e->id, &inode);

	if (r < 0 || (is_added && is_whiteout(&inode)))
		return r;
	r = push(run, e);
	if (r < 0)
		return r;
	if (!is_added && run->merge->is_left_out(run->path)) {
		pop(run, path_len);
		return 0;
	}
	r = S_ISDIR(inode.mode) ? take_dir(run, &inode, is_added, &node)
	                        : add_leaf(run, &inode, is_added, &node);
	if (r == 0)
		put_child(parent, e, node);
	pop(run, path_len);
	return r;
}

static int take_dir(struct run *run, const struct erofs_inode *inode, bool is_added,
                    struct erofs_node **ret)
{
	auto_free struct erofs_entry *list = NULL;
	size_t n = 0;
	int r = erofs_list(file_of(run, is_added), inode, &list, &n);

	if (r == 0)
		r = add_node(run, inode, is_added, ret);
	if (r < 0)
		return r;
	(*ret)->children = xcalloc(n + 1, sizeof(struct erofs_child));
	for (size_t i = 0; r == 0 && i < n; i++)
		r = take(run, &list[i], is_added, *ret);
	return r;
}

static int merge_dirs(struct run *run, const struct erofs_inode *base,
                      const struct erofs_inode *added, int upper_fd, struct erofs_node **ret);

static int open_dir(int parent_fd, const struct erofs_entry *e, int *ret_fd)
{
	char name[EROFS_NAME_MAX + 1];

	memcpy(name, e->name, e->len);
	name[e->len] = '\0';
	*ret_fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static bool is_opaque(int dir_fd)
{
	char value[4];

	return fgetxattr(dir_fd, OPAQUE, value, sizeof(value)) == 1 && value[0] == 'y';
}

/* Adds what both images have a name for. */
static int merge_entries(struct run *run, const struct erofs_entry *base,
                         const struct erofs_entry *added, int upper_fd, struct erofs_node *parent)
{
	const size_t path_len = run->path_len;
	struct erofs_inode below, above;
	struct erofs_node *node = NULL;
	auto_fd int dir_fd = -1;
	int r = erofs_inode(run->merge->base, base->id, &below);

	if (r == 0)
		r = erofs_inode(run->merge->added, added->id, &above);
	if (r < 0)
		return r;
	if (!S_ISDIR(above.mode) || !S_ISDIR(below.mode))
		return take(run, added, /* is_added= */ true, parent);
	r = open_dir(upper_fd, added, &dir_fd);
	if (r < 0)
		return r;
	if (is_opaque(dir_fd))
		return take(run, added, /* is_added= */ true, parent);
	r = push(run, added);
	if (r < 0)
		return r;
	r = merge_dirs(run, &below, &above, dir_fd, &node);
	if (r == 0)
		put_child(parent, added, node);
	pop(run, path_len);
	return r;
}

static int merge_dirs(struct run *run, const struct erofs_inode *base,
                      const struct erofs_inode *added, int upper_fd, struct erofs_node **ret)
{
	auto_free struct erofs_entry *below = NULL, *above = NULL;
	size_t n_below = 0, n_above = 0, i = 0, k = 0;
	int r = erofs_list(run->merge->base, base, &below, &n_below);

	if (r == 0)
		r = erofs_list(run->merge->added, added, &above, &n_above);
	if (r == 0)
		r = add_node(run, added, /* is_added= */ true, ret);
	if (r < 0)
		return r;
	(*ret)->children = xcalloc(n_below + n_above + 1, sizeof(struct erofs_child));
	while (r == 0 && (i < n_below || k < n_above)) {
		int order = i == n_below   ? 1
		            : k == n_above ? -1
		                           : erofs_compare_names(below[i].name, below[i].len,
		                                                 above[k].name, above[k].len);

		if (order < 0)
			r = take(run, &below[i++], /* is_added= */ false, *ret);
		else if (order > 0)
			r = take(run, &above[k++], /* is_added= */ true, *ret);
		else
			r = merge_entries(run, &below[i++], &above[k++], upper_fd, *ret);
	}
	return r;
}

int erofs_merge(const struct erofs_merge *merge, struct erofs_tree *ret)
{
	auto_free struct run *run = xcalloc(1, sizeof(*run));
	struct erofs_inode base, added;
	struct erofs_node *root;
	int r = erofs_inode(merge->base, merge->base->super.root, &base);

	*ret = (struct erofs_tree){.n = 0};
	run->merge = merge;
	run->tree = ret;
	if (r == 0)
		r = erofs_inode(merge->added, merge->added->super.root, &added);
	if (r == 0)
		r = merge_dirs(run, &base, &added, merge->upper_fd, &root);
	if (r == 0)
		root->up = root;
	erofs_links_done(&run->links);
	if (r < 0)
		erofs_tree_free(ret);
	return r;
}

void erofs_tree_free(struct erofs_tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->nodes[i]->children);
		free(t->nodes[i]);
	}
	free(t->nodes);
	*t = (struct erofs_tree){.n = 0};
}
