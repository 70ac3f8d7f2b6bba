// SPDX-License-Identifier: Apache-2.0
#include "agent/process/channel.h"

#include "agent/process/launch.h"
#include "agent/process/pipes.h"
#include "agent/process/process_tree.h"
#include "agent/process/zygote_arrival.h"
#include "base/clock.h"
#include "base/fd.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define SWEEP_EVERY_US 10000 /* between looks for what a kill has left */
#define SWEEPS_MAX     300   /* after that only the end of the sandbox helps */
#define FILE_GRACE_US  2000000

void channel_wake(struct channel *c)
{
	if (c->is_forgotten)
		return;
	list_remove(&c->ready);
	list_append(&c->agent->ready, &c->ready);
	c->agent->calls.kick(c->agent);
}

static void wake_from_input(void *arg)
{
	channel_wake(arg);
}

struct channel *channel_find(struct agent *a, uint32_t number)
{
	list_for_each (&a->channels, struct channel, c, link)
		if (c->number == number && !c->is_forgotten)
			return c;
	return NULL;
}

enum frame_state channel_state(const struct channel *c)
{
	return c->is_closed ? CHANNEL_CLOSED : c->has_exit ? CHANNEL_EXITED : CHANNEL_RUNNING;
}

static void channel_free(struct loop *loop, void *arg)
{
	struct channel *c = arg;

	(void)loop;
	free(c->tag);
	free(c);
}

/* What the host needs no more may still have a process to be reaped or a tree to be killed. */
static void free_if_done(struct channel *c)
{
	if (!c->is_forgotten || c->is_alive || c->phase != PHASE_NONE || !c->timer)
		return;
	loop_timer_free(c->timer);
	c->timer = NULL;
	list_remove(&c->link);
	list_remove(&c->ready);
	loop_defer(c->agent->loop, channel_free, c);
}

static void close_pipes(struct channel *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->sources); i++)
		source_close(&c->sources[i]);
	loop_io_removep(&c->report_io);
	if (c->report_fd >= 0)
		(void)close(c->report_fd);
	c->report_fd = -1;
	input_done(&c->input);
	zygote_arrival_give_up(c);
	close_fd(&c->imprint_fd);
	c->has_imprint = false;
}

static void set_phase(struct channel *c, enum channel_phase phase, uint64_t in_us)
{
	c->phase = phase;
	if (phase == PHASE_NONE)
		loop_timer_set(c->timer, UINT64_MAX);
	else
		loop_timer_set_in(c->timer, in_us);
}

static void sweep(struct channel *c)
{
	if (process_tree_kill(c->pid, c->is_alive, c->tag) == 0 || ++c->sweeps >= SWEEPS_MAX)
		set_phase(c, PHASE_NONE, 0);
	else
		set_phase(c, PHASE_SWEEP, SWEEP_EVERY_US);
	free_if_done(c);
}

static void kill_tree(struct channel *c)
{
	if (c->pid == 0 || c->phase == PHASE_SWEEP)
		return;
	if (c->kind == START_FILE) {
		set_phase(c, PHASE_NONE, 0);
		if (c->is_alive)
			(void)kill(c->pid, SIGKILL);
		return;
	}
	c->sweeps = 0;
	sweep(c);
}

static void channel_on_timer(struct loop *loop, void *arg)
{
	struct channel *c = arg;
	struct err err;

	(void)loop;
	switch (c->phase) {
	case PHASE_NONE:
		break;
	case PHASE_TIMEOUT:
		c->exit.cause = EXIT_CAUSE_TIMEOUT;
		if (c->grace_us > 0) {
			(void)process_tree_signal(c->pid, c->is_alive, c->tag, SIGTERM);
			set_phase(c, PHASE_GRACE, c->grace_us);
			break;
		}
		kill_tree(c);
		break;
	case PHASE_GRACE:
		kill_tree(c);
		break;
	case PHASE_SWEEP:
		sweep(c);
		break;
	case PHASE_AWAIT:
		(void)err_set(&err, ERR_TIMEOUT, ETIMEDOUT, "no fork came");
		zygote_arrival_give_up(c);
		channel_arrived(c, 0, &err);
		break;
	}
}

static void set_failed(struct channel *c, int errnum, const char *message)
{
	c->exit.how = EXIT_FAILED;
	c->exit.value = errnum > 0 && errnum < 4096 ? (uint32_t)errnum : EIO;
	(void)snprintf(c->exit.message, sizeof(c->exit.message), "%.*s",
	               (int)sizeof(c->exit.message) - 1, message);
}

