// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A channel: one exec, file operation or kernel, from START to FORGET.
 *
 *	starting --> running --> ended --> exited --> closed
 *	                           |         |          +-- every pipe is closed: CLOSED
 *	                           |         +-- what was in the pipes when it ended is read: EXIT
 *	                           +-- the main process is gone
 *
 * Frames are not queued: each turn a channel is asked for its next one, made from its state. So a
 * slow or absent host costs a window of output and nothing else, and a new connection only has to
 * clear what the old one was told.
 */
#include "agent/agent.h"
#include "agent/process/input.h"
#include "agent/process/output.h"
#include "proto/start.h"

#include <sys/resource.h>

struct channel;

struct source { /* where output comes from */
	struct channel *channel;
	int fd; /* -1: none, or at its end */
	struct loop_io *io;
	enum frame_stream stream;
	bool is_pty;
	size_t owed;  /* bytes that were in the pipe when the process ended: EXIT comes behind them
	               */
	size_t ahead; /* bytes that were in a kernel's pipe or socket when the socket had something
	                 to say: those of the pipes go first */
};

/* Whose turn it is to be read, of a kernel's pipes and its socket. */
enum channel_turn { TURN_ANY, TURN_PIPES, TURN_SOCKET };

enum channel_phase { PHASE_NONE, PHASE_TIMEOUT, PHASE_GRACE, PHASE_SWEEP, PHASE_AWAIT };

struct channel {
	struct list link, ready;
	struct agent *agent;
	uint32_t number;
	enum start_kind kind;
	char *tag;

	pid_t pid;     /* 0: nothing was ever forked */
	bool is_alive; /* not yet reaped */
	int report_fd; /* the child tells here why it failed; end of file = it runs, or went well */
	struct loop_io *report_io;
	struct source sources[3]; /* out, err or records, a kernel's socket */
	enum channel_turn turn;
	struct input input;
	struct output output;

	bool is_awaited; /* a kernel that is to come by itself (zygote_arrival.h) */
	int theirs[5];   /* the last is the imprint that it goes on with, or -1 */
	struct buf welcome;

	/* What the host is to be told of this kernel's own imprint. */
	bool has_imprint;
	int imprint_fd; /* -1: there is none, for that reason */
	char imprint_reason[FRAME_REASON_MAX + 1];

	bool has_started, has_ended, has_exit, is_closed;
	struct channel_exit exit; /* has_ended: how; has_exit: complete */
	uint64_t begun_us;
	int last_signal; /* sent on the host's word */

	bool is_resumed; /* the host wants its frames on this connection */
	bool told_started, told_input, told_exit, told_closed;
	bool is_forgotten; /* no longer the host's; freed when its processes are gone */

	struct loop_timer *timer;
	enum channel_phase phase;
	uint64_t grace_us;
	unsigned sweeps;
};

/* Starts what the host asked for. Failures become the channel's EXIT. imprint_fd: of a
 * START_COPIED, and owned from here on; else -1. */
void channel_start(struct agent *a, uint32_t number, struct start *s, int imprint_fd);
/* The imprint of its kernel is there, if fd is one (owned), or will not come, for that reason. */
void channel_give_imprint(struct channel *c, int fd, const char *reason);
struct channel *channel_find(struct agent *a, uint32_t number); /* borrowed or NULL */
/* The next frame into out, if there is one: 1, 0, or -E2BIG when out is full. */
must_check int channel_emit(struct channel *c, struct buf *out, uint32_t epoch);
void channel_wake(struct channel *c); /* there may be a frame to send */

must_check int channel_ack(struct channel *c, uint64_t upto);
must_check int channel_resume(struct channel *c, uint64_t from);
void channel_hold(struct channel *c); /* a new connection: silent until it is resumed */
must_check int channel_signal(struct channel *c, int signo, enum frame_scope scope);
void channel_resize(struct channel *c, uint16_t rows, uint16_t cols);
void channel_forget(struct channel *c);
enum frame_state channel_state(const struct channel *c);

/* A child of the agent was reaped: true if it was a channel's. */
bool channel_on_reaped(struct agent *a, pid_t pid, int status, const struct rusage *usage);
/* After a source has moved: goes on to EXIT and CLOSED where that is due. */
void channel_settle(struct channel *c);
struct launched;
/* Takes the agent's ends of a process, or of one that is to come. */
must_check int channel_open(struct channel *c, const struct launched *l, const struct start *s);
/* The awaited kernel is that process; or err says why it is not. */
void channel_arrived(struct channel *c, pid_t pid, const struct err *err);
void channel_kill_all(struct agent *a); /* at shutdown, without waiting */
