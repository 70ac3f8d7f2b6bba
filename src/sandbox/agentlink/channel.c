// SPDX-License-Identifier: Apache-2.0
/*
 * What an agent may say about a channel, and when:
 *
 *	[STARTED] [INPUT_ACK...] OUTPUT... EXIT OUTPUT... CLOSED
 *
 * each of STARTED, EXIT and CLOSED at most once per connection, output exactly at the next offset
 * and within the window, input acknowledged only as far as it was sent. All of this is checked
 * against the channel's own state, so an agent can lie only about its own sandbox. A channel number
 * that was never given out is an error; frames for forgotten channels are dropped and counted.
 *
 * An agent that repeats an INPUT_ACK says that nobody will read more. That is a fact for the
 * channel's owner; what is sent nevertheless is taken as before.
 *
 * Input is kept until the agent has taken it, and START until the agent says anything about the
 * channel, so a lost connection loses neither. An agent lists every channel that it has. A channel
 * that it does not list and never spoke of has not run, and is started again. This is done only
 * once, because the agent may have hung up over that very START.
 */
#include "base/fd.h"
#include "base/units.h"
#include "sandbox/agentlink/link_private.h"

#include <assert.h>
#include <endian.h>
#include <fcntl.h>

#define ACK_EVERY (FRAME_WINDOW / 4) /* kept bytes before an ACK is sent */
/* Also counted in frames: when streams alternate, the number of frames fills the agent's buffer
 * long before their bytes do. */
#define ACK_EVERY_FRAMES 1024
#define PACED_MAX        2 /* links of a project that may write at the full rate */
#define SEALS            (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int send_u64(struct link *l, enum frame_type type, uint32_t number, uint64_t value)
{
	value = htole64(value);
	return link_send(l, type, number, &value, sizeof(value));
}

static void attach(struct channel *ch, struct link *l, uint32_t number,
                   const struct channel_ops *ops)
{
	*ch = (struct channel){.number = number, .ops = ops, .link = l};
	HASH_ADD(hh, l->channels, number, sizeof(ch->number), ch);
	l->floor = MAX(l->floor, number + 1);
}

static void tell_count(struct link *l)
{
	if (l->ops->on_channels && !l->is_dead)
		l->ops->on_channels(l->arg);
}

void channel_forgo_imprint(struct channel *ch)
{
	if (!ch->awaits_imprint)
		return;
	ch->awaits_imprint = false;
	if (--ch->link->n_awaited == 0)
		close_fd(&ch->link->given_fd);
}

void channel_await_imprint(struct channel *ch)
{
	if (!ch->link || ch->awaits_imprint)
		return;
	ch->awaits_imprint = true;
	ch->link->n_awaited++;
}

void channel_detach(struct channel *ch)
{
	struct link *l = ch->link;

	channel_forgo_imprint(ch);
	HASH_DEL(l->channels, ch);
	ch->link = NULL;
	sent_input_done(&ch->untaken);
	buf_done(&ch->start);
	if (!l->channels)
		link_set_beat(l);
	tell_count(l);
}

int channel_start(struct channel *ch, struct link *l, uint32_t number,
                  const struct channel_ops *ops, const struct start *start)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(FRAME_PAYLOAD_MAX);
	int r;

	if (link_channels(l) >= FRAME_CHANNELS)
		return -ENOSPC;
	r = start_encode(start, &payload);
	if (r < 0)
		return r;
	r = link_send(l, FRAME_START, number, payload.data, payload.len);
	if (r < 0)
		return r;
	attach(ch, l, number, ops);
	ch->start = payload;
	payload = (struct buf){0};
	ch->is_input_known = true;
	ch->is_listed = ch->is_resumed = true; /* it is the agent's from here on */
	if (link_channels(l) == 1)
		link_set_beat(l);
	tell_count(l);
	return 0;
}

int channel_start_copied(struct channel *ch, struct link *l, uint32_t number,
                         const struct channel_ops *ops, const struct start *start, int fd)
{
	int r;

	if (l->passed_fd >= 0)
		return -EBUSY;
	l->passed_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (l->passed_fd < 0)
		return -errno;
	r = channel_start(ch, l, number, ops, start);
	if (r < 0)
		close_fd(&l->passed_fd);
	return r;
}

void channel_adopt(struct channel *ch, struct link *l, uint32_t number,
                   const struct channel_ops *ops, uint64_t received)
{
	attach(ch, l, number, ops);
	ch->received = ch->kept = ch->acked = received;
}

void link_set_floor(struct link *l, uint32_t number)
{
	l->floor = MAX(l->floor, number);
}

