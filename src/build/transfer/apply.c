// SPDX-License-Identifier: Apache-2.0
/*
 *	view: compare ──► conflicts? ──► view: bundle out ──► target: bundle in
 *
 * Both calls see the same three snapshots. The bundle passes through here a window at a time, as
 * fast as the slower side; the target's agent begins to change files when it has the whole bundle
 * and the hash matches.
 */
#include "build/transfer/apply.h"

#include "build/build_private.h"
#include "build/transfer/view.h"
#include "sandbox/snapshot/snapshot.h"

#include <assert.h>
#include <string.h>

#define CHANGES_MAX 1000000
#define HELD_MAX    (1024 * 1024) /* more than a window */

struct apply {
	struct builds *owner;
	char project_id[ID_SIZE], to_id[ID_SIZE];
	enum apply_policy policy;
	struct apply_result result;
	struct view *view;
	struct file_call *out, *in;
	struct buf held; /* of the bundle, that the target had no room for */
	bool is_out_whole;
	const struct apply_ops *ops;
	void *arg;
};

static const char *const policy_names[] = {
	[APPLY_FAIL] = "fail", [APPLY_SKIP] = "skip", [APPLY_THEIRS] = "theirs"};
static_assert(ARRAY_SIZE(policy_names) == APPLY_POLICY_COUNT, "a policy has no name");

const char *apply_policy_name(enum apply_policy policy)
{
	return policy_names[policy];
}

static void apply_free(struct apply *a)
{
	if (a->out)
		file_call_cancel(a->out);
	if (a->in)
		file_call_cancel(a->in);
	view_close(a->view);
	buf_done(&a->held);
	free(a);
}

static void end(struct apply *a, const struct err *err)
{
	a->ops->on_end(err ? NULL : &a->result, err, a->arg);
	apply_free(a);
}

static void push(struct apply *a)
{
	while (a->in && a->held.len > 0) {
		ssize_t n = file_call_write(a->in, a->held.data, a->held.len);

		if (n <= 0)
			return; /* on_room goes on */
		buf_consume(&a->held, (size_t)n);
	}
	if (a->out)
		file_call_pause(a->out, false);
	else if (a->in && a->is_out_whole)
		file_call_finish(a->in);
}

static void on_out_data(const char *data, size_t len, void *arg)
{
	struct apply *a = arg;

	if (buf_append(&a->held, data, len) < 0)
		return; /* its hash will not fit */
	file_call_pause(a->out, true);
	push(a);
}

static void on_out_end(const struct err *err, void *arg)
{
	struct apply *a = arg;

	a->out = NULL;
	a->is_out_whole = !err;
	if (err)
		end(a, err);
	else
		push(a);
}

static void on_in_room(void *arg)
{
	push(arg);
}

static void on_in_record(const struct record *r, void *arg)
{
	struct apply *a = arg;

	if (r->kind == RECORD_COUNT)
		a->result.is_applied = true;
}

static void on_in_end(const struct err *err, void *arg)
{
	struct apply *a = arg;
	struct err why;

	a->in = NULL;
	if (!err && !a->result.is_applied) {
		(void)err_set(&why, ERR_GUEST, 0, "the sandbox did not report what it did");
		err = &why;
	}
	end(a, err);
}

static void transfer(struct apply *a)
{
	static const struct file_call_ops out_ops = {.on_data = on_out_data, .on_end = on_out_end};
	static const struct file_call_ops in_ops = {
		.on_record = on_in_record, .on_room = on_in_room, .on_end = on_in_end};
	struct start out = {.op = FILE_BUNDLE_OUT,
	                    .flags = FILE_CHECKED |
	                             (a->policy == APPLY_THEIRS ? (uint32_t)FILE_THEIRS : 0)};
	const struct start in = {.kind = START_FILE,
	                         .op = FILE_BUNDLE_IN,
	                         .user = unconst("root"),
	                         .path = unconst("/")};
	struct sandbox *s = sandbox_find(a->owner->config.fleet, a->project_id, a->to_id);
	struct err err;
	int r = s ? file_call_start(s, &in, &in_ops, a, &a->in, &err)
	          : err_set(&err, ERR_GONE, 0, "sandbox %s has ended", a->to_id);

	if (r == 0)
		r = view_call(a->view, &out, &out_ops, a, &a->out, &err);
	if (r == 0)
		file_call_finish(a->out); /* it has no text */
	else
		end(a, &err);
}

