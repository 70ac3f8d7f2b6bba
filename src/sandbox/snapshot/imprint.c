// SPDX-License-Identifier: Apache-2.0
#include "sandbox/snapshot/imprint.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/code/contexts.h"
#include "sandbox/code/interpreter.h"
#include "sandbox/model/find.h"
#include "sandbox/network/network.h"
#include "sandbox/snapshot/snapshots.h"
#include "sandbox/storage/storage.h"

#include <string.h>

#define ROW_MAX  (1024 * 1024)
#define SAVE_US  (2 * SECOND_US)  /* until its memory is fixed: some milliseconds */
#define WHOLE_US (30 * SECOND_US) /* until it is written */
#define KEEP_US  (60 * SECOND_US) /* until its source is forked again */
#define KEPT_MAX 64               /* each is an fd of the gateway */

struct imprint {
	struct fleet *fleet;
	char project_id[ID_SIZE], source_id[ID_SIZE];
	struct context *context; /* of the source; NULL: it is gone, or no longer needed */
	char *row;               /* of the context */
	uint64_t created_us, count;
	uint32_t channels; /* the source's next one, when its memory was fixed */
	uint64_t usage_tag;
	struct loop_timer *timer;
	int fd;
	bool is_begun, is_whole; /* those were told */
	bool is_released;        /* the source */
	bool is_stale;           /* something ran in the source since it was released */
	bool is_kept, is_again;  /* no fork has it; it had one before */
	char *why;               /* it has failed, and that is not told yet; or NULL */
	struct imprint_ops ops;
	void *arg;
};

/* Once the source has no part in it any more, its next fork may begin. */
static void let_go(struct imprint *im)
{
	if (!im->context || !im->is_whole || !im->is_released)
		return;
	interpreter_unwatch(im->context);
	im->context = NULL;
}

static void tell_begun(struct imprint *im, const char *why)
{
	if (im->is_begun)
		return;
	im->is_begun = true;
	im->ops.on_begun(why, im->arg);
}

static void tell_whole(struct imprint *im, const char *why)
{
	if (im->is_whole)
		return;
	im->is_whole = true;
	let_go(im);
	loop_timer_set(im->timer, UINT64_MAX);
	im->ops.on_whole(why, im->arg);
}

/* Of whichever of both comes next. */
static void fail(struct imprint *im, const char *why)
{
	if (im->is_begun)
		tell_whole(im, why);
	else
		tell_begun(im, why);
}

static void on_saved(struct context *c, const char *why, void *arg)
{
	struct imprint *im = arg;

	im->count = c->count;
	im->channels = c->sandbox->next_channel;
	loop_timer_set_in(im->timer, im->why ? 0 : WHOLE_US);
	tell_begun(im, why);
}

/* Told by the timer: its sandbox may be about to end, its link about to begin. */
static void fail_later(struct imprint *im, const char *why)
{
	if (!im->why)
		im->why = xstrdup(why);
	loop_timer_set_in(im->timer, 0);
}

static void on_imprint(struct context *c, int fd, const char *why, void *arg)
{
	struct imprint *im = arg;

	(void)c;
	close_fd(&im->fd);
	im->fd = fd;
	if (fd >= 0)
		tell_whole(im, NULL);
	else
		fail_later(im, why);
}

static void on_lost(struct context *c, const char *why, void *arg)
{
	struct imprint *im = arg;

	(void)c;
	im->context = NULL;
	fail_later(im, why);
}

static const struct interpreter_watch source_watch = {
	.on_saved = on_saved,
	.on_imprint = on_imprint,
	.on_lost = on_lost,
};

static void on_timer(struct loop *loop, void *arg)
{
	struct imprint *im = arg;

	(void)loop;
	if (im->is_kept) {
		imprint_free(im);
		return;
	}
	if (im->is_again && !im->why && im->context) {
		tell_whole(im, NULL);
		tell_begun(im, NULL); /* which may free it */
		return;
	}
	if (im->context && !im->why) /* what comes late must not be taken for the next one */
		im->context->can_save = false;
	fail(im, im->why ? im->why : "the interpreter does not answer in time");
}

