// SPDX-License-Identifier: Apache-2.0
/*
 * This runs as root and reads what guests and the gateway wrote. Only the kernel reads guests'
 * files (btrfs send). Everything else is found by names that we choose, and no link is followed.
 *
 * Parts that have not changed since the last backup in the same place are not read. A subvolume is
 * known by the transaction of its last change; an image and a snapshot's memory by their names,
 * since they never change. Their pieces must still be present. A stream that shares extents with
 * another stream is reused only together with that one.
 */
#include "backup/make.h"

#include "backup/cut.h"
#include "backup/subvolume.h"
#include "base/fs/beneath.h"
#include "base/fs/dir_reader.h"
#include "base/fs/walk.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define FROZEN        "backup" /* in layers/ and templates/ (engine/guest/backup.h) */
#define FILES         "files"
#define READ_SIZE     (1 << 20)
#define MANIFEST_TEXT (256U << 20)

struct node {       /* a frozen subvolume */
	char *path; /* of the part */
	int fd;
	struct subvolume_info frozen, source; /* source.id 0: it is gone */
	uint64_t limit_bytes, used_bytes;
	const struct node *shared; /* whose extents it may have */
	bool is_reused;
};

struct make {
	const struct make_source *source;
	struct content *content;
	int data_fd;
	struct manifest manifest, last; /* last: of the backup before, or empty */
	void (*progress)(uint64_t bytes, void *arg);
	void *arg;
	struct make_result *result;
	struct buf waiting; /* what is not cut yet */
	struct part *part;  /* that is being read */
	struct node *nodes;
	size_t n_nodes;
};

static int lost(const char *what, struct err *err)
{
	(void)err_set(err, ERR_UNAVAILABLE, errno, "'%s' is not there", what);
	return err_hint(err,
	                "the daemon ended the backup, or it is not on this machine; try again");
}

/* Stores the waiting bytes in pieces; is_end: all of them. */
static int cut(struct make *m, bool is_end, struct err *err)
{
	while (m->waiting.len >= CHUNK_MAX || (is_end && m->waiting.len > 0)) {
		size_t len = cut_find((const unsigned char *)m->waiting.data, m->waiting.len);
		struct digest digest;
		int r = content_put(m->content, m->waiting.data, len, &digest, err);

		if (r < 0)
			return r;
		part_add_chunk(m->part, &digest);
		buf_consume(&m->waiting, len);
	}
	return 0;
}

static int take(const void *data, size_t len, void *arg, struct err *err)
{
	struct make *m = arg;
	int r = buf_append(&m->waiting, data, len);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot hold what was read");
	m->part->bytes += len;
	m->result->read += len;
	if (m->progress)
		m->progress(len, m->arg);
	return cut(m, /* is_end= */ false, err);
}

static int take_file(struct make *m, int fd, struct err *err)
{
	static char data[READ_SIZE];
	ssize_t n;
	int r = 0;

	while (r == 0 && (n = read(fd, data, sizeof(data))) != 0) {
		if (n > 0)
			r = take(data, (size_t)n, m, err);
		else if (errno != EINTR)
			r = err_set(err, ERR_INTERNAL, errno, "cannot read '%s'", m->part->path);
	}
	return r < 0 ? r : cut(m, /* is_end= */ true, err);
}

/* Reuses the same part of the last backup, if all its pieces are there. */
static bool reuse(struct make *m, struct part *p, const struct part *old)
{
	for (size_t i = 0; i < old->n_chunks; i++)
		if (!content_has(m->content, &old->chunks[i]))
			return false;
	for (size_t i = 0; i < old->n_chunks; i++)
		part_add_chunk(p, &old->chunks[i]);
	p->bytes = old->bytes;
	return true;
}

static int add_file(struct make *m, int fd, const char *path, bool is_fixed, struct err *err)
{
	const struct part *old = is_fixed ? manifest_find(&m->last, path) : NULL;
	struct part *p;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot look at '%s'", path);
	p = m->part = manifest_add(&m->manifest, PART_FILE, path);
	p->mode = st.st_mode & 07777;
	p->is_gateways = strncmp(path, "gateway/", 8) == 0;
	m->result->files++;
	if (old && old->kind == PART_FILE && old->bytes == (uint64_t)st.st_size && reuse(m, p, old))
		return 0;
	return take_file(m, fd, err);
}

static int add_named(struct make *m, const char *from, const char *path, bool is_fixed,
                     struct err *err)
{
	auto_fd int fd = beneath_open(m->data_fd, from, O_RDONLY);