size_t link_channels(const struct link *l)
{
	return HASH_COUNT(l->channels);
}

void channel_forget(struct channel *ch)
{
	struct link *l = ch->link;

	if (!l)
		return;
	/* It is not sent if the link is down or its queue full. Then the next WELCOME lists the
	 * channel, and it is forgotten as unknown. */
	(void)!link_send(l, FRAME_FORGET, ch->number, NULL, 0);
	channel_detach(ch);
}

void link_lose_channels(struct link *l, const struct err *why)
{
	struct channel *ch;

	while ((ch = l->channels)) {
		channel_detach(ch);
		ch->ops->on_lost(ch, why);
	}
}

static bool is_paced(const struct channel *ch)
{
	return ch->ops->is_paced && ch->link->timing.output_rate > 0;
}

/* The time until which the output acknowledged so far counts, for this link and for its project. */
static uint64_t paid_until(const struct link *l)
{
	return l->share ? MAX(l->paid_us, l->share->paid_us) : l->paid_us;
}

/* Whether it is this channel's turn. If not, channel_ack_due() is called when it is. */
static bool may_ack(struct channel *ch)
{
	struct link *l = ch->link;

	if (!is_paced(ch) || paid_until(l) <= loop_now_us(l->loop))
		return true;
	if (!loop_timer_is_set(l->pace))
		loop_timer_set(l->pace, paid_until(l));
	link_set_paced(l, true);
	return false;
}

/* A project may be as fast as PACED_MAX links. If more of its links wait, the one that had its turn
 * waits until the others had theirs. */
static void pay(struct link *l, uint64_t bytes, uint64_t frames)
{
	const struct link_timing *t = &l->timing;
	uint64_t us = frames * t->frame_us + bytes * SECOND_US / t->output_rate;
	uint64_t now_us = loop_now_us(l->loop), from_us = now_us - MIN(t->burst_us, now_us);
	struct share *share = l->share;

	if (share)
		share->paid_us = MAX(share->paid_us, from_us) + us / PACED_MAX;
	if (share && share->n_paced > PACED_MAX)
		us = us * share->n_paced / PACED_MAX;
	l->paid_us = MAX(l->paid_us, from_us) + us;
}

static void ack(struct channel *ch)
{
	uint64_t bytes = ch->kept - ch->acked, frames = 0;

	if (bytes < ACK_EVERY && ch->frames < ACK_EVERY_FRAMES)
		return;
	/* If it is not sent, the next one or RESUME makes up for it. */
	if (!may_ack(ch) || send_u64(ch->link, FRAME_ACK, ch->number, ch->kept) < 0)
		return;
	ch->acked = ch->kept;
	if (ch->kept == ch->received) { /* else some of those frames are still to be kept */
		frames = ch->frames;
		ch->frames = 0;
	}
	if (is_paced(ch))
		pay(ch->link, bytes, frames);
}

void channel_kept(struct channel *ch, size_t len)
{
	ch->kept += len;
	assert(ch->kept <= ch->received);
	if (ch->link)
		ack(ch);
}

void channel_ack_due(struct link *l)
{
	for (struct channel *ch = l->channels; ch; ch = ch->hh.next)
		ack(ch);
	link_set_paced(l, loop_timer_is_set(l->pace));
}

static int send_input(const char *data, size_t len, void *arg)
{
	const struct channel *ch = arg;

	while (len > 0) {
		size_t n = MIN(len, (size_t)FRAME_DATA_MAX);
		int r = link_send_data(ch->link, FRAME_INPUT, ch->number, data, n);

		if (r < 0)
			return r;
		data += n;
		len -= n;
	}
	return 0;
}

ssize_t channel_write(struct channel *ch, const void *data, size_t len)
{
	if (!ch->link || ch->is_input_ended)
		return -EPIPE;
	if (!ch->is_input_known || !link_has_room(ch->link))
		return 0;
	len = MIN(len, sent_input_room(&ch->untaken));
	if (len == 0)
		return 0;
	/* The queue's reserve holds a window, so what is begun here can be sent completely. */
	if (send_input(data, len, ch) < 0)
		return 0;
	sent_input_append(&ch->untaken, data, len);
	ch->input_sent += len;
	return (ssize_t)len;
}

void channel_end_input(struct channel *ch)
{
	if (!ch->link || ch->is_input_ended)
		return;
	ch->is_input_ended = true;
	if (ch->is_input_known) /* else it is sent after the repeated input */
		(void)!link_send(ch->link, FRAME_INPUT_END, ch->number, NULL, 0);
}

