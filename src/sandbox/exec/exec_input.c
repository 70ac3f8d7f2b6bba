// SPDX-License-Identifier: Apache-2.0
/* What a client sends to a running exec: stdin, signals, the size of its terminal. */
#include "base/log.h"
#include "sandbox/exec/exec_feed.h"
#include "sandbox/exec/exec_private.h"

#include <endian.h>
#include <signal.h>

static int check_open(const struct exec *e, struct err *err)
{
	if (exec_is_over(e) || e->is_removed || !e->channel.link)
		return err_set(err, ERR_GONE, 0, "exec %s has ended", e->id);
	return 0;
}

static int check_stdin(const struct exec *e, struct err *err)
{
	int r = check_open(e, err);

	if (r < 0)
		return r;
	if (!e->has_stdin)
		return err_set(err, ERR_CONFLICT, 0, "exec %s has no open stdin", e->id);
	return 0;
}

bool exec_has_closed_stdin(const struct exec *e)
{
	return e->channel.is_input_refused && !e->is_stdin_ended;
}

ssize_t exec_put_stdin(struct exec *e, const void *data, size_t len, struct err *err)
{
	int r = check_stdin(e, err);
	ssize_t n;

	if (r < 0)
		return r;
	if (e->is_stdin_ended)
		return err_set(err, ERR_CONFLICT, 0, "the stdin of exec %s is closed", e->id);
	if (exec_has_closed_stdin(e))
		return err_set(err, ERR_CONFLICT, 0,
		               "the program of exec %s has closed its stdin, and will read no more",
		               e->id);
	n = channel_write(&e->channel, data, len);
	if (n < 0)
		return err_set(err, ERR_CONFLICT, (int)-n, "exec %s reads no more input", e->id);
	return n;
}

ssize_t exec_write_stdin(struct exec *e, const void *data, size_t len, struct err *err)
{
	int r = list_empty(&e->feeds) ? 1 : check_stdin(e, err);

	return r <= 0 ? r : exec_put_stdin(e, data, len, err);
}

int exec_put_stdin_end(struct exec *e, struct err *err)
{
	int r = check_stdin(e, err);

	if (r < 0)
		return r;
	e->is_stdin_ended = true;
	channel_end_input(&e->channel);
	return 0;
}

int exec_close_stdin(struct exec *e, struct err *err)
{
	int r = check_stdin(e, err);

	if (r < 0 || e->is_stdin_end_due)
		return r;
	if (list_empty(&e->feeds))
		return exec_put_stdin_end(e, err);
	e->is_stdin_end_due = true;
	(void)exec_feed(e, NULL, 0, /* closes= */ true, NULL, NULL);
	return 0;
}

static int send_frame(struct exec *e, enum frame_type type, const void *payload, size_t len,
                      struct err *err)
{
	int r = check_open(e, err);

	if (r < 0)
		return r;
	r = channel_send(&e->channel, type, payload, len);
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r, "the sandbox's agent does not answer");
	link_flush(e->channel.link);
	return 0;
}

int exec_signal(struct exec *e, int signo, bool whole_tree, struct err *err)
{
	unsigned char payload[2] = {(unsigned char)signo, whole_tree ? SCOPE_TREE : SCOPE_GROUP};

	if (signo < 1 || signo > 64)
		return err_field(err, "signal", "must be from 1 to 64");
	return send_frame(e, FRAME_SIGNAL, payload, sizeof(payload), err);
}

void exec_kill(struct exec *e)
{
	struct err err;

	if (!exec_is_over(e) && exec_signal(e, SIGKILL, /* whole_tree= */ true, &err) < 0)
		log_warn("exec.not_killed", "id=%s why='%s'", e->id, err.message);
}

int exec_resize(struct exec *e, uint16_t rows, uint16_t cols, struct err *err)
{
	uint16_t payload[2] = {htole16(rows), htole16(cols)};

	if (!e->has_pty)
		return err_set(err, ERR_CONFLICT, 0, "exec %s has no terminal", e->id);
	return send_frame(e, FRAME_RESIZE, payload, sizeof(payload), err);
}