/* Moves the channel on as far as its process and pipes allow. */
void channel_settle(struct channel *c)
{
	bool is_open = false, is_owed = false;

	for (size_t i = 0; i < ARRAY_SIZE(c->sources); i++) {
		is_open = is_open || c->sources[i].fd >= 0;
		is_owed = is_owed || (c->sources[i].fd >= 0 && c->sources[i].owed > 0);
	}
	if (c->has_ended && !c->has_exit && !is_owed) {
		c->has_exit = true;
		c->exit.output_end = c->output.end;
		channel_wake(c);
	}
	if (c->has_exit && !c->is_closed && !is_open) {
		c->is_closed = true;
		channel_wake(c);
	}
}

/* A child that failed says why before it exits; one that is silent did well, or was killed. */
static void read_report(struct channel *c)
{
	struct report report;
	ssize_t n;

	if (c->report_fd < 0)
		return;
	n = read(c->report_fd, &report, sizeof(report));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_io_removep(&c->report_io);
	(void)close(c->report_fd);
	c->report_fd = -1;
	if (n == (ssize_t)sizeof(report)) {
		report.message[sizeof(report.message) - 1] = '\0';
		c->exit.flags = report.flags & EXIT_TRUNCATED;
		if (report.errnum > 0)
			set_failed(c, report.errnum, report.message);
	} else if (!c->has_started) {
		c->has_started = true;
		channel_wake(c);
	}
}

static void channel_on_report(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	read_report(arg);
}

static void set_status(struct channel *c, int status)
{
	if (c->exit.how == EXIT_FAILED)
		return;
	if (WIFSIGNALED(status)) {
		c->exit.how = EXIT_SIGNAL;
		c->exit.value = (uint32_t)WTERMSIG(status);
	} else {
		c->exit.how = EXIT_CODE;
		c->exit.value = (uint32_t)WEXITSTATUS(status);
	}
	/* A file operation has no exit code of its own: it did its work, or it was kept from it. */
	if (c->kind == START_FILE && (c->exit.how == EXIT_SIGNAL || c->exit.value != 0))
		set_failed(c, EINTR, "the operation was killed inside the sandbox");
	if (c->exit.cause == EXIT_CAUSE_NONE && c->exit.how == EXIT_SIGNAL &&
	    (int)c->exit.value == c->last_signal)
		c->exit.cause = EXIT_CAUSE_KILLED;
}

static uint64_t timeval_us(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000 + (uint64_t)t->tv_usec;
}

static void channel_on_end(struct channel *c, int status, const struct rusage *usage)
{
	c->is_alive = false;
	read_report(c);
	set_status(c, status);
	c->exit.wall_us = clock_steady_us() - c->begun_us;
	c->exit.user_us = timeval_us(&usage->ru_utime);
	c->exit.system_us = timeval_us(&usage->ru_stime);
	c->exit.max_rss_kib = (uint64_t)usage->ru_maxrss;
	c->has_ended = true;
	if (c->phase == PHASE_TIMEOUT || c->kind == START_FILE)
		set_phase(c, PHASE_NONE, 0); /* an exec's GRACE or SWEEP goes on, for its tree */
	for (size_t i = 0; i < ARRAY_SIZE(c->sources); i++)
		source_owe(&c->sources[i]);
	channel_settle(c);
	free_if_done(c);
}

bool channel_on_reaped(struct agent *a, pid_t pid, int status, const struct rusage *usage)
{
	list_for_each (&a->channels, struct channel, c, link) {
		if (c->pid != pid || !c->is_alive)
			continue;
		channel_on_end(c, status, usage);
		return true;
	}
	return false;
}

/* By a zygote. */
static bool is_sent(const struct start *s)
{
	return s->kind == START_FORKED || s->kind == START_COPIED;
}

static struct channel *channel_new(struct agent *a, uint32_t number, const struct start *s)
{
	struct channel *c = xnew0(struct channel);

	c->agent = a;
	c->number = number;
	c->kind = is_sent(s) ? START_KERNEL : s->kind;
	c->tag = xstrdup(s->tag);
	c->report_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(c->theirs); i++)
		c->theirs[i] = -1;
	c->imprint_fd = -1;
	buf_init(&c->welcome, WELCOME_MAX);
	c->begun_us = clock_steady_us();
	c->grace_us = s->grace_us;
	c->is_resumed = c->told_input = true;
	c->timer = loop_timer_new(a->loop, channel_on_timer, c);
	input_init(&c->input, wake_from_input, c);
	output_init(&c->output);
	for (size_t i = 0; i < ARRAY_SIZE(c->sources); i++)
		c->sources[i] = (struct source){.channel = c, .fd = -1};
	list_init(&c->ready);
	list_append(&a->channels, &c->link);
	a->n_channels++;
	return c;
}

