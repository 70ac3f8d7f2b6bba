// SPDX-License-Identifier: Apache-2.0
/*
 * A file call is a channel whose output goes to its caller as it comes. Data is passed on without a
 * copy while the caller is not paused. What comes during a pause is held, at most a window, because
 * nothing is acknowledged before the caller has had it. Records are parsed here; a record outside
 * its bounds is a protocol error of the agent.
 *
 * The end, and room for more input, are reported at the end of the turn, so that the caller may
 * start, cancel or end anything from there. Paths are never used on the host.
 */
#include "sandbox/fileops/file_call.h"

#include "sandbox/agentlink/agent_errno.h"
#include "sandbox/model/find.h"
#include "sandbox/model/sandbox_private.h"

struct file_call {
	struct loop *loop;
	struct channel channel;
	const struct file_call_ops *ops;
	void *arg;
	struct buf data, records; /* held back, or a part of a record */
	bool is_paused, is_turn_due, is_room_due;
	bool is_cancelled;
	bool has_exit; /* how it went is known, what it sent may still come */
	bool has_end;  /* nothing more comes */
	bool is_failed, is_truncated;
	char *asked, *path; /* a path that was given as `asked`, and what it became; or NULL */
	struct err err;
};

static void release(struct file_call *c)
{
	buf_done(&c->data);
	buf_done(&c->records);
	free(c->asked);
	free(c->path);
	free(c);
}

static void set_end(struct file_call *c, const struct err *err)
{
	c->has_end = true;
	if (!err || c->is_failed)
		return;
	c->is_failed = true;
	c->err = *err;
}

/* An entry has the path that was asked for. */
static void give_back_path(const struct file_call *c, struct record *r)
{
	if (!c->path || !r->path || strcmp(r->path, c->path) != 0)
		return;
	free(r->path);
	r->path = xstrdup(c->asked);
}

/* Delivers the complete records at the front of their stream; < 0 if they are malformed. */
static int deliver_records(struct file_call *c)
{
	while (!c->is_paused && !c->is_cancelled) {
		struct record record;
		size_t used;
		int r = record_decode(c->records.data, c->records.len, &record, &used);

		if (r <= 0)
			return r;
		buf_consume(&c->records, used);
		give_back_path(c, &record);
		c->ops->on_record(&record, c->arg);
		record_done(&record);
		channel_kept(&c->channel, used);
	}
	return 0;
}

static void deliver_data(struct file_call *c)
{
	size_t len = c->data.len;

	if (len == 0 || c->is_paused || c->is_cancelled)
		return;
	c->ops->on_data(c->data.data, len, c->arg);
	buf_done(&c->data);
	channel_kept(&c->channel, len);
}

static void file_call_on_turn_end(struct loop *loop, void *arg);

static void wake(struct file_call *c)
{
	if (c->is_turn_due)
		return;
	c->is_turn_due = true;
	loop_defer(c->loop, file_call_on_turn_end, c);
}

static void finish(struct file_call *c)
{
	if (!c->is_failed && c->records.len > 0) {
		(void)err_set(&c->err, ERR_GUEST, 0, "the sandbox's agent sent half a record");
		c->is_failed = true;
	}
	c->ops->on_end(c->is_failed ? &c->err : NULL, c->arg);
	release(c);
}

static void file_call_on_turn_end(struct loop *loop, void *arg)
{
	struct file_call *c = arg;
	struct err err;

	(void)loop;
	c->is_turn_due = false;
	if (!c->is_cancelled && deliver_records(c) < 0) {
		(void)err_set(&err, ERR_GUEST, 0, "the sandbox's agent sent a bad record");
		channel_forget(&c->channel);
		buf_done(&c->records);
		set_end(c, &err);
	}
	deliver_data(c);
	if (c->is_room_due && !c->is_cancelled && !c->has_end && c->ops->on_room) {
		c->is_room_due = false;
		c->ops->on_room(c->arg);
	}
	if (c->is_turn_due) /* the caller has asked for another look */
		return;
	if (c->is_cancelled)
		release(c);
	else if (c->has_end && !c->is_paused)
		finish(c);
}

static struct file_call *call_of(struct channel *ch)
{
	return container_of(ch, struct file_call, channel);
}

static int on_record_bytes(struct file_call *c, const char *data, size_t len)
{
	if (!c->ops->on_record || buf_append(&c->records, data, len) < 0)
		return -EPROTO;
	return deliver_records(c);
}

static int on_output(struct channel *ch, enum frame_stream stream, const char *data, size_t len)
{
	struct file_call *c = call_of(ch);

	if (stream == STREAM_RECORD)
		return on_record_bytes(c, data, len);
	if (stream != STREAM_STDOUT || !c->ops->on_data)
		return -EPROTO;
	if (c->is_paused || c->data.len > 0)
		return buf_append(&c->data, data, len) < 0 ? -EPROTO : 0;
	c->ops->on_data(data, len, c->arg);
	channel_kept(ch, len);
	return 0;
}

static void on_gap(struct channel *ch, uint64_t len)
{
	struct file_call *c = call_of(ch);

	(void)len; /* only execs outlive the gateway that reads them */
	c->is_failed = true;
	(void)err_set(&c->err, ERR_GUEST, 0, "the sandbox's agent lost a part of the answer");
}

static void on_room(struct channel *ch)
{
	struct file_call *c = call_of(ch);

	c->is_room_due = true;
	wake(c);
}