	if (fd < 0)
		return lost(from, err);
	return add_file(m, fd, path, is_fixed, err);
}

static void add_dir(struct make *m, const char *path, uint32_t mode)
{
	struct part *p = manifest_add(&m->manifest, PART_DIRECTORY, path);

	p->mode = mode & 07777;
	p->is_gateways = strcmp(path, "gateway") == 0 || strncmp(path, "gateway/", 8) == 0;
}

static int add_link(struct make *m, const struct walk_entry *e, struct err *err)
{
	char target[4096];
	ssize_t n = readlinkat(e->dir_fd, e->name, target, sizeof(target) - 1);

	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the link '%s'", e->path);
	target[n] = '\0';
	manifest_add(&m->manifest, PART_LINK, e->path)->target = xstrdup(target);
	return 0;
}

/* Files that are handled elsewhere, or that the daemon makes again by itself; and the master keys:
 * with them, whoever has a backup could open the secrets in it, seal an export, or certify names.
 */
static bool is_passed_over(const char *path)
{
	static const char *const names[] = {"layers",         "layers.btrfs",  "layers.btrfs.new",
	                                    "reserve",        "lost+found",    "templates",
	                                    "gateway/backup", "secrets.key",   "secrets.key.new",
	                                    "audit.key",      "audit.key.new", "authority"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(path, names[i]) == 0)
			return true;
	return strncmp(path, "gateway/state.db", 16) == 0;
}