static void on_usage(const struct msg_reply *reply, void *arg)
{
	struct imprint *im = arg;
	const struct sandbox *s = sandbox_find(im->fleet, im->project_id, im->source_id);
	const uint64_t used = reply->usage.memory_bytes;
	uint64_t room;

	im->usage_tag = 0;
	if (!s || !im->context || reply->err.code != ERR_NONE) {
		fail(im, "the memory that is left is not known");
		return;
	}
	if (im->context->state != CONTEXT_IDLE) {
		fail(im, "a call runs");
		return;
	}
	room = s->limits.memory_bytes;
	room = room == 0 ? INT64_MAX : room > used ? room - used : 0;
	loop_timer_set_in(im->timer, SAVE_US);
	interpreter_save(im->context, room, &source_watch, im);
}

/* The sandbox's only context, if it may be saved this way. */
static struct context *find_context(struct sandbox *s, const char **ret_why)
{
	struct context *c = list_first(&s->contexts, struct context, link);
	const char *why = NULL;

	if (s->engine != ENGINE_BASE)
		why = "it is a machine of its own";
	else if (s->state != SANDBOX_RUNNING || !s->link || !link_is_up(s->link))
		why = "it does not run";
	else if (!c || s->n_contexts != 1 || !list_empty(&s->warm))
		why = "it has not exactly one interpreter";
	else if (volume_mounts_are_given(s))
		why = "it has volumes";
	else if (link_channels(s->link) != 1)
		why = "an exec or a file operation is under way";
	else if (c->watch)
		why = "another fork is under way";
	else if (c->state != CONTEXT_IDLE || c->running)
		why = "a call runs";
	else if (!c->can_save)
		why = "its interpreter is no fork of a zygote";
	*ret_why = why;
	return why ? NULL : c;
}

static void on_disturbed(void *arg)
{
	struct imprint *im = arg;

	im->is_stale = true;
	if (im->is_kept)
		imprint_free(im);
}

static struct imprint *find_kept(const struct sandbox *s)
{
	return s->on_disturbed == on_disturbed ? s->disturbed_arg : NULL;
}

/* Nothing has run in the source since: it is held once more, for its files. */
static struct imprint *take_again(struct imprint *im, struct context *c,
                                  const struct imprint_ops *ops, void *arg)
{
	c->sandbox->on_disturbed = NULL;
	im->fleet->n_imprints--;
	im->is_kept = im->is_begun = im->is_whole = im->is_released = false;
	im->is_again = true;
	im->ops = *ops;
	im->arg = arg;
	im->context = c;
	im->channels = c->sandbox->next_channel;
	interpreter_hold(c, &source_watch, im);
	log_debug("imprint.again", "source=%s", im->source_id);
	loop_timer_set_in(im->timer, 0);
	return im;
}

struct imprint *imprint_take(struct sandbox *s, const struct imprint_ops *ops, void *arg,
                             const char **ret_why)
{
	auto_call(buf_done) struct buf row = BUF_INIT(ROW_MAX);
	struct context *c = find_context(s, ret_why);
	struct msg_request req = {.op = MSG_USAGE};
	struct imprint *im;

	if (!c)
		return NULL;
	im = find_kept(s);
	if (im && im->is_kept)
		return take_again(im, c, ops, arg);
	*ret_why = "its context cannot be described";
	if (context_row_json(c, &row) < 0)
		return NULL;
	im = xnew0(struct imprint);
	*im = (struct imprint){.fleet = s->fleet,
	                       .context = c,
	                       .row = xstrdup(buf_str(&row)),
	                       .created_us = c->created_us,
	                       .fd = -1,
	                       .ops = *ops,
	                       .arg = arg};
	memcpy(im->project_id, s->project_id, sizeof(im->project_id));
	memcpy(im->source_id, s->id, sizeof(im->source_id));
	memcpy(req.id, s->id, sizeof(req.id));
	im->timer = loop_timer_new(s->fleet->config.loop, on_timer, im);
	*ret_why = "the memory that is left is not known";
	if (broker_client_ask(s->fleet->broker, &req, on_usage, im, &im->usage_tag, NULL) < 0) {
		imprint_free(im);
		return NULL;
	}
	/* From here on its end is heard of. */
	c->watch = &source_watch;
	c->watch_arg = im;
	return im;
}