static void on_exit_frame(struct channel *ch, const struct channel_exit *x)
{
	struct file_call *c = call_of(ch);

	if (c->has_exit)
		return; /* told again after a resume */
	c->has_exit = true;
	c->is_truncated = x->flags & EXIT_TRUNCATED;
	if (x->how == EXIT_CODE && x->value == 0)
		return;
	c->is_failed = true;
	if (x->how == EXIT_FAILED)
		(void)guest_error((int)x->value, x->message, &c->err);
	else
		(void)err_set(&c->err, ERR_GUEST, 0, "the file operation was killed inside");
}

static void on_closed(struct channel *ch)
{
	struct file_call *c = call_of(ch);

	channel_forget(ch);
	set_end(c, NULL);
	wake(c);
}

static void on_lost(struct channel *ch, const struct err *why)
{
	struct file_call *c = call_of(ch);

	set_end(c, why);
	wake(c);
}

static void on_silent(struct channel *ch)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0, "the sandbox's agent does not answer");
	channel_forget(ch);
	on_lost(ch, &err);
}

static const struct channel_ops channel_ops = {
	.on_output = on_output,
	.on_gap = on_gap,
	.on_room = on_room,
	.on_exit = on_exit_frame,
	.on_closed = on_closed,
	.on_lost = on_lost,
	.on_silent = on_silent,
};

static int start_failed(int r, struct err *err)
{
	if (r == -EINVAL)
		return err_field(err, "path", "is too long, or another field is out of range");
	if (r == -ENOSPC)
		return err_set(err, ERR_LIMIT, 0,
		               "the sandbox has %d execs and file operations under way, which is "
		               "the most",
		               FRAME_CHANNELS);
	return err_set(err, ERR_UNAVAILABLE, -r, "the sandbox's agent accepts no more operations");
}

static bool brings_bytes(enum file_op op)
{
	return op == FILE_WRITE || op == FILE_COPY || op == FILE_TAR_IN || op == FILE_ROOT_IN ||
	       op == FILE_BUNDLE_IN;
}

/* What somebody does with files of the sandbox, as a program there would. */
static bool is_of_user(enum file_op op)
{
	return op >= FILE_READ && op <= FILE_WATCH;
}

/* Where the sandbox's programs begin, a relative path begins too. The agent would begin at home. */
static int place(const struct sandbox *s, const char *field, char **path, char **ret_whole,
                 struct err *err)
{
	const char *cwd = sandbox_cwd(s);

	if (!*path || **path == '/' || !*cwd)
		return 0;
	*ret_whole = xasprintf("%s%s%s", cwd, cwd[strlen(cwd) - 1] == '/' ? "" : "/", *path);
	*path = *ret_whole;
	if (strlen(*path) > START_PATH_MAX)
		return err_field(err, field, "is too long behind the working directory %s", cwd);
	return 0;
}

static int start_on(struct link *l, struct sandbox *s, const struct start *op,
                    const struct file_call_ops *ops, void *arg, struct file_call **ret,
                    struct err *err)
{
	auto_free char *path = NULL, *path2 = NULL;
	struct start start = *op;
	struct file_call *c;
	uint32_t number;
	int r;

	if (!op->path || op->path[0] == '\0')
		return err_field(err, "path", "must not be empty");
	r = brings_bytes(op->op) ? fleet_check_disk(s->fleet, err) : 0;
	if (r == 0 && is_of_user(op->op) && (!op->user || !op->user[0]))
		start.user = unconst(sandbox_user(s));
	if (r == 0 && is_of_user(op->op) && !op->cwd)
		r = place(s, "path", &start.path, &path, err);
	if (r == 0 && (op->op == FILE_MOVE || op->op == FILE_COPY) && !op->cwd)
		r = place(s, "to", &start.path2, &path2, err);
	if (r == 0)
		r = sandbox_take_channel(s, &number, err);
	if (r < 0)
		return r;
	c = xnew0(struct file_call);
	c->asked = path ? xstrdup(op->path) : NULL;
	c->path = take_ptr(path);
	c->loop = s->fleet->config.loop;
	c->ops = ops;
	c->arg = arg;
	buf_init(&c->data, FRAME_WINDOW);
	buf_init(&c->records, FRAME_WINDOW);
	r = channel_start(&c->channel, l, number, &channel_ops, &start);
	if (r < 0) {
		release(c);
		return start_failed(r, err);
	}
	*ret = c;
	return 0;
}

int file_call_start(struct sandbox *s, const struct start *op, const struct file_call_ops *ops,
                    void *arg, struct file_call **ret, struct err *err)
{
	struct link *l = sandbox_link(s, err);

	return l ? start_on(l, s, op, ops, arg, ret, err) : -EAGAIN;
}

int file_call_begin(struct sandbox *s, const struct start *op, const struct file_call_ops *ops,
                    void *arg, struct file_call **ret, struct err *err)
{
	if ((s->state != SANDBOX_CREATING && s->state != SANDBOX_STOPPING) || !s->link ||
	    !link_is_healthy(s->link))
		return file_call_start(s, op, ops, arg, ret, err);
	return start_on(s->link, s, op, ops, arg, ret, err);
}

ssize_t file_call_write(struct file_call *c, const void *data, size_t len)
{
	ssize_t n;

	if (c->is_cancelled || c->has_end)
		return 0; /* on_end is on its way */
	n = channel_write(&c->channel, data, len);
	return n < 0 ? 0 : n;
}

void file_call_finish(struct file_call *c)
{
	channel_end_input(&c->channel);
}

void file_call_pause(struct file_call *c, bool on)
{
	if (c->is_paused == on)
		return;
	c->is_paused = on;
	if (!on)
		wake(c);
}

bool file_call_is_truncated(const struct file_call *c)
{
	return c->is_truncated;
}

void file_call_cancel(struct file_call *c)
{
	channel_forget(&c->channel);
	c->is_cancelled = true;
	wake(c);
}
