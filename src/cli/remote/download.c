// SPDX-License-Identifier: Apache-2.0
#include "cli/remote/download.h"

#include "base/fd.h"
#include "cli/term/progress.h"

#include <fcntl.h>
#include <stdio.h>

#define COPY_SIZE (256 * 1024)

static int receive(struct remote *remote, const char *url, const char *accept, int fd,
                   struct err *err)
{
	const struct remote_request request = {.accept = accept};
	struct http_client *client = remote_client(remote);
	auto_free char *data = xcalloc(1, COPY_SIZE);
	struct progress progress;
	const char *length;
	ssize_t n;
	int r = remote_begin(remote, "GET", url, &request, err);

	if (r < 0)
		return r;
	length = http_client_header(client, "Content-Length");
	progress_init(&progress, length ? strtoull(length, NULL, 10) : 0);
	do {
		n = http_client_read(client, data, COPY_SIZE);
		if (n == -EINTR)
			continue;
		if (n < 0)
			r = err_set(err, ERR_UNAVAILABLE, (int)-n, "the transfer broke off");
		else if (n > 0)
			r = fd_write_all(fd, data, (size_t)n);
		if (n > 0 && r < 0)
			(void)err_set(err, ERR_INTERNAL, -r, "cannot write the archive");
		if (n > 0)
			progress_add(&progress, (uint64_t)n);
	} while (r == 0 && n != 0);
	progress_done(&progress);
	return r;
}

static int receive_file(struct remote *remote, const char *url, const char *accept,
                        const char *path, struct err *err)
{
	auto_free char *part = xasprintf("%s.%d.part", path, (int)getpid());
	auto_fd int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int r;

	if (fd < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	r = receive(remote, url, accept, fd, err);
	if (r == 0 && rename(part, path) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "cannot make '%s'", path);
	if (r < 0)
		(void)unlink(part);
	return r;
}

int download(struct remote *remote, const char *url, const char *accept, const char *path,
             struct err *err)
{
	return path ? receive_file(remote, url, accept, path, err)
	            : receive(remote, url, accept, STDOUT_FILENO, err);
}
