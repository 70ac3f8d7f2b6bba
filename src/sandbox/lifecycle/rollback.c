// SPDX-License-Identifier: Apache-2.0
/*
 * Rolls a sandbox back to a snapshot, in place: it is stopped and started over a copy of the
 * snapshot, under its own id. The row names the snapshot (rolls_to) from before the stop until the
 * sandbox runs. So if any process is killed at any moment, the next start of the sandbox uses the
 * snapshot. A persistent sandbox has its old files until the engine has replaced them.
 *
 * During a rollback a sandbox that is not persistent is kept too: the snapshot has its files.
 */
#include "base/log.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/model/find.h"
#include "sandbox/model/sandbox_events.h"
#include "sandbox/snapshot/snapshot_private.h"

static int check_state(const struct sandbox *s, struct err *err)
{
	switch (s->state) {
	case SANDBOX_RUNNING:
	case SANDBOX_PAUSED:
		return 0;
	case SANDBOX_STOPPED:
	case SANDBOX_FAILED:
		if (s->is_kept)
			return 0;
		return sandbox_has_ended(s, err);
	case SANDBOX_CREATING:
	case SANDBOX_PAUSING:
	case SANDBOX_STOPPING:
	case SANDBOX_STATE_COUNT:
		break;
	}
	return err_set(err, ERR_CONFLICT, 0, "sandbox %s is %s", s->id,
	               sandbox_state_name(s->state));
}

static int check_snapshot(const struct sandbox *s, const struct snapshot *sn, struct err *err)
{
	if (!sn->is_there)
		return err_set(err, ERR_CONFLICT, 0, "snapshot %s is damaged", sn->id);
	if (!digest_equal(&sn->image, &s->image)) {
		(void)err_set(err, ERR_CONFLICT, 0,
		              "snapshot %s is over another template than sandbox %s", sn->id,
		              s->id);
		return err_hint(err, "start a new sandbox from it instead");
	}
	if (sn->engine != s->engine)
		return err_set(err, ERR_CONFLICT, 0, "snapshot %s is of a %s, sandbox %s is a %s",
		               sn->id, engine_name(sn->engine), s->id, engine_name(s->engine));
	return snapshot_check_disk(sn, s->limits.disk_bytes, err);
}

int sandbox_roll_back(struct sandbox *s, const char *snapshot, sandbox_done_fn done, void *arg,
                      struct err *err)
{
	const struct snapshot *sn = snapshot_find(s->fleet, s->project_id, snapshot);
	int r = check_state(s, err);

	if (r == 0)
		r = sn ? check_snapshot(s, sn, err)
		       : err_set(err, ERR_NOT_FOUND, 0, "snapshot: no snapshot '%.64s'", snapshot);
	if (r == 0) /* before it is ended */
		r = fleet_check_disk(s->fleet, err);
	if (r < 0)
		return r;
	memcpy(s->rolls_to, sn->id, sizeof(s->rolls_to));
	if (!sandbox_is_alive(s)) {
		r = sandbox_resume(s, done, arg, err);
		if (r < 0)
			s->rolls_to[0] = '\0';
		return r;
	}
	log_info("sandbox.rolling_back", "id=%s to=%s", s->id, sn->id);
	s->is_kept = true;
	sandbox_end(s, END_STOPPED, NULL, "it was rolled back");
	sandbox_wait(&s->callers, done, arg);
	return 0;
}

void rollback_on_running(struct sandbox *s)
{
	const struct snapshot *sn = snapshot_find(s->fleet, s->project_id, s->rolls_to);
	char last[ID_SIZE];

	if (!s->rolls_to[0])
		return;
	memcpy(last, s->snapshot_id, sizeof(last));
	memcpy(s->snapshot_id, s->rolls_to, sizeof(s->snapshot_id));
	s->rolls_to[0] = '\0';
	s->is_kept = s->is_persistent;
	s->base_bytes = sn && !sn->is_unshared && !sn->is_generation ? sn->bytes : 0;
	if (s->outlive.origin[0])
		s->outlive.origin[0] = '\0'; /* emitted when it was restored */
	else
		emit_rolled_back(s);
	if (last[0])
		snapshot_drop_unused(s->fleet, last);
}

/* After a failure it is resumed over its own files. */
void rollback_on_failed(struct sandbox *s)
{
	if (!s->rolls_to[0])
		return;
	s->rolls_to[0] = '\0';
	s->is_kept = s->is_persistent;
}