static void on_change(const struct record *r, void *arg)
{
	struct apply *a = arg;

	if (r->kind != RECORD_CHANGE)
		return;
	a->result.changes++;
	if (!(r->changes & CHANGE_CONFLICT))
		return;
	a->result.conflicts++;
	a->ops->on_conflict(r, a->arg);
}

static void on_compared(const struct err *err, void *arg)
{
	struct apply *a = arg;
	const struct apply_result *r = &a->result;
	struct err why;

	if (!err && file_call_is_truncated(a->out)) {
		(void)err_set(&why, ERR_TOO_LARGE, 0, "there are more than %d changes",
		              CHANGES_MAX);
		err = &why;
	}
	a->out = NULL;
	if (err || (r->conflicts > 0 && a->policy == APPLY_FAIL)) {
		end(a, err);
		return;
	}
	if (r->changes == (a->policy == APPLY_SKIP ? r->conflicts : 0)) {
		a->result.is_applied = true;
		end(a, NULL);
		return;
	}
	transfer(a);
}

static void on_ready(const struct err *err, void *arg)
{
	static const struct file_call_ops ops = {.on_record = on_change, .on_end = on_compared};
	struct apply *a = arg;
	struct start op = {.op = FILE_COMPARE, .limit = CHANGES_MAX};
	struct err why;

	if (!err && view_call(a->view, &op, &ops, a, &a->out, &why) < 0)
		err = &why;
	if (err)
		end(a, err);
}

static int check_runs(const struct sandbox *s, struct err *err)
{
	const enum sandbox_state state = sandbox_state(s);

	if (state == SANDBOX_RUNNING)
		return 0;
	if (state == SANDBOX_STOPPED || state == SANDBOX_FAILED || state == SANDBOX_STOPPING)
		return err_set(err, ERR_GONE, 0, "sandbox %s has ended", sandbox_id(s));
	(void)err_set(err, ERR_CONFLICT, 0, "sandbox %s is %s", sandbox_id(s),
	              sandbox_state_name(state));
	return err_hint(err, "its own agent puts the files in place: resume it first");
}

static int find_base(struct builds *bs, const struct apply_spec *spec, const char **ret,
                     struct err *err)
{
	struct fleet *fleet = bs->config.fleet;
	const char *project_id = sandbox_project_id(spec->to);
	int r = snapshot_hold_check(fleet, project_id, spec->from, err);

	if (r < 0)
		return err_prefix(err, "from");
	*ret = spec->base ? spec->base : lineage_common(fleet, project_id, spec->from, spec->to);
	if (*ret)
		return 0;
	(void)err_set(err, ERR_CONFLICT, 0,
	              "there is no snapshot that '%.64s' and sandbox %s both come from", spec->from,
	              sandbox_id(spec->to));
	return err_hint(err, "say against which one with base");
}

int apply_start(struct builds *bs, const struct apply_spec *spec, const struct apply_ops *ops,
                void *arg, struct apply **ret, struct err *err)
{
	struct view_spec view = {.project_id = sandbox_project_id(spec->to)};
	struct apply *a;
	int r = check_runs(spec->to, err);

	if (r == 0)
		r = find_base(bs, spec, &view.values[0], err);
	if (r < 0)
		return r;
	view.values[1] = spec->from;
	view.values[2] = sandbox_id(spec->to);
	a = xnew0(struct apply);
	*a = (struct apply){.owner = bs,
	                    .policy = spec->policy,
	                    .held = BUF_INIT(HELD_MAX),
	                    .ops = ops,
	                    .arg = arg};
	(void)snprintf(a->project_id, sizeof(a->project_id), "%s", view.project_id);
	(void)snprintf(a->to_id, sizeof(a->to_id), "%s", view.values[2]);
	r = view_open(bs, &view, on_ready, a, &a->view, err);
	if (r < 0) {
		free(a);
		return r;
	}
	*ret = a;
	return 0;
}

void apply_leave(struct apply *a)
{
	apply_free(a);
}
