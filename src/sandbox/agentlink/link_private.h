// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Shared by link.c (bytes, queue, life) and channel.c (meaning of frames). */
#include "sandbox/agentlink/link.h"

enum link_state { LINK_DOWN, LINK_GREETING, LINK_UP };

struct link {
	struct loop *loop;
	struct link_timing timing;
	const struct link_ops *ops;
	void *arg;
	char hostname[FRAME_HOSTNAME_MAX];
	enum link_state state;
	int fd;
	bool is_dead; /* freed at the end of this turn */
	struct loop_io *io;
	struct buf in, out;
	bool is_flush_due;
	uint32_t epoch;
	struct share *share;
	bool has_frames;           /* left over from this turn */
	struct loop_timer *resend; /* the kernel had no memory for the queue */
	struct loop_timer *beat;
	struct loop_timer *pace; /* output is acknowledged again */
	uint64_t paid_us;        /* steady: until then all that was acknowledged takes */
	bool is_paced;           /* it waits for that, and counts in its share */
	uint64_t ping;           /* the number in flight, 0 = none */
	uint64_t last_ping;
	bool is_healthy;
	bool is_still;  /* as was seen at the last beat */
	uint32_t floor; /* channel numbers below this may have been used */
	struct channel *channels;
	bool is_holding;  /* none of them is resumed */
	uint64_t stale;   /* frames for forgotten channels */
	size_t n_awaited; /* fds that channels wait for: without one no fd is taken */
	int given_fd;     /* came with the last bytes, or -1 */
	int passed_fd;    /* goes with the next ones, or -1 */
};

/* Queues a frame. -ENOTCONN while not up (HELLO apart), -E2BIG when the queue is full. */
must_check int link_send(struct link *l, enum frame_type type, uint32_t channel,
                         const void *payload, size_t len);
/* The same for much data: what the agent has room for goes there at once, from where it lies. */
must_check int link_send_data(struct link *l, enum frame_type type, uint32_t channel,
                              const char *data, size_t len);
bool link_has_room(const struct link *l); /* for input: control frames have a reserve */
void link_set_beat(struct link *l);       /* after the count of channels changed */
void link_set_paced(struct link *l, bool is_paced);

/* Handles a frame while the link is up; < 0 if the agent broke the protocol. */
must_check int channel_on_frame(struct link *l, const struct frame *f);
/* Handles WELCOME's list: resumes, loses and forgets channels. */
must_check int channel_on_welcome(struct link *l, struct unpack *u);
void channel_detach(struct channel *ch); /* takes it off the link without telling the agent */
void channel_tell_silent(struct link *l);
void channel_ack_due(struct link *l);   /* those that had to wait */
void channel_tell_room(struct link *l); /* the queue has drained */
