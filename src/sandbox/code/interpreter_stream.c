// SPDX-License-Identifier: Apache-2.0
/*
 * Takes the output and messages of an interpreter's process in order, and gives them to their call.
 *
 * A paused call holds up the stream: what comes then is held here, at most a window, because
 * nothing is acknowledged before it was taken. The process waits, and its end is handled later.
 */
#include "base/units.h"
#include "sandbox/code/driver_message.h"
#include "sandbox/code/interpreter.h"

#include <inttypes.h>
#include <string.h>

#define LEAVE_US    (2 * SECOND_US) /* for a process that has said that it ends */
#define IN_KEPT_MAX (64 * 1024)
/* The bound for incomplete messages of all sandboxes, which guests can make the gateway hold.
 * Beyond it, a project may still receive one whole message. */
#define MESSAGES_MAX   ((size_t)128 * 1024 * 1024)
#define MESSAGES_SHARE ((size_t)DRIVER_MESSAGE_PAYLOAD_MAX + DRIVER_MESSAGE_HEAD_MAX)

struct held_head {
	uint8_t stream;
	uint32_t len;
} __attribute__((packed));

static int on_done_message(struct context *c, const struct driver_message *m)
{
	struct driver_message_done done;
	struct code_end end;

	/* The call's code is not completely sent yet, so it cannot have run. */
	if (driver_message_done(m, &done) < 0 || c->out.len > 0)
		return -EPROTO;
	c->count = done.count;
	interpreter_set_deadline(c, 0);
	interpreter_set_split(c, false);
	end = (struct code_end){.status = done.status == DONE_OK      ? CODE_OK
	                                  : done.status == DONE_ERROR ? CODE_ERROR
	                                                              : CODE_EXIT,
	                        .count = done.count,
	                        .has_exit_code = done.status == DONE_EXIT,
	                        .exit_code = (int)done.exit_code,
	                        .has_cpu = done.has_cpu,
	                        .cpu_us = done.cpu_us};
	c->is_leaving = done.status == DONE_EXIT;
	c->state = c->is_leaving ? CONTEXT_DEAD : CONTEXT_IDLE;
	interpreter_set_phase(c, c->is_leaving ? PHASE_LEAVE : PHASE_NONE, LEAVE_US);
	code_end(c->running, &end);
	if (!list_empty(&c->queue))
		interpreter_wake(c);
	return 0;
}

static int on_ready(struct context *c, const struct driver_message *m)
{
	if (c->state != CONTEXT_STARTING)
		return -EPROTO;
	c->takes_env = driver_message_takes_env(m);
	c->can_save = driver_message_can_save(m);
	c->state = CONTEXT_IDLE;
	interpreter_set_phase(c, PHASE_NONE, 0);
	interpreter_wake(c);
	interpreter_tell_ready(c);
	return 0;
}

static int on_synced(struct context *c, const struct driver_message *m)
{
	struct driver_message_done done;

	if (driver_message_done(m, &done) < 0)
		return -EPROTO;
	c->sync = 0;
	c->takes_env = driver_message_takes_env(m);
	c->can_save = driver_message_can_save(m);
	interpreter_set_deadline(c, 0);
	interpreter_set_phase(c, PHASE_NONE, 0);
	c->count = c->last_call = (uint32_t)done.count;
	c->state = CONTEXT_IDLE;
	interpreter_wake(c);
	return 0;
}

static int on_message(struct context *c, const struct driver_message *m)
{
	struct code_call *call = c->running;

	if (c->sync)
		return on_synced(c, m);
	if (m->verb == DRIVER_MESSAGE_READY)
		return on_ready(c, m);
	if (c->saving && m->call == c->saving)
		return interpreter_on_saved(c, m);
	if (!call || m->call != call->number)
		return -EPROTO;
	switch (m->verb) {
	case DRIVER_MESSAGE_RESULT:
		code_tell_event(call, CODE_EVENT_RESULT, driver_message_bundle(m));
		return 0;
	case DRIVER_MESSAGE_DISPLAY:
		code_tell_event(call, CODE_EVENT_DISPLAY, driver_message_bundle(m));
		return 0;
	case DRIVER_MESSAGE_ERROR:
		code_tell_event(call, CODE_EVENT_ERROR, driver_message_error(m));
		return 0;
	case DRIVER_MESSAGE_DONE:
		return on_done_message(c, m);
	case DRIVER_MESSAGE_READY:
	case DRIVER_MESSAGE_VERB_COUNT:
		break;
	}
	return -EPROTO;
}

