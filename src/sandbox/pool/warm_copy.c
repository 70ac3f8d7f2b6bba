// SPDX-License-Identifier: Apache-2.0
/*
 * A warm copy is a snapshot with memory of a vm in which no user's code ever ran: it was booted,
 * its interpreters were started, and it was saved. Sandboxes of its template and size start from it
 * instead of booting. It has a row like every snapshot, but no project, so clients cannot see, name
 * or start from it, and no client's snapshot can take its place.
 *
 * The first create of a template and size boots; when it runs, a seed (pool_spare.c) is started,
 * which becomes the copy. If a copy cannot be used (QEMU, kernel or cloche have changed, or its
 * bytes are damaged), it is removed, the create boots instead, and a new seed follows. There are at
 * most COPIES_MAX copies: the least recently used is removed.
 */
#include "sandbox/pool/warm_copy.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "sandbox/pool/pool.h"
#include "sandbox/snapshot/snapshot_private.h"
#include "sandbox/storage/template.h"
#include "store/tables/snapshots.h"

#define COPIES_MAX 8
#define AGAIN_US   (60 * SECOND_US) /* after a seed that failed */

struct warm_taking {
	struct snapshot *sn;
	warm_copy_fn done;
	void *arg;
};

static bool is_size(const struct snapshot *sn, const struct guest_limits *l)
{
	const struct guest_limits *has = &sn->limits;

	/* The other limits are set anew in each machine. */
	return has->memory_bytes == l->memory_bytes && has->disk_bytes == l->disk_bytes &&
	       has->inodes == l->inodes &&
	       (has->cpu_milli + 999) / 1000 == (l->cpu_milli + 999) / 1000;
}

static struct snapshot *find(const struct fleet *fleet, const struct digest *image,
                             const struct guest_limits *limits)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (snapshot_is_warm_copy(sn) && sn->is_there && digest_equal(&sn->image, image) &&
		    is_size(sn, limits))
			return sn;
	return NULL;
}

bool warm_copy_has(const struct fleet *fleet, const struct digest *image,
                   const struct guest_limits *limits)
{
	return find(fleet, image, limits) != NULL;
}

static void drop(struct snapshot *sn)
{
	struct fleet *fleet = sn->fleet;
	struct err err;

	log_info("warm.removed", "id=%s template='%s'", sn->id, sn->template);
	if (store_delete_snapshot(fleet->config.store, sn->id, &err) < 0)
		log_warn("warm.not_removed", "error='%s'", err.message);
	snapshot_discard(fleet, sn->id);
	snapshot_free(sn);
}

void warm_copy_drop_image(struct fleet *fleet, const struct digest *image)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (snapshot_is_warm_copy(sn) && digest_equal(&sn->image, image))
			drop(sn);
}

size_t warm_copy_count_image(const struct fleet *fleet, const struct digest *image)
{
	size_t n = 0;

	list_for_each (&fleet->snapshots, const struct snapshot, sn, link)
		n += snapshot_is_warm_copy(sn) && sn->is_there && digest_equal(&sn->image, image);
	return n;
}

void warm_copy_settle(struct fleet *fleet)
{
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (snapshot_is_warm_copy(sn) && !sn->is_there)
			drop(sn);
}

static void make_room(struct fleet *fleet)
{
	struct snapshot *oldest = NULL;
	size_t n = 0;

	list_for_each (&fleet->snapshots, struct snapshot, sn, link) {
		if (!snapshot_is_warm_copy(sn))
			continue;
		n++;
		if (!oldest || sn->used_us < oldest->used_us)
			oldest = sn;
	}
	if (n > COPIES_MAX)
		drop(oldest);
}

void warm_copy_apply(struct sandbox *s, bool has_interpreters)
{
	struct snapshot *sn = find(s->fleet, &s->image, &s->limits);

	if (!sn)
		return;
	sn->used_us = clock_wall_us();
	memcpy(s->warm_copy, sn->id, sizeof(s->warm_copy));
	copied_processes_expect(s, sn->carried);
	if (!has_interpreters)
		(void)json_object_del(s->carried, "warm");
}

