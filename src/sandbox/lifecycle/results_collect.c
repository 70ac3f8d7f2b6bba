// SPDX-License-Identifier: Apache-2.0
/*
 * Collects results: for each path first what it is, then its bytes, by the file operations that
 * clients use. So the agent reads as the sandbox's user, and the host resolves no path.
 *
 * The agent is the guest's: it may be slow, lie or say nothing. Bytes are bounded as they come, and
 * one clock bounds it all. Each call ends before the next begins; that is done by a timer, since a
 * call's own callbacks may not end it all.
 *
 * If the gateway is killed meanwhile, its successor begins anew: the row says that the sandbox ends
 * and has no word on its results yet. It connects to the agent first, within the same clock.
 */
#include "sandbox/lifecycle/results.h"

#include "base/fd.h"
#include "sandbox/agentlink/link.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/find.h"

#include <stdio.h>
#include <sys/stat.h>

struct collection {
	struct sandbox *s;
	size_t number;          /* of the path */
	struct file_call *call; /* under way, or NULL */
	uint32_t mode;          /* of what is there; 0: not known yet */
	int fd;                 /* it is written to, or -1 */
	uint64_t bytes;
	struct err err; /* why this one is not kept */
	struct loop_timer *step, *deadline;
};

static const char *path_of(const struct collection *c)
{
	return json_string_value(json_array_get(c->s->results, c->number));
}

static void close_file(struct collection *c)
{
	if (c->fd >= 0)
		(void)close(take_fd(&c->fd));
}

void results_collect_cancel(struct sandbox *s)
{
	struct collection *c = take_ptr(s->collection);

	if (!c)
		return;
	if (c->call)
		file_call_cancel(c->call);
	close_file(c);
	loop_timer_free(c->step);
	loop_timer_free(c->deadline);
	free(c);
}

static void go_on(struct collection *c)
{
	loop_timer_set_in(c->step, 0);
}

static void fail(struct collection *c, const struct err *err)
{
	if (c->err.code == ERR_NONE)
		c->err = *err;
	if (c->call)
		file_call_cancel(take_ptr(c->call));
	go_on(c);
}

static void on_stat(const struct record *r, void *arg)
{
	struct collection *c = arg;

	if (r->kind == RECORD_ENTRY)
		c->mode = r->mode;
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct collection *c = arg;
	const uint64_t most = c->s->fleet->config.results_sandbox_max;
	struct err err;

	if (c->fd < 0 || c->err.code != ERR_NONE)
		return;
	if (len > most || c->s->result_bytes + c->bytes > most - len)
		(void)err_set(&err, ERR_LIMIT, 0,
		              "the results of a sandbox may have %llu bytes together",
		              (unsigned long long)most);
	else if (fd_write_all(c->fd, data, len) < 0)
		(void)err_set(&err, ERR_HOST_DISK_FULL, errno, "it could not be kept");
	else {
		c->bytes += len;
		return;
	}
	fail(c, &err);
}

static void on_end(const struct err *err, void *arg)
{
	struct collection *c = arg;

	c->call = NULL;
	if (err && c->err.code == ERR_NONE)
		c->err = *err;
	go_on(c);
}

static void ignore_record(const struct record *r, void *arg)
{
	(void)r; /* a read tells the file's stat first */
	(void)arg;
}

static int begin_call(struct collection *c, enum file_op op, uint32_t flags, struct err *err)
{
	static const struct file_call_ops stat_ops = {.on_record = on_stat, .on_end = on_end};
	static const struct file_call_ops read_ops = {
		.on_record = ignore_record, .on_data = on_data, .on_end = on_end};
	const struct start start = {.kind = START_FILE,
	                            .op = op,
	                            .path = unconst(path_of(c)),
	                            .user = unconst(""),
	                            .flags = flags,
	                            .size = op == FILE_READ ? INT64_MAX : 0};

	return file_call_begin(c->s, &start, op == FILE_STAT ? &stat_ops : &read_ops, c, &c->call,
	                       err);
}

