// SPDX-License-Identifier: Apache-2.0
/* A result of a sandbox that has ended (sandbox/lifecycle/results.h): a file's bytes, or a
 * directory as a tar. Read from the disk as the client takes it. */
#include "sandbox/lifecycle/results.h"

#include "api/files/file_job.h"
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/handlers.h"

#include <string.h>

#define PIECE ((size_t)64 * 1024)

struct reader {
	struct http_req *req;
	int fd;
	uint64_t left;
};

static void on_done(void *arg)
{
	struct reader *r = arg;

	(void)close(r->fd);
	free(r);
}

static void send_more(void *arg)
{
	struct reader *r = arg;
	char piece[PIECE];

	while (r->left > 0 && http_stream_pending(r->req) < HTTP_HIGH_WATER) {
		ssize_t n = read(r->fd, piece, MIN(sizeof(piece), (size_t)r->left));

		if (n <= 0) { /* it is shorter than its row says */
			http_stream_abort(r->req);
			return;
		}
		r->left -= (uint64_t)n;
		if (http_stream_write(r->req, piece, (size_t)n) < 0)
			return; /* on_done follows */
	}
	if (r->left == 0)
		http_stream_end(r->req);
}

int get_result(struct http_req *req, struct err *err)
{
	const char *path = http_query(req, "path");
	struct result_file file;
	struct reader *reader;
	struct sandbox *s;
	int r = body_file_path(path, "path", err);

	if (r == 0)
		r = find_sandbox(req, &s, err);
	if (r == 0)
		r = results_open(s, path, &file, err);
	if (r < 0)
		return r;
	reader = xnew0(struct reader);
	*reader = (struct reader){.req = req, .fd = file.fd, .left = file.bytes};
	http_on_done(req, on_done, reader);
	http_on_drain(req, send_more, reader);
	file_reply_headers(req, path, file.is_directory ? ".tar" : "");
	http_stream_start(req, 200,
	                  file.is_directory ? "application/x-tar" : "application/octet-stream",
	                  (int64_t)file.bytes);
	if (http_req_method(req) == HTTP_HEAD)
		http_stream_end(req);
	else
		send_more(reader);
	return 0;
}
