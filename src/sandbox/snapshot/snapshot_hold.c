// SPDX-License-Identifier: Apache-2.0
/*
 * Only one snapshot of a sandbox can be taken at a time; further requests wait in line.
 *
 * Holds are in memory only: they end with the gateway. A snapshot that it took for a hold is
 * automatic and unused then, and a snapshot that was removed while it was held has no row; the next
 * start removes both.
 *
 * A held snapshot is read in a sandbox of the same engine: a vm's files are in a disk image, which
 * the host's kernel must not interpret.
 */
#include "base/log.h"
#include "sandbox/model/find.h"
#include "sandbox/snapshot/snapshot_private.h"

struct snapshot_hold {
	struct list link; /* in the fleet's */
	struct fleet *fleet;
	char project_id[ID_SIZE], id[ID_SIZE];
	char source_id[ID_SIZE]; /* of the sandbox that one is taken of, or "" */
	struct digest image;
	uint32_t engine;
	struct guest_limits limits;
	bool is_own;     /* taken for this hold */
	bool is_taking;  /* it is on its way */
	bool is_waiting; /* it will be */
	bool is_left;    /* nobody waits for it any more */
	bool is_removed; /* its row is gone */
	snapshot_held_fn fn;
	void *arg;
};

static bool is_held(const struct fleet *fleet, const char *id)
{
	list_for_each (&fleet->holds, const struct snapshot_hold, h, link)
		if (strcmp(h->id, id) == 0)
			return true;
	return false;
}

bool snapshot_hold_outlives(struct fleet *fleet, const char *id)
{
	bool is_any = false;

	list_for_each (&fleet->holds, struct snapshot_hold, h, link)
		if (strcmp(h->id, id) == 0)
			h->is_removed = is_any = true;
	return is_any;
}

static void hold_free(struct snapshot_hold *h)
{
	struct fleet *fleet = h->fleet;
	struct snapshot *sn = h->is_own ? snapshot_find(fleet, h->project_id, h->id) : NULL;
	struct err err;

	list_remove(&h->link);
	if (sn && snapshot_remove(sn, &err) < 0)
		log_warn("snapshot.not_removed", "error='%s'", err.message);
	else if (h->is_removed && !is_held(fleet, h->id))
		snapshot_discard(fleet, h->id);
	free(h);
}

const char *snapshot_hold_id(const struct snapshot_hold *h)
{
	return h->id;
}

const struct digest *snapshot_hold_image(const struct snapshot_hold *h)
{
	return &h->image;
}

uint32_t snapshot_hold_engine(const struct snapshot_hold *h)
{
	return h->engine;
}

const struct guest_limits *snapshot_hold_limits(const struct snapshot_hold *h)
{
	return &h->limits;
}

static void grasp(struct snapshot_hold *h, const struct snapshot *sn)
{
	memcpy(h->id, sn->id, sizeof(h->id));
	h->image = sn->image;
	h->engine = sn->engine;
	h->limits = sn->limits;
}

static void take_next(struct fleet *fleet, const char *source_id);

static void on_taken(struct snapshot *sn, const struct err *err, void *arg)
{
	struct snapshot_hold *h = arg;
	struct fleet *fleet = h->fleet;
	char source_id[ID_SIZE];

	memcpy(source_id, h->source_id, sizeof(source_id));
	h->is_taking = false;
	if (sn)
		grasp(h, sn);
	if (h->is_left)
		hold_free(h);
	else
		h->fn(err, h->arg);
	take_next(fleet, source_id);
}

static int take(struct snapshot_hold *h, struct sandbox *s, struct err *err)
{
	static const struct snapshot_wish wish = {.is_automatic = true};
	int r = snapshot_take(s, &wish, on_taken, h, err);

	h->is_waiting = false;
	h->is_taking = r == 0;
	return r;
}

static struct snapshot_hold *first_waiting(const struct fleet *fleet, const char *source_id)
{
	list_for_each (&fleet->holds, struct snapshot_hold, h, link)
		if (h->is_waiting && strcmp(h->source_id, source_id) == 0)
			return h;
	return NULL;
}

