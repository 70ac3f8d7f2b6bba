// SPDX-License-Identifier: Apache-2.0
#include "engine/linux/pidns.h"

#include "base/fd.h"
#include "base/fs/dir_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A dead process keeps its namespace until it is reaped. */
static bool is_inside(int proc_fd, const char *pid, const struct stat *ns)
{
	struct stat st;
	char path[32];

	(void)snprintf(path, sizeof(path), "%.16s/ns/pid", pid);
	return fstatat(proc_fd, path, &st, 0) == 0 && st.st_dev == ns->st_dev &&
	       st.st_ino == ns->st_ino;
}

static bool has_parent_inside(int proc_fd, const char *pid, const struct stat *ns)
{
	char path[32], text[512], parent[16];
	const char *p;

	(void)snprintf(path, sizeof(path), "%.16s/stat", pid);
	if (fd_read_file(proc_fd, path, text, sizeof(text)) < 0)
		return true;    /* it has ended meanwhile */
	p = strrchr(text, ')'); /* the name before it may hold anything */
	if (!p || strlen(p) < sizeof(") S "))
		return true;
	p += strlen(") S ");
	(void)snprintf(parent, sizeof(parent), "%.*s", (int)strspn(p, "0123456789"), p);
	return is_inside(proc_fd, parent, ns);
}

bool pidns_is_held(pid_t first)
{
	auto_dir struct dir_reader proc = {.fd = -1};
	struct stat ns;
	char path[32];
	const char *pid;

	(void)snprintf(path, sizeof(path), "%d/ns/pid", (int)first);
	if (dir_open(&proc, AT_FDCWD, "/proc") < 0 || fstatat(proc.fd, path, &ns, 0) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "%d", (int)first);
	while ((pid = dir_next(&proc)))
		if (strspn(pid, "0123456789") == strlen(pid) && strcmp(pid, path) != 0 &&
		    is_inside(proc.fd, pid, &ns) && !has_parent_inside(proc.fd, pid, &ns))
			return true;
	return false;
}
