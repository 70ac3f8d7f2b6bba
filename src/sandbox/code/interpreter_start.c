// SPDX-License-Identifier: Apache-2.0
/*
 * How a context gets its process: by an ordinary start, as a fork of a zygote, or back from an
 * earlier gateway.
 *
 * After a restart of the gateway the process is found again by its channel, but its position in the
 * stream is unknown: the bytes that the agent still holds may begin in the middle of a message. So
 * the process is asked to `sync`, which it answers once the call that it may have been running has
 * ended; everything before the answer was for callers that are gone. Code normally reaches the
 * agent as one frame or not at all. While it is sent in several pieces, the row says so, and a
 * process that may have got half of it is dropped.
 */
#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/driver_message.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/exec/exec_private.h"

#include <string.h>

#define START_US    (30 * SECOND_US)  /* a cold disk, a busy host */
#define AHEAD_US    (3 * SECOND_US)   /* an agent keeps one that waits for 5 */
#define EMULATED_US (120 * SECOND_US) /* and all of it emulated */

uint64_t interpreter_start_us(const struct context *c)
{
	const uint64_t us =
		engine_traits(c->sandbox->engine)->may_be_emulated ? EMULATED_US : START_US;

	return us * MAX(c->language->start_weight, 1U);
}

static void on_forked(const struct msg_reply *reply, void *arg)
{
	struct context *c = arg;

	c->fork_tag = 0;
	if (reply->err.code != ERR_NONE)
		c->ahead_tag[0] = '\0';
	/* If the broker died, a fork may exist that it did not report, and may have run a call. */
	if (reply->err.code != ERR_NONE && c->state == CONTEXT_STARTING && c->imprint_fd >= 0)
		interpreter_lost(c, &reply->err);
	else if (reply->err.code != ERR_NONE && c->state == CONTEXT_STARTING)
		interpreter_start_afresh(c, reply->err.message);
}

/* The agent expects it by now, or soon. */
static int ask_for_fork(struct context *c, const char *tag, struct err *err)
{
	struct msg_request req = {.op = MSG_FORK};

	memcpy(req.id, c->sandbox->id, sizeof(req.id));
	memcpy(req.fork.tag, tag, sizeof(req.fork.tag));
	return broker_client_ask(c->sandbox->fleet->broker, &req, on_forked, c, &c->fork_tag, err);
}

/* The agent lets it wait for its start, but not for long. */
void interpreter_fork_ahead(struct context *c)
{
	struct err err;

	id_make(c->ahead_tag, "in");
	c->ahead_us = loop_now_us(c->loop);
	if (ask_for_fork(c, c->ahead_tag, &err) < 0)
		c->ahead_tag[0] = '\0';
}

/* True: one with this tag is on its way, or waits. */
static bool take_ahead(struct context *c, char tag[ID_SIZE])
{
	const bool is_there = c->ahead_tag[0] && loop_now_us(c->loop) - c->ahead_us < AHEAD_US;

	if (is_there)
		memcpy(tag, c->ahead_tag, ID_SIZE);
	else
		broker_client_cancel(c->sandbox->fleet->broker, c->fork_tag);
	c->ahead_tag[0] = '\0';
	return is_there;
}

static int send_start(struct context *c, struct link *l, bool may_fork, struct err *err)
{
	auto_json json_t *argv = language_argv(c->language);
	const struct exec_spec spec = {.argv = argv, .cwd = c->cwd, .user = c->user, .env = c->env};
	char tag[ID_SIZE];
	struct start start;
	bool is_ahead;
	int r;

	/* The tag is for the process, not the context: the tree of an earlier process may still be
	 * dying. */
	is_ahead = c->imprint_fd >= 0 && take_ahead(c, tag);
	if (!is_ahead)
		id_make(tag, "in");
	r = sandbox_take_channel(c->sandbox, &c->number, err);
	if (r == 0)
		r = exec_command_build(c->sandbox, &spec, tag, &start, err);
	if (r < 0)
		return r;
	/* Else it is the same start, in the other way, or that of its source. */
	c->starts += may_fork && c->imprint_fd < 0;
	r = c->name ? context_save(c, err) : 0;
	if (r < 0) {
		start_done(&start);
		return r;
	}
	c->is_forked = may_fork && language_can_fork(c->language, &start);
	start.kind = c->imprint_fd >= 0 ? START_COPIED : c->is_forked ? START_FORKED : START_KERNEL;
	if (c->imprint_fd >= 0)
		r = c->is_forked
		            ? channel_start_copied(&c->channel, l, c->number,
		                                   &interpreter_channel_ops, &start, c->imprint_fd)
		            : -EINVAL;
	else
		r = channel_start(&c->channel, l, c->number, &interpreter_channel_ops, &start);
	start_done(&start);
	if (r == -ENOSPC)
		return err_set(err, ERR_LIMIT, 0,
		               "the sandbox has %d execs, contexts and file operations under way, "
		               "which is the limit",
		               FRAME_CHANNELS);
	if (r < 0)
		return err_set(err, ERR_UNAVAILABLE, -r,
		               "the sandbox's agent accepts no more operations");
	if (!c->is_forked || is_ahead || ask_for_fork(c, tag, err) == 0)
		return 0;
	channel_forget(&c->channel);
	return c->imprint_fd >= 0 ? -EAGAIN : send_start(c, l, /* may_fork= */ false, err);
}