int channel_send(struct channel *ch, enum frame_type type, const void *payload, size_t len)
{
	return ch->link ? link_send(ch->link, type, ch->number, payload, len) : -ENOTCONN;
}

void channel_tell_room(struct link *l)
{
	for (struct channel *ch = l->channels, *next; ch; ch = next) {
		next = ch->hh.next;
		if (ch->ops->on_room && sent_input_room(&ch->untaken) > 0)
			ch->ops->on_room(ch);
	}
}

void channel_tell_silent(struct link *l)
{
	for (struct channel *ch = l->channels, *next; ch; ch = next) {
		next = ch->hh.next;
		if (ch->ops->on_silent)
			ch->ops->on_silent(ch);
	}
}

static int on_started(struct channel *ch, struct unpack *u)
{
	uint32_t pid = unpack_u32(u);

	if (unpack_end(u) < 0 || ch->has_started || ch->has_exited)
		return -EPROTO;
	ch->has_started = true;
	if (ch->ops->on_started)
		ch->ops->on_started(ch, pid);
	return 0;
}

static int on_output(struct channel *ch, struct unpack *u)
{
	uint64_t offset = unpack_u64(u);
	uint8_t stream = unpack_u8(u);

	if (u->is_bad || u->len == 0 || offset != ch->received || stream < STREAM_STDOUT ||
	    stream > STREAM_RECORD || u->len > FRAME_WINDOW - (ch->received - ch->acked))
		return -EPROTO;
	ch->received += u->len;
	ch->frames++;
	return ch->ops->on_output(ch, (enum frame_stream)stream, (const char *)u->data, u->len);
}

/* After the first INPUT_ACK of a resumed channel, the input behind it is sent again. */
static int go_on_with_input(struct channel *ch)
{
	int r = sent_input_each(&ch->untaken, send_input, ch);

	if (r == 0 && ch->is_input_ended)
		r = link_send(ch->link, FRAME_INPUT_END, ch->number, NULL, 0);
	ch->is_input_known = r == 0;
	return r == -E2BIG ? -EPROTO : r;
}

static int on_input_ack(struct channel *ch, struct unpack *u)
{
	uint64_t taken = unpack_u64(u);

	if (unpack_end(u) < 0)
		return -EPROTO;
	/* Only the agent knows what an earlier gateway has sent. */
	if (!ch->is_input_known && ch->input_sent == 0)
		ch->input_sent = ch->input_taken = taken;
	if (taken < ch->input_taken || taken > ch->input_sent)
		return -EPROTO;
	if (ch->is_input_known && taken == ch->input_taken)
		ch->is_input_refused = true;
	sent_input_consume(&ch->untaken, (size_t)(taken - ch->input_taken));
	ch->input_taken = taken;
	if (!ch->is_input_known) {
		int r = go_on_with_input(ch);

		if (r < 0)
			return r;
	}
	if (ch->ops->on_room)
		ch->ops->on_room(ch);
	return 0;
}

static int on_exit_frame(struct channel *ch, const struct frame *f)
{
	struct channel_exit e;

	if (channel_exit_decode(f->payload, f->len, &e) < 0 || ch->has_exited ||
	    e.output_end > ch->received)
		return -EPROTO;
	ch->has_exited = true;
	ch->ops->on_exit(ch, &e);
	return 0;
}

static int on_closed(struct channel *ch)
{
	if (!ch->has_exited)
		return -EPROTO;
	ch->ops->on_closed(ch);
	return 0;
}

/* One that nobody waits for is a program's doing, and no fault of the agent's. */
static int on_imprint(struct channel *ch, struct unpack *u)
{
	auto_free char *why = unpack_str(u, FRAME_REASON_MAX);
	auto_fd int fd = -1;
	int seals;

	if (unpack_end(u) < 0)
		return -EPROTO;
	if (!ch->awaits_imprint)
		return 0;
	fd = take_fd(&ch->link->given_fd);
	channel_forgo_imprint(ch);
	/* It is handed on, and never read or mapped here. */
	seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	if (!why[0] && (seals < 0 || (seals & SEALS) != SEALS))
		return -EPROTO;
	ch->ops->on_imprint(ch, why[0] ? -1 : take_fd(&fd), why);
	return 0;
}

