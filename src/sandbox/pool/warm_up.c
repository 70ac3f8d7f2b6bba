// SPDX-License-Identifier: Apache-2.0
#include "sandbox/pool/warm_up.h"

#include "base/log.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/pool/pool.h"

#define COMMAND    ":" /* by /bin/sh */
#define TIMEOUT_US (UINT64_C(30) * 1000000)

struct warm_up {
	struct channel channel;
	struct sandbox *sandbox;
};

void warm_up_end(struct sandbox *s)
{
	struct warm_up *r = take_ptr(s->warm_up);

	if (!r)
		return;
	channel_forget(&r->channel);
	free(r);
}

static void finish(struct channel *ch)
{
	struct warm_up *r = container_of(ch, struct warm_up, channel);
	struct sandbox *s = r->sandbox;

	warm_up_end(s);
	if (s->spare)
		pool_on_warm(s);
}

static int on_output(struct channel *ch, enum frame_stream stream, const char *data, size_t len)
{
	(void)stream;
	(void)data;
	channel_kept(ch, len);
	return 0;
}

static void on_gap(struct channel *ch, uint64_t len)
{
	(void)ch;
	(void)len;
}

static void on_exit_frame(struct channel *ch, const struct channel_exit *e)
{
	(void)ch;
	(void)e;
}

static void on_lost(struct channel *ch, const struct err *why)
{
	(void)why;
	finish(ch);
}

static const struct channel_ops channel_ops = {
	.on_output = on_output,
	.on_gap = on_gap,
	.on_exit = on_exit_frame,
	.on_closed = finish,
	.on_lost = on_lost,
};

static int start(struct warm_up *r, struct err *err)
{
	const struct exec_spec spec = {.shell = COMMAND};
	struct link *l = sandbox_link(r->sandbox, err);
	struct start start;
	char tag[ID_SIZE];
	uint32_t number;
	int n;

	if (!l)
		return -ENOTCONN;
	id_make(tag, "ex");
	n = sandbox_take_channel(r->sandbox, &number, err);
	if (n == 0)
		n = exec_command_build(r->sandbox, &spec, tag, &start, err);
	if (n < 0)
		return n;
	start.timeout_us = TIMEOUT_US;
	n = channel_start(&r->channel, l, number, &channel_ops, &start);
	start_done(&start);
	return n < 0 ? err_set(err, ERR_UNAVAILABLE, -n, "its agent does not take it") : 0;
}

void warm_up_begin(struct sandbox *s)
{
	struct warm_up *r = xnew0(struct warm_up);
	struct err err;

	r->sandbox = s;
	if (start(r, &err) == 0) {
		s->warm_up = r;
		return;
	}
	log_debug("warm_up.skipped", "sandbox=%s error='%s'", s->id, err.message);
	free(r);
}