/* Serves the first in line, or the next one if it cannot be served. */
static void take_next(struct fleet *fleet, const char *source_id)
{
	struct snapshot_hold *h;

	while ((h = first_waiting(fleet, source_id))) {
		struct sandbox *s = sandbox_find(fleet, h->project_id, source_id);
		struct err err;

		h->is_waiting = false;
		if (!s)
			(void)err_set(&err, ERR_GONE, 0, "sandbox %s has ended", source_id);
		else if (take(h, s, &err) == 0)
			return;
		h->fn(&err, h->arg);
	}
}

static bool is_being_taken(const struct fleet *fleet, const char *source_id)
{
	list_for_each (&fleet->holds, const struct snapshot_hold, h, link)
		if (h->is_taking && strcmp(h->source_id, source_id) == 0)
			return true;
	return false;
}

static void on_found(struct loop *loop, void *arg)
{
	struct snapshot_hold *h = arg;

	(void)loop;
	h->is_taking = false;
	if (h->is_left)
		hold_free(h);
	else
		h->fn(NULL, h->arg);
}

/* Sets one of the two. */
static int find(struct fleet *fleet, const char *project_id, const char *id_or_name,
                struct snapshot **ret_sn, struct sandbox **ret_s, struct err *err)
{
	*ret_sn = snapshot_find(fleet, project_id, id_or_name);
	*ret_s = sandbox_find(fleet, project_id, id_or_name);
	if (*ret_sn && *ret_s)
		return err_set(err, ERR_CONFLICT, 0,
		               "'%s' is the name of a sandbox and of a snapshot: say which by its "
		               "id",
		               id_or_name);
	if (!*ret_sn && !*ret_s) {
		(void)err_set(err, ERR_NOT_FOUND, 0, "no snapshot or sandbox '%.64s'", id_or_name);
		return err_hint(err, "`cloche snapshot ls` and `cloche ps` tell which there are");
	}
	if (*ret_sn && !(*ret_sn)->is_there)
		return err_set(err, ERR_CONFLICT, 0, "snapshot %s is damaged", (*ret_sn)->id);
	return 0;
}

int snapshot_hold_check(struct fleet *fleet, const char *project_id, const char *id_or_name,
                        struct err *err)
{
	struct snapshot *sn;
	struct sandbox *s;

	return find(fleet, project_id, id_or_name, &sn, &s, err);
}

static int begin(struct snapshot_hold *h, const char *id_or_name, struct err *err)
{
	struct snapshot *sn;
	struct sandbox *s;
	int r = find(h->fleet, h->project_id, id_or_name, &sn, &s, err);

	if (r < 0)
		return r;
	if (s) {
		h->is_own = true;
		memcpy(h->source_id, s->id, sizeof(h->source_id));
		h->is_waiting = is_being_taken(h->fleet, s->id);
		return h->is_waiting ? 0 : take(h, s, err);
	}
	grasp(h, sn);
	h->is_taking = true;
	loop_defer(h->fleet->config.loop, on_found, h);
	return 0;
}

int snapshot_hold(struct fleet *fleet, const char *project_id, const char *id_or_name,
                  snapshot_held_fn fn, void *arg, struct snapshot_hold **ret, struct err *err)
{
	struct snapshot_hold *h = xnew0(struct snapshot_hold);
	int r;

	*h = (struct snapshot_hold){.fleet = fleet, .fn = fn, .arg = arg};
	(void)snprintf(h->project_id, sizeof(h->project_id), "%s", project_id);
	list_append(&fleet->holds, &h->link);
	r = begin(h, id_or_name, err);
	if (r < 0) {
		list_remove(&h->link);
		free(h);
		return r;
	}
	*ret = h;
	return 0;
}

void snapshot_release(struct snapshot_hold *h)
{
	if (!h)
		return;
	h->is_left = true;
	if (!h->is_taking)
		hold_free(h);
}

void snapshot_holds_close(struct fleet *fleet)
{
	list_for_each (&fleet->holds, struct snapshot_hold, h, link) {
		list_remove(&h->link);
		free(h);
	}
}