int channel_on_frame(struct link *l, const struct frame *f)
{
	struct unpack u = {.data = f->payload, .len = f->len};
	struct channel *ch = NULL;

	HASH_FIND(hh, l->channels, &f->channel, sizeof(f->channel), ch);
	if (!ch) {
		l->stale++;
		return f->channel < l->floor ? 0 : -EPROTO;
	}
	buf_done(&ch->start);
	switch ((int)f->type) {
	case FRAME_STARTED:
		return on_started(ch, &u);
	case FRAME_OUTPUT:
		return on_output(ch, &u);
	case FRAME_INPUT_ACK:
		return on_input_ack(ch, &u);
	case FRAME_EXIT:
		return on_exit_frame(ch, f);
	case FRAME_CLOSED:
		return on_closed(ch);
	case FRAME_IMPRINT:
		return on_imprint(ch, &u);
	}
	return -EPROTO;
}

static int resume(struct link *l, struct channel *ch)
{
	buf_done(&ch->start);
	/* The agent has dropped output that an earlier gateway had kept, and we do not have it. */
	if (ch->dropped > ch->received) {
		ch->ops->on_gap(ch, ch->dropped - ch->received);
		ch->received = ch->kept = ch->dropped;
	}
	ch->acked = ch->received;
	ch->is_resumed = true;
	return send_u64(l, FRAME_RESUME, ch->number, ch->received);
}

/* One row of WELCOME: a channel that the agent has. */
static int on_listed(struct link *l, uint32_t number, uint64_t acked, uint64_t end)
{
	struct channel *ch = NULL;

	if (number == 0 || number >= l->floor || acked > end)
		return -EPROTO;
	HASH_FIND(hh, l->channels, &number, sizeof(number), ch);
	if (!ch)
		return link_send(l, FRAME_FORGET, number, NULL, 0);
	if (ch->is_listed || end < ch->received)
		return -EPROTO;
	ch->is_listed = true;
	ch->dropped = acked;
	return l->is_holding ? 0 : resume(l, ch);
}

static void begin_connection(struct link *l)
{
	for (struct channel *ch = l->channels; ch; ch = ch->hh.next) {
		if (!ch->awaits_imprint)
			continue;
		channel_forgo_imprint(ch);
		ch->ops->on_imprint(ch, -1, "the connection to the sandbox was lost");
	}
	for (struct channel *ch = l->channels; ch; ch = ch->hh.next)
		ch->is_listed = ch->is_resumed = ch->has_started = ch->has_exited =
			ch->is_input_known = false;
}

static bool start_again(struct channel *ch)
{
	if (ch->start.len == 0 || ch->is_sent_again ||
	    link_send(ch->link, FRAME_START, ch->number, ch->start.data, ch->start.len) < 0)
		return false;
	ch->is_sent_again = true;
	return go_on_with_input(ch) == 0;
}

static void settle_unlisted(struct link *l)
{
	struct err err;

	/* An agent hangs up if it cannot read a frame. */
	(void)err_set(&err, ERR_GUEST, 0,
	              "the sandbox's agent does not know of it: it was lost, or the agent is an "
	              "older cloche's, which cannot do this");
	(void)err_hint(&err, "try again; a sandbox that was started before an upgrade has the "
	                     "newer agent after a stop and a resume");
	for (struct channel *ch = l->channels, *next; ch; ch = next) {
		next = ch->hh.next;
		if (ch->is_listed || start_again(ch))
			continue;
		channel_detach(ch);
		ch->ops->on_lost(ch, &err);
	}
}

int channel_on_welcome(struct link *l, struct unpack *u)
{
	uint32_t count = unpack_u32(u);

	if (count > FRAME_CHANNELS)
		return -EPROTO;
	begin_connection(l);
	for (uint32_t i = 0; i < count && !u->is_bad; i++) {
		uint32_t number = unpack_u32(u);
		uint64_t acked, end;
		uint8_t state;

		free(unpack_str(u, START_TAG_MAX)); /* for people who look at an agent's state */
		state = unpack_u8(u);
		acked = unpack_u64(u);
		end = unpack_u64(u);
		if (u->is_bad || state < CHANNEL_RUNNING || state > CHANNEL_CLOSED ||
		    on_listed(l, number, acked, end) < 0)
			return -EPROTO;
	}
	if (unpack_end(u) < 0)
		return -EPROTO;
	if (!l->is_holding)
		settle_unlisted(l);
	return 0;
}

void link_hold(struct link *l)
{
	l->is_holding = true;
}

void link_go_on(struct link *l)
{
	if (!l->is_holding)
		return;
	l->is_holding = false;
	if (l->state != LINK_UP)
		return;
	for (struct channel *ch = l->channels, *next; ch; ch = next) {
		next = ch->hh.next;
		if (ch->is_listed && !ch->is_resumed)
			(void)!resume(l, ch); /* the queue has room for all channels */
	}
	settle_unlisted(l);
}