/* A copy runs only once its interpreter does. */
static struct link *find_link(const struct context *c, struct err *err)
{
	struct link *l = c->sandbox->link;

	if (c->imprint_fd < 0)
		return sandbox_link(c->sandbox, err);
	if (l && link_is_up(l))
		return l;
	(void)err_set(err, ERR_UNAVAILABLE, 0, "the copy's agent is not connected");
	return NULL;
}

static int begin(struct context *c, bool may_fork, struct err *err)
{
	struct link *l = find_link(c, err);
	int r = l ? send_start(c, l, may_fork, err) : -EAGAIN;

	if (r < 0)
		return r;
	c->is_fresh = c->imprint_fd < 0;
	c->state = CONTEXT_STARTING;
	interpreter_set_phase(c, PHASE_START, interpreter_start_us(c));
	return 0;
}

/* A fork is only a faster way: if it fails, the ordinary start is used, and the caller does not
 * notice. */
void interpreter_start_afresh(struct context *c, const char *why)
{
	struct err err;

	log_debug("context.no_fork", "sandbox=%s context=%s why='%s'", c->sandbox->id, c->id, why);
	interpreter_reset(c);
	if (begin(c, /* may_fork= */ false, &err) < 0)
		interpreter_lost(c, &err);
}

int interpreter_start(struct context *c, struct err *err)
{
	return begin(c, /* may_fork= */ true, err);
}

/* A call with a timeout that lost its caller with the gateway gets the rest of its time, and a
 * moment to report its end. */
static void await_orphan(struct context *c)
{
	uint64_t now_us = loop_now_us(c->loop);
	uint64_t left_us = c->orphan_until_us > now_us ? c->orphan_until_us - now_us : 0;

	interpreter_set_phase(c, PHASE_CALL, MAX(left_us, (uint64_t)INTERPRETER_ORPHAN_US));
}

/* The random generators of a copy have the state of the original, so they are reseeded. The answer
 * comes before that to `sync`, and is ignored. */
static int put_renewal(struct context *c)
{
	unsigned char seed[32];
	int r = driver_message_put_head(&c->out, "renew", c->sync ^ 1, sizeof(seed));

	random_bytes(seed, sizeof(seed));
	return r < 0 ? r : buf_append(&c->out, seed, sizeof(seed));
}

void interpreter_rejoin(struct context *c)
{
	if (c->is_split) {
		c->is_split = false; /* the agent is told to forget it as unknown */
		return;
	}
	channel_adopt(&c->channel, c->sandbox->link, c->number, &interpreter_channel_ops, 0);
	random_bytes(&c->sync, sizeof(c->sync));
	c->sync |= UINT32_C(1) << 31; /* as no call's number is, nor will be for long */
	c->state = CONTEXT_BUSY;
	c->is_named = false;
	if (c->orphan_until_us > 0)
		await_orphan(c);
	else /* its start was under way, and may have got lost with who had asked for it */
		interpreter_set_phase(c, PHASE_START, interpreter_start_us(c));
	if ((c->is_copied && put_renewal(c) < 0) ||
	    driver_message_put_head(&c->out, "sync", c->sync, 0) < 0)
		abort(); /* it was empty */
	c->is_copied = false;
}
