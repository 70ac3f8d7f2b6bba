// SPDX-License-Identifier: Apache-2.0
/*
 * Finds why an exec ended, with the figures that decided. Mostly its exit status tells. A command
 * that failed, and that nobody ended, may have hit a limit: then the sandbox's counters are read
 * before the end is reported, and the first of these that applies is the cause:
 *
 *	oom		killed, and the kernel's count of such kills has moved since it started
 *	pids		the count of processes that were not let begin has moved
 *	disk_full	the files take all but the last of the disk limit
 *
 * Counters belong to the sandbox, not to the exec: if two execs fail at the same time, both get a
 * cause that one of them may have caused. A command that hit a limit and went on has the cause of
 * its own end.
 *
 * The agent has its own memory, outside the sandbox's limit. If even that runs out, the sandbox
 * ends with this cause.
 */
#include "base/log.h"
#include "base/units.h"
#include "sandbox/exec/exec_private.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* The space that the filesystem still has when it refuses a write. */
#define DISK_SLACK_BYTES (4 * MIB)
/* The kernel charges memory in batches, so a group that ran out may show less than its limit. */
#define PEAK_SLACK_BYTES (4 * MIB)

/* A shell reports a killed child as 128 + 9. */
bool exit_may_be_oom(const struct channel_exit *x)
{
	if (x->cause != EXIT_CAUSE_NONE)
		return false;
	return x->value == (x->how == EXIT_SIGNAL ? (uint32_t)SIGKILL : 128U + SIGKILL);
}

bool end_cause_needs_usage(const struct channel_exit *x)
{
	return x->cause == EXIT_CAUSE_NONE && (x->how == EXIT_SIGNAL || x->value != 0);
}

enum end_cause end_cause_of_exit(const struct channel_exit *x)
{
	switch (x->cause) {
	case EXIT_CAUSE_TIMEOUT:
		return END_TIMEOUT;
	case EXIT_CAUSE_KILLED:
		return END_KILLED;
	case EXIT_CAUSE_NONE:
		break;
	}
	/* Other signals mostly come from the command itself: a crash, an abort, a closed pipe. */
	return x->how == EXIT_SIGNAL && x->value == SIGKILL ? END_KILLED : END_EXITED;
}

static bool is_disk_full(const struct sandbox *s, const struct guest_usage *u)
{
	uint64_t slack = MIN(DISK_SLACK_BYTES, s->limits.disk_bytes / 16);

	if (u->is_left_told)
		return u->left_bytes <= slack;
	return u->disk_bytes > 0 && u->disk_bytes + s->base_bytes + slack >= s->limits.disk_bytes;
}

enum end_cause end_cause_by_usage(const struct exec *e, const struct guest_usage *u)
{
	if (exit_may_be_oom(&e->exit) && u->oom_kills > e->oom_kills_before)
		return END_OOM;
	if (u->pids_refused > e->pids_refused_before)
		return END_PIDS;
	if (is_disk_full(e->sandbox, u))
		return END_DISK_FULL;
	return end_cause_of_exit(&e->exit);
}

/* OOM kills are not noted here: the exec that was killed notes them, so that none is taken for
 * another's. */
void end_cause_note_usage(struct sandbox *s, const struct guest_usage *u)
{
	s->pids_refused = MAX(s->pids_refused, u->pids_refused);
}

static json_int_t number(uint64_t n)
{
	return (json_int_t)MIN(n, (uint64_t)INT64_MAX);
}

static void describe_exit(struct exec *e)
{
	if (e->exit.how == EXIT_SIGNAL) {
		e->detail = json_pack("{s:I}", "signal", number(e->exit.value));
		e->why = xasprintf("a signal ended it: %u", e->exit.value);
	} else {
		e->detail = json_pack("{s:I}", "exit_code", number(e->exit.value));
		e->why = xasprintf("it ended with code %u", e->exit.value);
	}
}