/* It is known what is there. */
static int begin_read(struct collection *c, struct err *err)
{
	if (!S_ISREG(c->mode) && !S_ISDIR(c->mode))
		return err_set(err, ERR_FILE_INVALID, 0, "it is neither a file nor a directory");
	c->fd = results_create_file(c->s, c->number, err);
	if (c->fd < 0)
		return -EIO;
	return begin_call(c, S_ISDIR(c->mode) ? FILE_TAR_OUT : FILE_READ, 0, err);
}

static void leave_one(struct collection *c)
{
	const bool is_failed = c->err.code != ERR_NONE;

	if (is_failed && c->fd >= 0)
		results_remove_file(c->s, c->number);
	close_file(c);
	results_note(c->s, c->number, S_ISDIR(c->mode), is_failed ? 0 : c->bytes,
	             is_failed ? c->err.message : NULL);
	c->err = (struct err){0};
	c->mode = 0;
	c->bytes = 0;
	c->number++;
}

static void on_step(struct loop *loop, void *arg)
{
	struct collection *c = arg;
	struct sandbox *s = c->s;
	struct err err;
	int r;

	(void)loop;
	if (c->err.code != ERR_NONE || c->fd >= 0)
		leave_one(c);
	if (c->number == json_array_size(s->results)) {
		results_collect_cancel(s);
		sandbox_note(s);
		life_next(s);
		return;
	}
	r = c->mode == 0 ? begin_call(c, FILE_STAT, FILE_FOLLOW, &err) : begin_read(c, &err);
	if (r < 0)
		fail(c, &err);
}

static void fail_rest(struct sandbox *s, size_t from, const char *why)
{
	for (size_t i = from; i < json_array_size(s->results); i++)
		results_note(s, i, false, 0, why);
}

static void on_deadline(struct loop *loop, void *arg)
{
	struct collection *c = arg;
	struct sandbox *s = c->s;

	(void)loop;
	if (c->call)
		file_call_cancel(take_ptr(c->call));
	if (c->fd >= 0)
		results_remove_file(s, c->number);
	fail_rest(s, c->number, "it took too long to read it");
	results_collect_cancel(s);
	sandbox_note(s);
	life_next(s);
}

/* A sandbox that is rolled back runs on: its results are those of its end. */
static bool is_wanted(const struct sandbox *s)
{
	return json_array_size(s->results) > 0 && json_array_size(s->result_files) == 0 &&
	       !s->rolls_to[0];
}

bool results_are_due(const struct sandbox *s)
{
	return is_wanted(s) && s->phase == PHASE_ENDING;
}

void results_begin_end(struct sandbox *s)
{
	if (is_wanted(s) && s->ended_from != PHASE_RUNNING)
		fail_rest(s, 0, "the sandbox did not run when it ended");
}

void results_on_link(struct sandbox *s)
{
	if (s->collection && !s->collection->call)
		go_on(s->collection);
}

static void begin(struct sandbox *s)
{
	struct collection *c = xnew0(struct collection);
	struct loop *loop = s->fleet->config.loop;

	c->s = s;
	c->fd = -1;
	c->step = loop_timer_new(loop, on_step, c);
	c->deadline = loop_timer_new(loop, on_deadline, c);
	s->collection = c;
	loop_timer_set_in(c->deadline, RESULTS_US);
	if (link_is_up(s->link))
		go_on(c);
}

void results_collect(struct sandbox *s)
{
	const bool is_begun_anew = s->ended_from == PHASE_ENDING;
	struct err err;
	const char *why = NULL;

	if (!results_are_due(s)) {
		life_next(s);
		return;
	}
	if (!s->link || (!is_begun_anew && !link_is_healthy(s->link)))
		why = "the sandbox's agent did not answer any more";
	else if (fleet_check_disk(s->fleet, &err) < 0)
		why = err.message;
	if (!why) {
		begin(s);
		return;
	}
	fail_rest(s, 0, why);
	sandbox_note(s);
	life_next(s);
}