bool warm_copy_on_failed(struct sandbox *s, const struct err *err)
{
	struct fleet *fleet = s->fleet;

	if (!s->warm_copy[0] || s->state != SANDBOX_CREATING)
		return false;
	log_warn("warm.unused", "id=%s copy=%s error='%s'", s->id, s->warm_copy, err->message);
	list_for_each (&fleet->snapshots, struct snapshot, sn, link)
		if (strcmp(sn->id, s->warm_copy) == 0 && err->code == ERR_CONFLICT)
			drop(sn);
	s->warm_copy[0] = '\0';
	json_decref(take_ptr(s->carried));
	return true;
}

void warm_copy_make(struct fleet *fleet, uint32_t engine, const struct template *t,
                    const struct guest_limits *limits)
{
	struct err err;

	if (!t || find(fleet, template_image(t), limits) ||
	    clock_steady_us() < fleet->warm_not_before_us)
		return;
	if (pool_seed(fleet->pool, engine, t, limits, &err) < 0)
		warm_copy_on_seed_failed(fleet, &err);
}

void warm_copy_want(struct sandbox *s)
{
	if (engine_traits(s->engine)->has_copies && s->resumes == 0 && !s->warm_copy[0] &&
	    !s->snapshot_id[0] && !s->shown[0][0])
		warm_copy_make(s->fleet, s->engine,
		               template_find_image(s->fleet, s->template, &s->image), &s->limits);
}

void warm_copy_on_seed_failed(struct fleet *fleet, const struct err *err)
{
	log_warn("warm.failed", "error='%s'", err->message);
	fleet->warm_not_before_us = clock_steady_us() + AGAIN_US;
}

static void on_taken(const struct msg_reply *reply, void *arg)
{
	struct warm_taking *t = arg;
	struct snapshot *sn = t->sn;
	struct fleet *fleet = sn->fleet;
	struct err err = reply->err;
	int r = err.code == ERR_NONE ? 0 : -EIO;

	if (r == 0) {
		sn->bytes = reply->snapshot.bytes;
		sn->written_bytes = reply->snapshot.written_bytes;
		sn->memory_bytes = reply->snapshot.memory_bytes;
		sn->is_there = true;
		r = snapshot_save(sn, &err);
		if (r < 0)
			snapshot_discard(fleet, sn->id);
	}
	if (r < 0) {
		warm_copy_on_seed_failed(fleet, &err);
		snapshot_free(sn);
	} else {
		log_info("warm.made", "id=%s template='%s'", sn->id, sn->template);
		list_append(&fleet->snapshots, &sn->link);
		make_room(fleet);
	}
	t->done(t->arg);
	free(t);
}

int warm_copy_take(struct sandbox *s, warm_copy_fn done, void *arg, struct err *err)
{
	struct fleet *fleet = s->fleet;
	struct msg_request req = {.op = MSG_SNAPSHOT};
	struct warm_taking *t = xnew0(struct warm_taking);
	struct snapshot *sn = snapshot_alloc(fleet);
	int r;

	*t = (struct warm_taking){.sn = sn, .done = done, .arg = arg};
	id_make_tagged(sn->id, "sn");
	memcpy(sn->source_id, s->id, sizeof(sn->source_id));
	sn->generation = 1;
	sn->name = xstrdup("");
	sn->created_us = sn->used_us = clock_wall_us();
	sn->template = xstrdup(s->template);
	sn->image = s->image;
	sn->engine = s->engine;
	sn->limits = s->limits;
	sn->env = json_object();
	sn->carried = copied_processes_describe_warm(s);
	memcpy(req.id, s->id, sizeof(req.id));
	memcpy(req.snapshot.spec.id, sn->id, sizeof(req.snapshot.spec.id));
	req.snapshot.base = s->image;
	req.snapshot.spec.keeper = store_number(fleet->config.store);
	req.snapshot.spec.has_memory = req.snapshot.spec.is_last = 1;
	r = broker_client_ask(fleet->broker, &req, on_taken, t, NULL, err);
	if (r < 0) {
		snapshot_free(sn);
		free(t);
	}
	return r;
}