static void describe_oom(struct exec *e, const struct guest_usage *u)
{
	uint64_t limit = e->sandbox->limits.memory_bytes;

	e->detail = json_pack("{s:I, s:I, s:I, s:s}", "limit_bytes", number(limit), "peak_bytes",
	                      number(u ? u->memory_peak_bytes : 0), "kills",
	                      number(u ? u->oom_kills - e->oom_kills_before : 0), "victim",
	                      e->exit.how == EXIT_SIGNAL ? "command" : "child");
	e->why = xasprintf("the sandbox's memory of %" PRIu64 " MiB ran out", limit / MIB);
	log_warn("exec.oom", "id=%s sandbox_id=%s limit_bytes=%" PRIu64, e->id, e->sandbox->id,
	         limit);
}

static void describe_pids(struct exec *e, const struct guest_usage *u)
{
	uint32_t limit = e->sandbox->limits.pids;

	e->detail = json_pack("{s:I, s:I}", "limit", number(limit), "refused",
	                      number(u ? u->pids_refused - e->pids_refused_before : 0));
	e->why = xasprintf("the sandbox had all of its %u processes", limit);
}

static void describe_disk(struct exec *e, const struct guest_usage *u)
{
	uint64_t limit = e->sandbox->limits.disk_bytes;

	e->detail = json_pack("{s:I, s:I}", "limit_bytes", number(limit), "used_bytes",
	                      number(u ? u->disk_bytes : 0));
	e->why = xasprintf("the sandbox's disk of %" PRIu64 " MiB was full", limit / MIB);
}

static void describe_kill(struct exec *e)
{
	bool by_call = e->exit.cause == EXIT_CAUSE_KILLED;

	e->detail = json_pack("{s:I, s:s}", "signal",
	                      number(e->exit.how == EXIT_SIGNAL ? e->exit.value : SIGKILL), "by",
	                      by_call ? "call" : "unknown");
	e->why = xstrdup(by_call ? "a call killed it" : "something killed it");
}

bool end_cause_is_shortage(const struct msg_reply *ended)
{
	int status = ended->ended.wait_status;

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
	       ended->ended.shortage.oom_kills > 0;
}

json_t *end_cause_describe_shortage(const struct sandbox *s, const struct guest_shortage *short_of,
                                    char *message, size_t size)
{
	bool is_own = short_of->peak_bytes + PEAK_SLACK_BYTES >= short_of->limit_bytes;

	if (is_own)
		(void)snprintf(message, size,
		               "its memory of %" PRIu64 " MiB, the agent's included, ran out",
		               short_of->limit_bytes / MIB);
	else
		(void)snprintf(message, size, "the memory of the host ran out");
	log_warn("sandbox.oom", "id=%s limit_bytes=%" PRIu64 " peak_bytes=%" PRIu64, s->id,
	         short_of->limit_bytes, short_of->peak_bytes);
	return json_pack("{s:I, s:I, s:I, s:s}", "limit_bytes", number(short_of->limit_bytes),
	                 "peak_bytes", number(short_of->peak_bytes), "kills",
	                 number(short_of->oom_kills), "victim", "agent");
}

void end_cause_describe(struct exec *e, const struct guest_usage *u)
{
	const struct sandbox *s = e->sandbox;

	if (e->exit.how == 0) { /* its sandbox ended under it */
		e->detail = s->end.detail ? json_deep_copy(s->end.detail) : NULL;
		e->why = xasprintf("its sandbox ended: %s", s->end.message);
		return;
	}
	switch (e->cause) {
	case END_OOM:
		describe_oom(e, u);
		break;
	case END_PIDS:
		describe_pids(e, u);
		break;
	case END_DISK_FULL:
		describe_disk(e, u);
		break;
	case END_TIMEOUT:
		e->detail = json_pack("{s:I}", "timeout_ms", number(e->timeout_ms));
		e->why = xasprintf("its timeout of %" PRIu64 " ms was up", e->timeout_ms);
		break;
	case END_KILLED:
		describe_kill(e);
		break;
	case END_NONE:
	case END_EXITED:
	case END_IDLE:
	case END_DELETED:
	case END_GUEST_CRASH:
	case END_HOST_RESTART:
	case END_POLICY:
	case END_STOPPED:
	case END_NODE_LOST:
	case END_CAUSE_COUNT:
		describe_exit(e);
		break;
	}
}