int channel_open(struct channel *c, const struct launched *l, const struct start *s)
{
	int r = source_open(&c->sources[0], l->out_fd, STREAM_STDOUT, s->has_pty);

	if (r >= 0 && l->aux_fd >= 0)
		r = source_open(&c->sources[1], l->aux_fd,
		                s->kind == START_FILE ? STREAM_RECORD : STREAM_STDERR, false);
	if (r >= 0 && l->socket_fd >= 0)
		r = source_open(&c->sources[2], l->socket_fd, STREAM_RECORD, false);
	if (r >= 0 && l->in_fd >= 0)
		r = input_open(&c->input, c->agent->loop, l->in_fd, s->has_pty);
	return r;
}

void channel_arrived(struct channel *c, pid_t pid, const struct err *err)
{
	set_phase(c, PHASE_NONE, 0);
	if (err) {
		set_failed(c, err->errnum, err->message);
		c->has_ended = true;
		channel_settle(c);
	} else {
		c->pid = pid;
		c->is_alive = c->has_started = true;
	}
	channel_wake(c);
}

void channel_start(struct agent *a, uint32_t number, struct start *s, int imprint_fd)
{
	struct channel *c = channel_new(a, number, s);
	struct launched l;
	struct err err;
	int r = is_sent(s) ? zygote_arrival_expect(c, s, imprint_fd, &err) : launch(a, s, &l, &err);

	if (r >= 0 && is_sent(s)) {
		set_phase(c, PHASE_AWAIT, ZYGOTE_ARRIVAL_TIME_US);
		a->calls.introduce(a, c->tag); /* it may have been faster */
	} else if (r >= 0) {
		c->pid = l.pid;
		c->is_alive = true;
		c->report_fd = l.report_fd;
		r = loop_io_add(a->loop, l.report_fd, EPOLLIN, channel_on_report, c, &c->report_io);
		if (r >= 0)
			r = channel_open(c, &l, s);
		if (r < 0) { /* epoll had no memory: the process goes, its end is told as usual */
			set_failed(c, -r, "the agent cannot watch the process");
			(void)kill(c->pid, SIGKILL);
			return;
		}
		c->has_started = s->kind == START_FILE;
		if (s->timeout_us > 0 && start_is_program(s->kind))
			set_phase(c, PHASE_TIMEOUT, s->timeout_us);
	} else {
		set_failed(c, -r, err.message);
		c->has_ended = true;
		channel_settle(c);
	}
	channel_wake(c);
}

static int emit_u64(const struct channel *c, struct buf *out, uint32_t epoch, enum frame_type type,
                    uint64_t value)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(8);
	struct pack p = {.out = &payload};

	pack_u64(&p, value);
	return frame_put(out, type, c->number, epoch, payload.data, payload.len);
}

static int emit_started(struct channel *c, struct buf *out, uint32_t epoch)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(4);
	struct pack p = {.out = &payload};

	pack_u32(&p, (uint32_t)c->pid);
	return frame_put(out, FRAME_STARTED, c->number, epoch, payload.data, payload.len);
}

static int emit_exit(struct channel *c, struct buf *out, uint32_t epoch)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(512);

	if (channel_exit_encode(&c->exit, &payload) < 0)
		return -EPROTO;
	return frame_put(out, FRAME_EXIT, c->number, epoch, payload.data, payload.len);
}

static int emit_output(struct channel *c, struct buf *out, uint32_t epoch)
{
	/* Until the host knows of the end, nothing from behind it. */
	uint64_t until = c->has_exit && !c->told_exit ? c->exit.output_end : UINT64_MAX;
	enum frame_stream stream;
	const char *data;
	size_t len;
	int r;

	if (!output_next(&c->output, until, &stream, &data, &len))
		return 0;
	r = frame_put_output(out, c->number, epoch, c->output.sent, stream, data, len);
	if (r < 0)
		return r;
	output_sent(&c->output, len);
	return 1;
}

void channel_give_imprint(struct channel *c, int fd, const char *reason)
{
	close_fd(&c->imprint_fd);
	c->imprint_fd = fd;
	(void)snprintf(c->imprint_reason, sizeof(c->imprint_reason), "%s", reason);
	c->has_imprint = true;
	channel_wake(c);
}

/* The fd goes with bytes of this frame, or of one before. */
static int emit_imprint(struct channel *c, struct buf *out, uint32_t epoch)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(4 + FRAME_REASON_MAX);
	struct pack p = {.out = &payload};
	int r;

	pack_str(&p, c->imprint_reason);
	r = p.error < 0
	            ? p.error
	            : frame_put(out, FRAME_IMPRINT, c->number, epoch, payload.data, payload.len);
	if (r < 0)
		return r;
	c->agent->passed_fd = take_fd(&c->imprint_fd);
	c->has_imprint = false;
	return 1;
}

