// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The host's end of the stream to one agent. No byte that comes is trusted.
 *
 *	down --> greeting (HELLO sent) --> up (WELCOME came) --> down
 *
 * A channel is one exec or file operation on it (api/agent-protocol.md); its struct is inside its
 * owner. It outlives a lost connection: at the next WELCOME it is resumed where it was. If the
 * agent does not know a channel, it is started again if its START never arrived, and reported lost
 * otherwise.
 *
 * An agent that was revived from disk may have to be given up again, and the next copy would start
 * at the same point. So no output is taken from it before that is settled: while a link holds its
 * channels, it resumes none of them, and the agent sends nothing for them.
 *
 * A frame that no honest agent sends takes the whole link down as hostile. Only frames for
 * forgotten channels are dropped, because they may have been sent before.
 */
#include "loop/loop.h"
#include "proto/frame.h"
#include "proto/start.h"
#include "sandbox/agentlink/sent_input.h"
#include "tenant/share.h"

#include <uthash.h>

struct link;
struct channel;

struct link_timing {
	uint64_t greet_us;     /* from HELLO to WELCOME */
	uint64_t ping_busy_us; /* between PINGs while a channel is open */
	uint64_t ping_idle_us;
	uint64_t pong_us; /* unanswered for this long: unhealthy */
	uint64_t hang_us; /* and so for this long: hung */
	/* Programs' output is taken at this rate, in bytes per second, after a burst of burst_us at
	 * that rate. Each frame costs frame_us on top. */
	uint64_t output_rate, burst_us, frame_us;
};
extern const struct link_timing link_timing_usual;

struct link_ops { /* called from the loop */
	void (*on_up)(void *arg);
	/* is_hostile: it broke the protocol. The link is already down and may be attached again. */
	void (*on_down)(const struct err *why, bool is_hostile, void *arg);
	void (*on_health)(bool is_healthy, void *arg);
	/* Whether we have frozen it, so that no answer is expected; may be NULL. */
	bool (*is_still)(void *arg);
	void (*on_hung)(void *arg);     /* may be NULL */
	void (*on_channels)(void *arg); /* one came or went; may be NULL */
};

/* Called from the loop. They may remove their own channel from the link, but no other. on_started,
 * on_room, on_silent and on_gap may be NULL. */
struct channel_ops {
	void (*on_started)(struct channel *ch, uint32_t pid);
	/* Takes all of it, and calls channel_kept() now or later. < 0: the agent broke the
	 * protocol. */
	int (*on_output)(struct channel *ch, enum frame_stream stream, const char *data,
	                 size_t len);
	void (*on_gap)(struct channel *ch, uint64_t len); /* output that is gone for good */
	void (*on_room)(struct channel *ch);              /* more input may be written */
	void (*on_exit)(struct channel *ch, const struct channel_exit *e);
	void (*on_closed)(struct channel *ch); /* nothing follows */
	/* The agent does not know it, or is gone for good. The channel is already off the link. */
	void (*on_lost)(struct channel *ch, const struct err *why);
	void (*on_silent)(struct channel *ch); /* the agent has stopped answering */
	/* After channel_await_imprint(): fd is its own from here on; or -1, and why says why. NULL
	 * where that is never called. */
	void (*on_imprint)(struct channel *ch, int fd, const char *why);
	bool is_paced; /* its output is what programs write, and counts for output_rate */
};

struct channel { /* in its owner; fields are channel.c's */
	uint32_t number;
	const struct channel_ops *ops;
	struct link *link; /* NULL: closed */
	uint64_t received; /* output bytes that came */
	uint64_t kept;     /* and are safe with the owner */
	uint64_t acked;    /* and the agent was told so */
	uint64_t dropped;  /* output that the agent has dropped, by its WELCOME */
	uint64_t frames;   /* of output, since all of it was acknowledged */
	uint64_t input_sent, input_taken;
	struct sent_input untaken; /* from input_taken to input_sent, to be sent again if need be */
	bool is_input_known;       /* false after a resume, until the agent says what has arrived */
	bool is_input_ended;
	bool is_input_refused; /* the program has closed its stdin, says the agent */
	struct buf start;      /* its START, until the agent mentions the channel */
	bool is_sent_again;
	bool is_listed, is_resumed, has_started, has_exited; /* on this connection */
	bool awaits_imprint;                                 /* likewise */
	UT_hash_handle hh;
};

struct link *link_new(struct loop *loop, const char *hostname, const struct link_timing *timing,
                      const struct link_ops *ops, void *arg);
/* The share that pays for serving the agent (loop/loop.h); borrowed, NULL is fine. */
void link_set_share(struct link *l, struct share *share);
void link_free(struct link *l);           /* its channels are closed and not called */
void link_attach(struct link *l, int fd); /* owns fd; must be down */
/* Closes the connection, if there is one, without calling the owner. Channels stay. */
void link_hang_up(struct link *l);
/* Sends what is queued now, so that the agent has it even if we die. */
void link_flush(struct link *l);
void link_hold(struct link *l);          /* its channels, over the connections from here on */
void link_go_on(struct link *l);         /* with them; without a hold it does nothing */
bool link_is_down(const struct link *l); /* without a connection */
bool link_is_up(const struct link *l);
bool link_is_healthy(const struct link *l); /* up, and answering */
size_t link_channels(const struct link *l);
/* Takes every channel off, each with on_lost(). */
void link_lose_channels(struct link *l, const struct err *why);

/* Puts the channel on the link and starts it there. -ENOTCONN, -ENOSPC (channels), -E2BIG (queue or
 * start). */
must_check int channel_start(struct channel *ch, struct link *l, uint32_t number,
                             const struct channel_ops *ops, const struct start *start);
/* The same for a START_COPIED, with its imprint; fd stays the caller's. -EBUSY: another is on its
 * way. */
must_check int channel_start_copied(struct channel *ch, struct link *l, uint32_t number,
                                    const struct channel_ops *ops, const struct start *start,
                                    int fd);
/* on_imprint() is called once, unless the channel ends before. */
void channel_await_imprint(struct channel *ch);
void channel_forgo_imprint(struct channel *ch); /* it is not called any more; none: fine */
/* Puts a channel of an earlier gateway on a link that is down, to be resumed. received: the bytes
 * that are kept. */
void channel_adopt(struct channel *ch, struct link *l, uint32_t number,
                   const struct channel_ops *ops, uint64_t received);
/* The agent may still use channel numbers below this from earlier. */
void link_set_floor(struct link *l, uint32_t number);
/* Ends it: the agent kills what runs there and drops its data. Twice is fine. */
void channel_forget(struct channel *ch);
void channel_kept(struct channel *ch, size_t len);
/* Takes what fits into window and queue. Returns how much; 0: wait for on_room(). -EPIPE when
 * closed. */
must_check ssize_t channel_write(struct channel *ch, const void *data, size_t len);
void channel_end_input(struct channel *ch);
/* SIGNAL, RESIZE. -ENOTCONN, -E2BIG. */
must_check int channel_send(struct channel *ch, enum frame_type type, const void *payload,
                            size_t len);
