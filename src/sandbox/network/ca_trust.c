// SPDX-License-Identifier: Apache-2.0
/*
 * Installing is one operation of the agent, as root of the sandbox. It is repeated each time the
 * sandbox starts: nothing is assumed about its files.
 */
#include "sandbox/network/ca_trust.h"

#include "proto/trust.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/model/sandbox_private.h"

#include <string.h>

#define PATIENCE_US UINT64_C(5000000)

struct ca_trust {
	struct sandbox *sandbox;
	struct loop *loop;
	char *certificate;
	ca_trust_fn done;
	void *arg;
	struct loop_timer *timer;
	struct file_call *call;
	size_t n_written;
};

static void ca_trust_free(struct ca_trust *t)
{
	if (t->call)
		file_call_cancel(t->call);
	loop_timer_free(t->timer);
	free(t->certificate);
	free(t);
}

void ca_trust_cancel(struct ca_trust *t)
{
	if (t)
		ca_trust_free(t);
}

static void finish(struct ca_trust *t, const struct err *err)
{
	ca_trust_fn done = t->done;
	void *arg = t->arg;

	ca_trust_free(t);
	done(err, arg);
}

static void on_too_late(struct loop *loop, void *arg)
{
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "it takes too long inside");
	finish(arg, &err);
}

static void send_more(struct ca_trust *t)
{
	size_t len = strlen(t->certificate);
	ssize_t n = file_call_write(t->call, t->certificate + t->n_written, len - t->n_written);

	t->n_written += (size_t)n;
	if (t->n_written == len)
		file_call_finish(t->call);
}

static void on_room(void *arg)
{
	struct ca_trust *t = arg;

	if (t->n_written < strlen(t->certificate))
		send_more(t);
}

static void on_end(const struct err *err, void *arg)
{
	struct ca_trust *t = arg;

	t->call = NULL;
	finish(t, err);
}

static int start(struct ca_trust *t, struct err *err)
{
	static const struct file_call_ops ops = {.on_room = on_room, .on_end = on_end};
	const struct start op = {
		.kind = START_FILE,
		.op = FILE_TRUST,
		.user = unconst("root"),
		.path = unconst(TRUST_BUNDLE),
		.path2 = unconst(TRUST_OWN),
		.flags = FILE_PARENTS | FILE_MODE,
		.mode = 0644,
	};
	int r = file_call_begin(t->sandbox, &op, &ops, t, &t->call, err);

	if (r == 0)
		send_more(t);
	return r;
}

static void on_begin(struct loop *loop, void *arg)
{
	struct ca_trust *t = arg;
	struct err err;

	(void)loop;
	loop_timer_free(t->timer);
	t->timer = loop_timer_new(t->loop, on_too_late, t);
	loop_timer_set_in(t->timer, PATIENCE_US);
	if (start(t, &err) < 0)
		finish(t, &err);
}

struct ca_trust *ca_trust_install(struct sandbox *s, const char *certificate, ca_trust_fn done,
                                  void *arg)
{
	struct ca_trust *t = xnew0(struct ca_trust);

	t->sandbox = s;
	t->loop = s->fleet->config.loop;
	t->certificate = xstrdup(certificate);
	t->done = done;
	t->arg = arg;
	t->timer = loop_timer_new(t->loop, on_begin, t);
	loop_timer_set_in(t->timer, 0);
	return t;
}
