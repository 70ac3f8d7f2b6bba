// SPDX-License-Identifier: Apache-2.0
/*
 * Imprints: the memory of an interpreter, with which another one goes on in a copy of its sandbox.
 * The driver is asked by `save`, and answers when its memory is fixed; from then on no call runs
 * until the caller has copied the files too. The bytes come later, as an fd that the agent passes
 * (src/agent/process/imprint_arrival.h). To start with an imprint is a start by a zygote; if that
 * fails there is no other way, and the caller is told.
 */
#include "base/fd.h"
#include "base/id.h"
#include "sandbox/code/interpreter.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

static void watch(struct context *c, const struct interpreter_watch *w, void *arg)
{
	c->watch = w;
	c->watch_arg = arg;
}

void interpreter_unwatch(struct context *c)
{
	channel_forgo_imprint(&c->channel);
	watch(c, NULL, NULL);
}

void interpreter_save(struct context *c, uint64_t room, const struct interpreter_watch *w,
                      void *arg)
{
	char text[24];
	const int len = snprintf(text, sizeof(text), "%" PRIu64, room);

	random_bytes(&c->saving, sizeof(c->saving));
	c->saving |= UINT32_C(1) << 31; /* as no call's number is, nor will be for long */
	c->state = CONTEXT_BUSY;
	watch(c, w, arg);
	channel_await_imprint(&c->channel);
	if (driver_message_put_head(&c->out, "save", c->saving, (size_t)len) < 0 ||
	    buf_append(&c->out, text, (size_t)len) < 0)
		abort(); /* it was empty */
	interpreter_write(c);
}

int interpreter_on_saved(struct context *c, const struct driver_message *m)
{
	auto_free char *why = driver_message_refusal(m);
	struct driver_message_done done;

	if (m->verb != DRIVER_MESSAGE_DONE || driver_message_done(m, &done) < 0 || c->out.len > 0)
		return -EPROTO;
	c->saving = 0;
	c->is_held = !why && c->watch;
	if (!c->is_held) {
		c->state = CONTEXT_IDLE;
		interpreter_wake(c);
	}
	if (c->watch)
		c->watch->on_saved(c, why, c->watch_arg);
	return 0;
}

void interpreter_hold(struct context *c, const struct interpreter_watch *w, void *arg)
{
	c->state = CONTEXT_BUSY;
	c->is_held = true;
	watch(c, w, arg);
}

void interpreter_release(struct context *c)
{
	if (!c->is_held)
		return;
	c->is_held = false;
	c->state = CONTEXT_IDLE;
	interpreter_wake(c);
}

void interpreter_on_imprint(struct context *c, int fd, const char *why)
{
	if (c->watch)
		c->watch->on_imprint(c, fd, why, c->watch_arg);
	else
		close_fd(&fd);
}

int interpreter_start_copied(struct context *c, int fd, const struct interpreter_watch *w,
                             void *arg, struct err *err)
{
	int r;

	c->imprint_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (c->imprint_fd < 0)
		return err_set(err, ERR_CAPACITY, errno, "no fd is left");
	r = interpreter_start(c, err);
	if (r < 0)
		close_fd(&c->imprint_fd);
	else
		watch(c, w, arg);
	return r;
}

void interpreter_tell_ready(struct context *c)
{
	const struct interpreter_watch *w = c->watch;
	void *arg = c->watch_arg;

	close_fd(&c->imprint_fd);
	interpreter_unwatch(c);
	if (w)
		w->on_ready(c, arg);
}

void interpreter_tell_lost(struct context *c, const char *why)
{
	const struct interpreter_watch *w = c->watch;
	void *arg = c->watch_arg;

	close_fd(&c->imprint_fd);
	interpreter_unwatch(c);
	if (w)
		w->on_lost(c, why, arg);
}