/* Spools and logs that vanish meanwhile are not needed any more. */
static int add_entry(struct make *m, const struct walk_entry *e, struct err *err)
{
	auto_fd int fd = -1;

	if (S_ISLNK(e->st.st_mode))
		return add_link(m, e, err);
	if (S_ISDIR(e->st.st_mode)) {
		add_dir(m, e->path, e->st.st_mode);
		return 0;
	}
	if (!S_ISREG(e->st.st_mode))
		return 0;
	fd = openat(e->dir_fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT
		               ? 0
		               : err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", e->path);
	return add_file(m, fd, e->path, /* is_fixed= */ false, err);
}

static int add_data_dir(struct make *m, struct err *err)
{
	auto_call(walk_freep) struct walk *w = NULL;
	struct walk_entry e;
	int r = walk_new(fcntl(m->data_fd, F_DUPFD_CLOEXEC, 0), /* is_lenient= */ false, &w, err);

	while (r >= 0 && (r = walk_next(w, &e, err)) > 0) {
		if (e.is_leaving)
			continue;
		if (is_passed_over(e.path))
			walk_prune(w);
		else
			r = add_entry(m, &e, err);
	}
	return r;
}

static int add_database(struct make *m, struct err *err)
{
	auto_free char *from = xasprintf("gateway/%s", m->source->database);
	int r = add_named(m, from, "gateway/state.db", /* is_fixed= */ false, err);

	if (r == 0 && m->part->bytes != m->source->database_bytes)
		r = lost(from, err);
	return r;
}

/* Names in a directory that the daemon froze. There must be as many as the daemon said. */
static int each_frozen(struct make *m, const char *dir, uint64_t n_told,
                       int (*fn)(struct make *m, const char *name, struct err *err),
                       struct err *err)
{
	auto_free char *place = xasprintf("%s/" FROZEN, dir);
	auto_fd int fd = beneath_open(m->data_fd, place, O_RDONLY | O_DIRECTORY);
	struct dir_reader names;
	const char *name;
	uint64_t n = 0;
	int r = fd < 0 ? lost(place, err) : 0;

	if (r == 0 && dir_begin(&names, fd) < 0)
		r = lost(place, err);
	while (r == 0 && (name = dir_next(&names))) {
		n++;
		r = fn(m, name, err);
	}
	if (r == 0 && (names.error < 0 || n != n_told))
		r = lost(place, err);
	return r;
}

/* Plain files in a directory, without those in others. */
static int add_plain(struct make *m, const char *from, const char *to, struct err *err)
{
	auto_fd int fd = beneath_open(m->data_fd, from, O_RDONLY | O_DIRECTORY);
	struct dir_reader dir;
	struct stat st;
	const char *name;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : lost(from, err);
	add_dir(m, to, 0700);
	if (dir_begin(&dir, fd) < 0)
		return lost(from, err);
	while (r == 0 && (name = dir_next(&dir))) {
		auto_free char *path = xasprintf("%s/%s", to, name);
		auto_fd int file_fd = -1;

		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		file_fd = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		r = file_fd < 0 ? lost(path, err)
		                : add_file(m, file_fd, path, /* is_fixed= */ true, err);
	}
	return r == 0 && dir.error < 0 ? lost(from, err) : r;
}

static int add_template(struct make *m, const char *name, struct err *err)
{
	auto_free char *from = xasprintf("templates/" FROZEN "/%s", name);
	auto_free char *to = xasprintf("templates/%s", name);

	m->result->templates++;
	return add_plain(m, from, to, err);
}

static int measure(struct node *n, const char *original, int data_fd, struct err *err)
{
	auto_fd int fd = beneath_open(data_fd, original, O_RDONLY | O_DIRECTORY);
	int r = subvolume_info(n->fd, &n->frozen, err);

	if (r < 0 || fd < 0)
		return r; /* the original may be gone by now */
	r = subvolume_info(fd, &n->source, err);
	if (r < 0)
		return r;
	if (strcmp(n->source.uuid, n->frozen.parent_uuid) != 0)
		n->source = (struct subvolume_info){0}; /* another took its place */
	(void)!btrfs_get_limit(fd, &n->limit_bytes);
	(void)!btrfs_usage(fd, &n->used_bytes);
	return 0;
}

static int add_node(struct make *m, const char *name, struct err *err)
{
	auto_free char *frozen = xasprintf("layers/" FROZEN "/%s/" FILES, name);
	const bool is_snapshot = id_is_valid(name, "sn");
	struct node *n;

	m->result->snapshots += is_snapshot;
	m->result->volumes += id_is_valid(name, "vo");
	m->result->sandboxes += id_is_valid(name, "sb");
	m->nodes = xrealloc(m->nodes, (m->n_nodes + 1) * sizeof(*m->nodes));
	n = &m->nodes[m->n_nodes];
	*n = (struct node){.path = xasprintf("layers/%s%s", name, is_snapshot ? "/" FILES : "")};
	n->fd = beneath_open(m->data_fd, frozen, O_RDONLY | O_DIRECTORY);
	m->n_nodes++;
	return n->fd < 0 ? lost(frozen, err) : measure(n, n->path, m->data_fd, err);
}

/* Older subvolumes come before those that were made from them. */
static int by_age(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return x->source.id < y->source.id ? -1 : x->source.id > y->source.id;
}

/* The subvolume that it was made from, or else the oldest one with the same origin. */
static void find_shared(struct make *m, struct node *n)
{
	if (!n->source.parent_uuid[0])
		return;
	for (const struct node *p = m->nodes; p < n; p++)
		if (strcmp(p->frozen.parent_uuid, n->source.parent_uuid) == 0) {
			n->shared = p;
			return;
		}
	for (const struct node *p = m->nodes; p < n && !n->shared; p++)
		if (strcmp(p->source.parent_uuid, n->source.parent_uuid) == 0)
			n->shared = p;
}

/* Reuses its stream of the last backup, if it has not changed. */
static bool reuse_node(struct make *m, const struct node *n, struct part *p)
{
	const struct part *old = manifest_find(&m->last, p->path);

	if (!old || old->kind != PART_SUBVOLUME ||
	    strcmp(old->source_uuid, n->frozen.parent_uuid) != 0 ||
	    old->source_transid != n->frozen.transid)
		return false;
	if (!old->parent != !n->shared ||
	    (n->shared && (!n->shared->is_reused || strcmp(old->parent, n->shared->path) != 0)))
		return false;
	if (!reuse(m, p, old))
		return false;
	memcpy(p->stream_uuid, old->stream_uuid, UUID_SIZE);
	memcpy(p->parent_uuid, old->parent_uuid, UUID_SIZE);
	return true;
}

static int add_subvolume(struct make *m, struct node *n, struct err *err)
{
	struct part *p = m->part = manifest_add(&m->manifest, PART_SUBVOLUME, n->path);
	int r;

	find_shared(m, n);
	memcpy(p->stream_uuid, n->frozen.stream_uuid, UUID_SIZE);
	memcpy(p->source_uuid, n->frozen.parent_uuid, UUID_SIZE);
	p->source_transid = n->frozen.transid;
	p->parent = n->shared ? xstrdup(n->shared->path) : NULL;
	if (n->shared)
		memcpy(p->parent_uuid, n->shared->frozen.stream_uuid, UUID_SIZE);
	p->limit_bytes = n->limit_bytes;
	p->used_bytes = n->used_bytes;
	n->is_reused = reuse_node(m, n, p);
	if (n->is_reused)
		return 0;
	r = subvolume_send(n->fd, n->shared ? n->shared->frozen.id : 0, take, m, err);
	if (r == 0)
		r = cut(m, /* is_end= */ true, err);
	return r < 0 ? err_prefix(err, "%s", n->path) : 0;
}

/* Adds what lies beside a snapshot's files: its description and its memory. */
static int add_snapshot_files(struct make *m, const char *name, struct err *err)
{
	auto_free char *from = xasprintf("layers/" FROZEN "/%s", name);
	auto_free char *to = xasprintf("layers/%s", name);
	auto_free char *memory_from = xasprintf("%s/memory", from);
	auto_free char *memory_to = xasprintf("%s/memory", to);
	int r;

	if (!id_is_valid(name, "sn"))
		return 0;
	r = add_plain(m, from, to, err);
	return r < 0 ? r : add_plain(m, memory_from, memory_to, err);
}

static int add_layers(struct make *m, struct err *err)
{
	int r = each_frozen(m, "layers", m->source->layers, add_snapshot_files, err);

	if (r == 0)
		r = each_frozen(m, "layers", m->source->layers, add_node, err);
	if (r == 0 && m->n_nodes > 0)
		qsort(m->nodes, m->n_nodes, sizeof(*m->nodes), by_age);
	for (size_t i = 0; r == 0 && i < m->n_nodes; i++)
		r = add_subvolume(m, &m->nodes[i], err);
	return r;
}

static int know_one(const char *name, void *arg, struct err *err)
{
	struct make *m = arg;
	auto_call(buf_done) struct buf text = BUF_INIT(MANIFEST_TEXT);
	struct manifest one;
	struct err ignored;

	(void)err;
	/* A damaged manifest is not used here; verify and restore report it. */
	if (content_read(m->content, name, &text, &ignored) < 0 ||
	    manifest_parse(text.data, text.len, &one, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < one.n_parts; i++)
		for (size_t k = 0; k < one.parts[i].n_chunks; k++)
			content_know(m->content, &one.parts[i].chunks[k]);
	manifest_done(&m->last);
	m->last = one;
	return 0;
}

static int commit(struct make *m, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(MANIFEST_TEXT);
	int r = manifest_to_text(&m->manifest, &text, err);

	return r < 0 ? r : content_commit(m->content, m->source->at_us, text.data, text.len, err);
}

static int run(struct make *m, struct err *err)
{
	/* Links come last, so that a restore writes nothing through one. */
	static int (*const steps[])(struct make * m, struct err * err) = {add_database, add_layers,
	                                                                  add_data_dir};
	int r = content_each(m->content, know_one, m, err);

	if (r == 0)
		r = each_frozen(m, "templates", m->source->templates, add_template, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++)
		r = steps[i](m, err);
	return r < 0 ? r : commit(m, err);
}

int make_backup(const struct make_source *source, struct content *content,
                void (*progress)(uint64_t bytes, void *arg), void *arg, struct make_result *ret,
                struct err *err)
{
	struct make m = {.source = source,
	                 .content = content,
	                 .progress = progress,
	                 .arg = arg,
	                 .result = ret};
	struct utsname host;
	int r;

	*ret = (struct make_result){0};
	(void)uname(&host);
	m.manifest = (struct manifest){.version = xstrdup(source->version),
	                               .arch = xstrdup(host.machine),
	                               .kernel = xstrdup(host.release),
	                               .at_us = source->at_us,
	                               .left_out = source->left_out};
	(void)snprintf(m.manifest.id, sizeof(m.manifest.id), "%s", source->id);
	buf_init(&m.waiting, CHUNK_MAX + READ_SIZE);
	m.data_fd = open(source->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = m.data_fd < 0 ? lost(source->data_dir, err) : run(&m, err);
	ret->bytes = manifest_bytes(&m.manifest);
	ret->added = content_added(content);
	for (size_t i = 0; i < m.n_nodes; i++) {
		if (m.nodes[i].fd >= 0)
			(void)close(m.nodes[i].fd);
		free(m.nodes[i].path);
	}
	free(m.nodes);
	buf_done(&m.waiting);
	manifest_done(&m.manifest);
	manifest_done(&m.last);
	if (m.data_fd >= 0)
		(void)close(m.data_fd);
	return r;
}