bool interpreter_is_paused(struct context *c)
{
	const struct code_call *call = code_current(c);

	return call && call->is_paused;
}

static void take_messages(struct context *c)
{
	struct driver_message m;
	int r = 0;

	while (r >= 0 && !interpreter_is_paused(c)) {
		r = driver_message_get(&c->in, &m);
		if (r == 0)
			break;
		if (r > 0) {
			r = on_message(c, &m);
			buf_consume(&c->in, m.size);
			c->sandbox->fleet->message_bytes -= m.size;
		}
	}
	if (r < 0)
		interpreter_broken(c, "a message that none should send");
	else if (c->in.len == 0 && c->in.mem_size > IN_KEPT_MAX)
		buf_done(&c->in);
}

/* Drops everything before the answer to sync; false until that has come. */
static bool find_place(struct context *c)
{
	char mark[32];
	size_t len = (size_t)snprintf(mark, sizeof(mark), "done %" PRIu32 " ", c->sync);
	const char *at = memmem(c->in.data, c->in.len, mark, len);
	size_t kept = at ? c->in.len - (size_t)(at - c->in.data) : MIN(c->in.len, len - 1);

	c->sandbox->fleet->message_bytes -= c->in.len - kept;
	buf_consume(&c->in, c->in.len - kept);
	return at != NULL;
}

/* The bytes of the project; needed only when the common bound is reached. */
static size_t project_bytes(const struct sandbox *own)
{
	size_t bytes = 0;

	list_for_each (&own->fleet->all, const struct sandbox, s, link_all)
		if (strcmp(s->project_id, own->project_id) == 0)
			list_for_each (&s->contexts, const struct context, c, link)
				bytes += c->in.len;
	return bytes;
}

static bool has_room(const struct context *c, size_t len)
{
	return c->sandbox->fleet->message_bytes + len <= MESSAGES_MAX ||
	       project_bytes(c->sandbox) + len <= MESSAGES_SHARE;
}

static void take(struct context *c, enum frame_stream stream, const char *data, size_t len)
{
	struct code_call *call = code_current(c);
	size_t *bytes = &c->sandbox->fleet->message_bytes;

	if (stream != STREAM_RECORD) {
		if (call) /* else it belongs to no call */
			code_tell_output(call, stream, data, len);
		return;
	}
	if (!has_room(c, len) || buf_append(&c->in, data, len) < 0) {
		interpreter_broken(c, "a message that is too long");
		return;
	}
	*bytes += len;
	if (!c->sync || find_place(c))
		take_messages(c);
}

int interpreter_take(struct context *c, enum frame_stream stream, const char *data, size_t len)
{
	const struct held_head head = {(uint8_t)stream, (uint32_t)len};

	if (interpreter_is_paused(c) || c->held.len > 0)
		return buf_append(&c->held, &head, sizeof(head)) < 0 ||
		                       buf_append(&c->held, data, len) < 0
		               ? -EPROTO
		               : 0;
	take(c, stream, data, len);
	channel_kept(&c->channel, len);
	return 0;
}

void interpreter_flush(struct context *c)
{
	if (!interpreter_is_paused(c) && c->in.len > 0)
		take_messages(c);
	while (c->held.len > 0 && !interpreter_is_paused(c)) {
		auto_call(buf_done) struct buf data = BUF_INIT(FRAME_DATA_MAX);
		struct held_head head;

		memcpy(&head, c->held.data, sizeof(head));
		buf_consume(&c->held, sizeof(head));
		/* Copied, because taking it may end the process and free what is held. */
		if (buf_append(&data, c->held.data, head.len) < 0)
			abort(); /* a frame has no more */
		buf_consume(&c->held, head.len);
		take(c, (enum frame_stream)head.stream, data.data, data.len);
		channel_kept(&c->channel, head.len);
	}
	if (c->exit.how != 0)
		interpreter_settle_exit(c);
}
