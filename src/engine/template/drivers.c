// SPDX-License-Identifier: Apache-2.0
/* Entries follow each other: a head, the path with its NUL, the bytes of a file. */
#include "engine/template/drivers.h"

#include "base/fd.h"
#include "base/fs/walk.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define PLACE "opt/cloche/kernels"

/* src/driver/turn.c, imprint.h and socket.c */
extern const unsigned char driver_turn[], driver_imprint[], driver_socket[];
extern const size_t driver_turn_len, driver_imprint_len, driver_socket_len;

/* Libraries that drivers load. Each is put behind the file that loads it. */
static const struct library {
	const char *user, *path;
	const unsigned char *data;
	const size_t *len;
} libraries[] = {
	/* Python would take turn.so for the module */
	{"python/cloche_kernel/turn.py", "python/cloche_kernel/libturn.so", driver_turn,
         &driver_turn_len},
	{"python/cloche_kernel/imprint.py", "python/cloche_kernel/libimprint.so", driver_imprint,
         &driver_imprint_len},
	{"r/wire.R", "r/libsocket.so", driver_socket, &driver_socket_len},
};

struct head {
	uint32_t is_dir, path_size, len;
};

static bool is_wanted(const struct walk_entry *e)
{
	return strcmp(e->name, "__pycache__") != 0 && strcmp(e->name, "tests") != 0 &&
	       (S_ISDIR(e->st.st_mode) || S_ISREG(e->st.st_mode));
}

static int read_file(const struct walk_entry *e, struct buf *out, uint32_t *ret_len)
{
	auto_fd int fd = openat(e->dir_fd, e->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	size_t len = (size_t)e->st.st_size;
	char *room;
	int r;

	if (fd < 0)
		return -errno;
	r = buf_reserve(out, len, &room);
	if (r == 0)
		r = len > 0 ? fd_read_all(fd, room, len) : 0;
	if (r == 0) {
		buf_commit(out, len);
		*ret_len = (uint32_t)len;
	}
	return r;
}

static int add(const struct walk_entry *e, struct buf *out)
{
	struct head head = {.is_dir = S_ISDIR(e->st.st_mode),
	                    .path_size = (uint32_t)strlen(e->path) + 1};
	size_t at = out->len;
	int r = buf_append(out, &head, sizeof(head));

	if (r == 0)
		r = buf_append(out, e->path, head.path_size);
	if (r == 0 && !head.is_dir)
		r = read_file(e, out, &head.len);
	if (r == 0)
		memcpy(out->data + at, &head, sizeof(head));
	return r;
}

static int add_library(const struct library *l, struct buf *out)
{
	const struct head head = {.path_size = (uint32_t)strlen(l->path) + 1,
	                          .len = (uint32_t)*l->len};
	int r = buf_append(out, &head, sizeof(head));

	if (r == 0)
		r = buf_append(out, l->path, head.path_size);
	return r == 0 ? buf_append(out, l->data, *l->len) : r;
}

/* With the library that it loads, if it does. */
static int add_both(const struct walk_entry *e, struct buf *out)
{
	int r = add(e, out);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(libraries); i++)
		if (strcmp(e->path, libraries[i].user) == 0)
			r = add_library(&libraries[i], out);
	return r;
}

int drivers_read(const char *dir, struct buf *out, struct err *err)
{
	auto_call(walk_freep) struct walk *walk = NULL;
	struct walk_entry e;
	int fd, r;

	if (!dir)
		return 0;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open the kernels '%s'", dir);
	r = walk_new(fd, /* is_lenient= */ false, &walk, err);
	while (r == 0 && (r = walk_next(walk, &e, err)) > 0) {
		r = 0;
		if (e.is_leaving)
			continue;
		if (!is_wanted(&e)) {
			if (S_ISDIR(e.st.st_mode))
				walk_prune(walk);
			continue;
		}
		r = add_both(&e, out);
		if (r < 0)
			return err_set(err, ERR_INTERNAL, -r, "cannot read '%s/%s'", dir, e.path);
	}
	return r < 0 ? r : 0;
}

static int make(int root_fd, const char *name, const struct head *head, const char *data)
{
	char path[PATH_MAX];
	auto_fd int fd = -1;

	if ((size_t)snprintf(path, sizeof(path), PLACE "/%s", name) >= sizeof(path))
		return -ENAMETOOLONG;
	if (head->is_dir)
		return mkdirat(root_fd, path, 0755) < 0 ? -errno : 0;
	fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : fd_write_all(fd, data, head->len);
}

int drivers_write(const struct buf *drivers, int root_fd)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < drivers->len;) {
		const char *path;
		struct head head;

		memcpy(&head, drivers->data + at, sizeof(head));
		path = drivers->data + at + sizeof(head);
		r = make(root_fd, path, &head, path + head.path_size);
		at += sizeof(head) + head.path_size + head.len;
	}
	return r;
}
