// SPDX-License-Identifier: Apache-2.0
/*
 * The broker may be killed at any instruction. The engine writes a sandbox's record into
 * RUN/sandboxes/ID before it makes anything else of it and removes that directory last, so the
 * directories are a complete list of what there may be to find: living guests, halves of a create,
 * halves of a delete. What is not named like a sandbox is not ours and stays.
 */
#include "broker/adopt.h"

#include "base/id.h"
#include "base/log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

static int adopt_entry(const char *name, adopt_fn fn, void *arg, struct err *ret_err)
{
	struct err err = {0};
	int r;

	if (!id_is_valid(name, "sb")) {
		log_warn("broker.stranger", "name='%s'", name);
		return 0;
	}
	r = fn(name, &err, arg);
	if (r == 0)
		log_info("sandbox.adopted", "id=%s", name);
	else if (r == -ESRCH)
		log_info("sandbox.found_dead", "id=%s", name);
	else
		log_error("sandbox.not_adopted", "id=%s error='%s'", name, err.message);
	if (r != -EPROTONOSUPPORT)
		return 0;
	*ret_err = err;
	return err_hint(ret_err, "start the cloche that made it, or end it with that one's "
	                         "`cloche serve --sweep`");
}

/* As the kernel writes it (getdents64(2)). Nothing between it and the bytes: no DIR to allocate. */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t size;
	uint8_t type;
	char name[];
};

int adopt_all(const char *run_dir, adopt_fn fn, void *arg, struct err *err)
{
	auto_free char *path = xasprintf("%s/sandboxes", run_dir);
	auto_fd int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_Alignas(struct entry) char batch[4096];
	long n;
	int r;

	if (dir_fd < 0 && errno == ENOENT)
		return 0;
	if (dir_fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot open '%s'", path);
	while ((n = syscall(SYS_getdents64, dir_fd, batch, sizeof(batch))) > 0) {
		for (long at = 0; at < n; at += ((struct entry *)(void *)(batch + at))->size) {
			const struct entry *e = (struct entry *)(void *)(batch + at);

			if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0)
				continue;
			r = adopt_entry(e->name, fn, arg, err);
			if (r < 0)
				return r;
		}
	}
	if (n < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot list '%s'", path);
	return 0;
}