bool imprint_release(struct imprint *im)
{
	struct sandbox *s;
	bool is_alone;

	if (!im->context)
		return false;
	s = im->context->sandbox;
	is_alone = s->next_channel == im->channels;
	sandbox_disturb(s); /* an older one */
	s->on_disturbed = on_disturbed;
	s->disturbed_arg = im;
	interpreter_release(im->context);
	im->is_released = true;
	let_go(im);
	return is_alone;
}

void imprint_keep(struct imprint *im)
{
	const struct sandbox *s = sandbox_find(im->fleet, im->project_id, im->source_id);

	if (!s || find_kept(s) != im || im->is_stale || im->context || im->fd < 0 ||
	    im->fleet->n_imprints >= KEPT_MAX) {
		imprint_free(im);
		return;
	}
	im->is_kept = true;
	im->fleet->n_imprints++;
	loop_timer_set_in(im->timer, KEEP_US);
}

void imprint_free(struct imprint *im)
{
	struct sandbox *s;

	if (!im)
		return;
	s = sandbox_find(im->fleet, im->project_id, im->source_id);
	if (s && find_kept(s) == im)
		s->on_disturbed = NULL;
	im->fleet->n_imprints -= im->is_kept;
	if (im->context && im->context->watch_arg == im) {
		interpreter_unwatch(im->context);
		interpreter_release(im->context);
	}
	if (im->usage_tag)
		broker_client_cancel(im->fleet->broker, im->usage_tag);
	loop_timer_free(im->timer);
	close_fd(&im->fd);
	free(im->row);
	free(im->why);
	free(im);
}

struct arrival {
	struct loop *loop;
	const char *why; /* or NULL */
	imprint_entered_fn done;
	void *arg;
};

static void tell_entered(struct loop *loop, void *arg)
{
	struct arrival e = *(struct arrival *)arg;

	(void)loop;
	free(arg);
	e.done(e.why, e.arg);
}

static void on_entered(struct context *c, void *arg)
{
	(void)c;
	tell_entered(NULL, arg);
}

/* Told later: its sandbox may be about to end. */
static void on_not_entered(struct context *c, const char *why, void *arg)
{
	struct arrival *e = arg;

	(void)c;
	e->why = why;
	loop_defer(e->loop, tell_entered, e);
}

static const struct interpreter_watch copy_watch = {
	.on_ready = on_entered,
	.on_lost = on_not_entered,
};

/* The copy's only context; NULL: it cannot be made. */
static struct context *make_context(const struct imprint *im, struct sandbox *copy)
{
	char id[ID_SIZE];
	const struct context_row row = {
		.id = id, .sandbox_id = copy->id, .created_us = im->created_us, .json = im->row};

	id_make(id, "ctx");
	if (list_empty(&copy->contexts) && context_load(copy, &row) < 0)
		return NULL;
	return list_entry(copy->contexts.prev, struct context, link);
}

void imprint_prepare(struct imprint *im, struct sandbox *copy)
{
	struct context *c = make_context(im, copy);

	if (c)
		interpreter_fork_ahead(c);
}

void imprint_enter(struct imprint *im, struct sandbox *copy, imprint_entered_fn done, void *arg)
{
	struct arrival *e = xnew0(struct arrival);
	struct context *c = make_context(im, copy);
	struct err err;

	*e = (struct arrival){.loop = im->fleet->config.loop, .done = done, .arg = arg};
	if (!c) {
		on_not_entered(NULL, "its context cannot be made", e);
		return;
	}
	if (interpreter_start_copied(c, im->fd, &copy_watch, e, &err) < 0) {
		context_remove(c);
		on_not_entered(NULL, "its interpreter cannot be started from an imprint", e);
		return;
	}
	c->count = c->last_call = (uint32_t)im->count;
}
