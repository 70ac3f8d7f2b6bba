// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"
#include "base/parse.h"

#include <fcntl.h>
#include <string.h>

static int read_fd(const char *text, int *ret)
{
	uint64_t fd;

	if (parse_u64(text, 1 << 20, &fd) < 0 || fcntl((int)fd, F_GETFD) < 0)
		return -EBADF;
	*ret = (int)fd;
	return 0;
}

static int read_fd_variable(const char *name, int *ret, struct err *err)
{
	const char *text = getenv(name);

	*ret = -1;
	if (!text)
		return 0;
	if (read_fd(text, ret) < 0)
		return err_set(err, ERR_INTERNAL, EBADF, "%s: '%s' is no open fd", name, text);
	return 0;
}

static int read_cgroup_fds(struct settings *s, struct err *err)
{
	const char *at = getenv("CLOCHE_CGROUP_FDS");

	while (at && *at) {
		size_t len = strcspn(at, ",");
		auto_free char *word = xstrndup(at, len);

		if (s->n_cgroup_fds == CGROUP_FDS_MAX ||
		    read_fd(word, &s->cgroup_fds[s->n_cgroup_fds++]) < 0)
			return err_set(err, ERR_INTERNAL, EBADF, "CLOCHE_CGROUP_FDS: '%s'", word);
		at += len + (at[len] == ',');
	}
	return 0;
}

int settings_read(struct settings *ret, struct err *err)
{
	struct settings s = {.is_init = getpid() == 1, .group_fd = -1, .kernel_random_fd = -1};
	const char *open_files = getenv("CLOCHE_NOFILE"), *caps = getenv("CLOCHE_CAPS_ROOT");
	int r;

	r = read_fd_variable("CLOCHE_LISTEN_FD", &s.listen_fd, err);
	if (r >= 0)
		r = read_fd_variable("CLOCHE_READY_FD", &s.ready_fd, err);
	if (r >= 0)
		r = read_fd_variable("CLOCHE_PORT_FD", &s.port_fd, err);
	if (r >= 0)
		r = read_cgroup_fds(&s, err);
	if (r < 0)
		return r;
	if (s.listen_fd < 0 && s.port_fd < 0)
		return err_set(err, ERR_INTERNAL, EINVAL, "CLOCHE_LISTEN_FD is not set");
	if (open_files && parse_u64(open_files, UINT32_MAX, &s.open_files) < 0)
		return err_set(err, ERR_INTERNAL, EINVAL, "CLOCHE_NOFILE: '%s'", open_files);
	if (caps && parse_hex(caps, strlen(caps), &s.root_caps) < 0)
		return err_set(err, ERR_INTERNAL, EINVAL, "CLOCHE_CAPS_ROOT: '%s'", caps);
	*ret = s;
	return 0;
}
