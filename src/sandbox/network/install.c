// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network/install.h"

#include "sandbox/fileops/file_call.h"
#include "sandbox/model/sandbox_private.h"

#include <string.h>

#define PATIENCE_US UINT64_C(5000000)

struct install {
	struct sandbox *sandbox;
	struct loop *loop;
	const struct start *op;
	char *text;
	install_fn done;
	void *arg;
	struct loop_timer *timer;
	struct file_call *call;
	size_t n_written;
};

static void install_free(struct install *t)
{
	if (t->call)
		file_call_cancel(t->call);
	loop_timer_free(t->timer);
	free(t->text);
	free(t);
}

void install_cancel(struct install *t)
{
	if (t)
		install_free(t);
}

static void finish(struct install *t, const struct err *err)
{
	install_fn done = t->done;
	void *arg = t->arg;

	install_free(t);
	done(err, arg);
}

static void on_too_late(struct loop *loop, void *arg)
{
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "it takes too long inside");
	finish(arg, &err);
}

static void send_more(struct install *t)
{
	size_t len = strlen(t->text);
	ssize_t n = file_call_write(t->call, t->text + t->n_written, len - t->n_written);

	t->n_written += (size_t)n;
	if (t->n_written == len)
		file_call_finish(t->call);
}

static void on_room(void *arg)
{
	struct install *t = arg;

	if (t->n_written < strlen(t->text))
		send_more(t);
}

static void on_end(const struct err *err, void *arg)
{
	struct install *t = arg;

	t->call = NULL;
	finish(t, err);
}

static int start(struct install *t, struct err *err)
{
	static const struct file_call_ops ops = {.on_room = on_room, .on_end = on_end};
	int r = file_call_begin(t->sandbox, t->op, &ops, t, &t->call, err);

	if (r == 0)
		send_more(t);
	return r;
}

static void on_begin(struct loop *loop, void *arg)
{
	struct install *t = arg;
	struct err err;

	(void)loop;
	loop_timer_free(t->timer);
	t->timer = loop_timer_new(t->loop, on_too_late, t);
	loop_timer_set_in(t->timer, PATIENCE_US);
	if (start(t, &err) < 0)
		finish(t, &err);
}

struct install *install_new(struct sandbox *s, const struct start *op, const char *text,
                            install_fn done, void *arg)
{
	struct install *t = xnew0(struct install);

	t->sandbox = s;
	t->loop = s->fleet->config.loop;
	t->op = op;
	t->text = xstrdup(text);
	t->done = done;
	t->arg = arg;
	t->timer = loop_timer_new(t->loop, on_begin, t);
	loop_timer_set_in(t->timer, 0);
	return t;
}