int channel_emit(struct channel *c, struct buf *out, uint32_t epoch)
{
	uint64_t count;
	int r;

	if (!c->is_resumed)
		return 0;
	if (c->has_started && !c->told_started) {
		r = emit_started(c, out, epoch);
		c->told_started = r >= 0;
		return r < 0 ? r : 1;
	}
	if (input_ack_due(&c->input, &count) || !c->told_input) {
		count = c->told_input ? count : c->input.arrived;
		r = emit_u64(c, out, epoch, FRAME_INPUT_ACK, count);
		if (r >= 0) {
			c->input.told = count;
			c->told_input = true;
		}
		return r < 0 ? r : 1;
	}
	if (!c->has_exit && input_refusal_due(&c->input)) {
		r = emit_u64(c, out, epoch, FRAME_INPUT_ACK, c->input.told);
		c->input.told_refusal = r >= 0;
		return r < 0 ? r : 1;
	}
	r = emit_output(c, out, epoch);
	if (r != 0)
		return r;
	if (c->has_imprint && c->agent->passed_fd < 0)
		return emit_imprint(c, out, epoch);
	if (c->has_exit && !c->told_exit) {
		r = emit_exit(c, out, epoch);
		c->told_exit = r >= 0;
		return r < 0 ? r : 1;
	}
	if (c->is_closed && !c->told_closed) {
		r = frame_put(out, FRAME_CLOSED, c->number, epoch, NULL, 0);
		c->told_closed = r >= 0;
		return r < 0 ? r : 1;
	}
	return 0;
}

static void resume_sources(struct channel *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->sources); i++)
		source_resume(&c->sources[i]);
}

int channel_ack(struct channel *c, uint64_t upto)
{
	int r = output_ack(&c->output, upto);

	if (r >= 0)
		resume_sources(c);
	return r;
}

int channel_resume(struct channel *c, uint64_t from)
{
	int r = c->is_resumed ? -EPROTO : output_resume(&c->output, from);

	if (r < 0)
		return r;
	c->is_resumed = true;
	resume_sources(c);
	channel_wake(c);
	return 0;
}

void channel_hold(struct channel *c)
{
	c->is_resumed = false;
	c->told_started = c->told_input = c->told_exit = c->told_closed = false;
	c->input.told_refusal = false;
	/* Not sent on this connection; what the host has it says in its RESUME. */
	c->output.sent = c->output.acked;
}

int channel_signal(struct channel *c, int signo, enum frame_scope scope)
{
	if (signo < 1 || signo > 64)
		return -EPROTO;
	if (c->pid == 0)
		return 0;
	c->last_signal = signo;
	switch (scope) {
	case SCOPE_PROCESS:
		if (c->is_alive)
			(void)kill(c->pid, signo);
		return 0;
	case SCOPE_GROUP:
		if (c->is_alive && kill(-c->pid, signo) < 0)
			(void)kill(c->pid, signo); /* it has not come to its setsid() yet */
		return 0;
	case SCOPE_TREE:
		if (signo == SIGKILL)
			kill_tree(c);
		else
			(void)process_tree_signal(c->pid, c->is_alive, c->tag, signo);
		return 0;
	}
	return -EPROTO;
}

void channel_resize(struct channel *c, uint16_t rows, uint16_t cols)
{
	struct winsize size = {.ws_row = rows, .ws_col = cols};

	if (c->sources[0].is_pty && c->sources[0].fd >= 0)
		(void)ioctl(c->sources[0].fd, TIOCSWINSZ, &size);
}

void channel_forget(struct channel *c)
{
	bool was_closed = c->is_closed;

	assert(!c->is_forgotten);
	list_remove(&c->ready);
	c->is_forgotten = true;
	c->agent->n_channels--;
	/* It removes a half-written file, and goes. Told before its input is closed, which it would
	 * take for the end of a whole one. */
	if (c->kind == START_FILE && c->is_alive)
		(void)kill(c->pid, SIGTERM);
	close_pipes(c);
	output_done(&c->output);
	if (c->kind == START_FILE && c->is_alive) {
		set_phase(c, PHASE_GRACE, FILE_GRACE_US);
	} else if (c->phase == PHASE_AWAIT) {
		set_phase(c, PHASE_NONE, 0);
	} else if (c->kind == START_KERNEL || (!was_closed && c->kind == START_EXEC)) {
		kill_tree(c);
	}
	free_if_done(c);
}

void channel_kill_all(struct agent *a)
{
	list_for_each (&a->channels, struct channel, c, link) {
		if (start_is_program(c->kind) && c->pid > 0)
			(void)process_tree_kill(c->pid, c->is_alive, c->tag);
		else if (c->is_alive)
			(void)kill(c->pid, SIGKILL);
	}
}
