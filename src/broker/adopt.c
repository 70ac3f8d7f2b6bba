// SPDX-License-Identifier: Apache-2.0
/*
 * The broker may be killed at any instruction. The engine writes a sandbox's record into
 * RUN/sandboxes/ID before it makes anything else, and removes that directory last. So the
 * directories are a complete list of what may exist: living guests, unfinished creates, unfinished
 * deletes. A directory that is not named like a sandbox is not ours and stays.
 */
#include "broker/adopt.h"

#include "base/fs/dir_reader.h"
#include "base/id.h"
#include "base/log.h"

#include <fcntl.h>
#include <string.h>

static int adopt_entry(const char *name, adopt_fn fn, void *arg, struct err *ret_err)
{
	struct err err = {0};
	int r;

	if (!id_is_valid(name, "sb")) {
		log_warn("broker.unknown_entry", "name='%s'", name);
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

int adopt_all(const char *run_dir, adopt_fn fn, void *arg, struct err *err)
{
	auto_free char *path = xasprintf("%s/sandboxes", run_dir);
	auto_dir struct dir_reader dir = {.fd = -1};
	const char *name;
	int r = dir_open(&dir, AT_FDCWD, path);

	if (r == -ENOENT)
		return 0;
	while ((name = dir_next(&dir))) {
		r = adopt_entry(name, fn, arg, err);
		if (r < 0)
			return r;
	}
	return dir.error < 0 ? err_set(err, ERR_INTERNAL, -dir.error, "cannot list '%s'", path) : 0;
}
