// SPDX-License-Identifier: Apache-2.0
/*
 * The gateway's requests, one function each. A request is checked first (check.h), and has exactly
 * one last reply: at once, or when the box or the engine is done.
 */
#include "base/log.h"
#include "broker/broker_private.h"
#include "broker/check.h"

#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

/*
 * The requests. Each returns 0 when *reply (and fds) is the answer, 1 when the answer comes later,
 * or < 0 with reply->err.
 */

static int do_probe(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct sysinfo info;
	struct statvfs disk;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	(void)req;
	(void)fds;
	if (sysinfo(&info) < 0 || statvfs(b->config.host.data_dir, &disk) < 0)
		return err_set(&reply->err, ERR_INTERNAL, errno, "cannot measure the host");
	broker_look_again(b);
	for (size_t i = 0; engines[i]; i++) {
		reply->probe.engines[i].err = b->no_engine[i];
		if (b->no_engine[i].code != ERR_NONE)
			continue;
		reply->probe.engines[i].isolation = engines[i]->isolation(b->hosts[i], NULL);
		if (engines[i]->speed)
			reply->probe.engines[i].speed = engines[i]->speed(b->hosts[i]);
	}
	if (b->base->condition)
		b->base->condition(b->hosts[0], &reply->probe.condition);
	reply->probe.cpus = cpus > 0 ? (uint32_t)cpus : 1;
	reply->probe.memory_bytes = (uint64_t)info.totalram * info.mem_unit;
	reply->probe.disk_free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
	reply->probe.turns = loop_stats(b->config.loop);
	if (b->base->disk)
		b->base->disk(b->hosts[0], &reply->probe.disk);
	return 0;
}

static int check_room(struct broker *b, const char *id, struct err *err)
{
	if (box_find(b, id))
		return err_set(err, ERR_CONFLICT, EEXIST, "sandbox %s exists", id);
	if (b->n_boxes < b->config.sandboxes_max)
		return 0;
	(void)err_set(err, ERR_CAPACITY, ENOSPC, "this host runs %zu sandboxes, which is its most",
	              b->n_boxes);
	return err_hint(err, "delete some, or raise sandboxes_max in the daemon's configuration");
}

static int do_create(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	const struct err *lacks = broker_lacks(b, req->create.engine);
	struct box *box;
	uint32_t slot;
	int r = check_room(b, req->id, &reply->err);

	(void)fds;
	if (r < 0)
		return r;
	if (lacks) {
		reply->err = *lacks;
		return -ENOSYS;
	}
	r = slots_take(&b->slots, &slot);
	if (r < 0)
		return err_set(&reply->err, ERR_CAPACITY, -r, "no uid range is free");
	box = box_new(b);
	box->state = BOX_STARTING;
	box->create_tag = req->tag;
	memcpy(box->spec.id, req->id, sizeof(box->spec.id));
	memcpy(box->spec.hostname, req->create.hostname, sizeof(box->spec.hostname));
	box->spec.slot = slot;
	box->spec.engine = req->create.engine;
	broker_set_engine(box, req->create.engine);
	box->has_slot = true;
	box->spec.image = req->create.image;
	box->spec.limits = req->create.limits;
	finals_begin(&b->finals, req->id);
	box->spec.keeper = req->create.keeper;
	box->spec.is_resumed = req->create.is_resumed;
	memcpy(box->spec.snapshot, req->create.snapshot, sizeof(box->spec.snapshot));
	box->spec.shows = req->create.shows;
	memcpy(box->spec.shown, req->create.shown, sizeof(box->spec.shown));
	memcpy(box->spec.volumes, req->create.volumes, sizeof(box->spec.volumes));
	box->spec.with_memory = req->create.with_memory;
	broker_work_begin(b);
	r = box->engine->start(box->host, &box->spec, box_on_guest_started, box_on_guest_ended, box,
	                       &box->guest, &reply->err);
	if (r == 0 && req->create.owner > 0 && b->base->weigh)
		b->base->weigh(b->hosts[0], req->id, req->create.owner, req->create.weight,
		               req->create.is_ahead);
	if (r == 0)
		return 1;
	slots_give(&b->slots, slot);
	box_free(box);
	broker_work_end(b);
	return r;
}

struct box *requests_find_running(struct broker *b, const char *id, struct err *err)
{
	struct box *box = box_find(b, id);

	if (!box)
		(void)err_set(err, ERR_NOT_FOUND, ENOENT, "no sandbox %s", id);
	else if (box->state == BOX_STARTING)
		(void)err_set(err, ERR_CONFLICT, EBUSY, "sandbox %s is starting", id);
	else if (box->state == BOX_KILLING)
		(void)err_set(err, ERR_GONE, ESRCH, "sandbox %s has ended", id);
	return box && box->state == BOX_RUNNING ? box : NULL;
}

static int do_connect(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                      int *fds)
{
	struct box *box = requests_find_running(b, req->id, &reply->err);

	return box ? box->engine->connect(box->guest, fds, &reply->err) : -ESRCH;
}

/* Deletes what is left of an id without a living guest: at most a layer. */
static int delete_kept(struct broker *b, const struct msg_request *req)
{
	struct box *box = box_new(b);
	int r;

	box->state = BOX_KILLING;
	box->final = finals_find(&b->finals, req->id);
	memcpy(box->spec.id, req->id, sizeof(box->spec.id));
	r = b->base->discard(b->hosts[0], req->id, box_end, box);
	if (r == 1)
		box_wait(box, req);
	else
		box_free(box);
	return r;
}

static int do_delete(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	struct box *box = box_find(b, req->id);

	(void)fds;
	if (!box) {
		reply->usage = finals_find(&b->finals, req->id);
		return req->op == MSG_DELETE ? delete_kept(b, req) : 0;
	}
	box->is_deleted |= req->op == MSG_DELETE;
	box_wait(box, req);
	if (box->state == BOX_RUNNING)
		box_kill(box);
	return 1;
}

static int do_limits(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	struct box *box = requests_find_running(b, req->id, &reply->err);
	int r;

	(void)fds;
	if (!box)
		return -ESRCH;
	r = box->engine->set_limits(box->guest, &req->limits, &reply->err);
	if (r == 0)
		box->spec.limits = req->limits;
	return r;
}

struct usage_wait {
	struct broker *broker;
	uint64_t tag;
	char id[ID_SIZE];
};

static void on_measured(const struct guest_usage *usage, void *arg)
{
	struct usage_wait *w = arg;
	struct broker *b = w->broker;
	struct msg_reply reply;

	box_reply_init(&reply, MSG_USAGE, w->tag, w->id);
	reply.usage = *usage;
	free(w);
	wire_reply(b->wire, &reply, NULL);
	broker_work_end(b);
}

static int do_usage(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct box *box = requests_find_running(b, req->id, &reply->err);
	struct usage_wait *w;
	int r;

	(void)fds;
	if (!box)
		return -ESRCH;
	if (!box->engine->measure)
		return box->engine->usage(box->guest, &reply->usage, &reply->err);
	w = xnew0(struct usage_wait);
	*w = (struct usage_wait){.broker = b, .tag = req->tag};
	memcpy(w->id, req->id, sizeof(w->id));
	broker_work_begin(b);
	r = box->engine->measure(box->guest, on_measured, w, &reply->err);
	if (r == 0)
		return 1;
	free(w);
	broker_work_end(b);
	return r;
}

static int do_freeze(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	struct box *box = requests_find_running(b, req->id, &reply->err);

	(void)fds;
	if (!box)
		return -ESRCH;
	freeze_cancel(box);
	if (req->op == MSG_FREEZE)
		return freeze_begin(box, req->tag, &reply->err);
	return box->engine->freeze(box->guest, /* on= */ false, &reply->err);
}

struct fork_wait {
	struct broker *broker;
	uint64_t tag;
	char id[ID_SIZE];
};

static void on_forked(const struct err *err, void *arg)
{
	struct fork_wait *w = arg;
	struct broker *b = w->broker;
	struct msg_reply reply;

	box_reply_init(&reply, MSG_FORK, w->tag, w->id);
	if (err)
		reply.err = *err;
	free(w);
	wire_reply(b->wire, &reply, NULL);
	b->n_forks--;
	broker_work_end(b);
}

static int do_fork(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	struct box *box = requests_find_running(b, req->id, &reply->err);
	struct fork_wait *w;
	int r;

	(void)fds;
	if (!box)
		return -ESRCH;
	if (!box->engine->fork)
		return err_set(&reply->err, ERR_UNSUPPORTED, ENOSYS, "this engine has no zygotes");
	w = xnew0(struct fork_wait);
	*w = (struct fork_wait){.broker = b, .tag = req->tag};
	memcpy(w->id, req->id, sizeof(w->id));
	r = box->engine->fork(box->guest, req->fork.tag, on_forked, w, &reply->err);
	if (r < 0) {
		free(w);
		return r;
	}
	b->n_forks++;
	broker_work_begin(b);
	return 1;
}

struct kept_list {
	struct broker *broker;
	uint64_t tag;
};

static void list_kept(const char *id, uint64_t keeper, void *arg)
{
	const struct kept_list *list = arg;
	const struct box *box = box_find(list->broker, id);
	struct msg_reply row;

	/* If it has ended and is being removed, only its layer will be left. */
	if (box && (box->state == BOX_RUNNING || box->is_deleted))
		return;
	box_reply_init(&row, MSG_LIST, list->tag, id);
	row.list.keeper = keeper;
	wire_reply(list->broker->wire, &row, NULL);
}

static int do_list(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	struct kept_list kept = {b, req->tag};

	(void)fds;
	for (struct list *l = b->boxes.next; l != &b->boxes; l = l->next) {
		const struct box *box = list_entry(l, struct box, link);
		struct msg_reply row;

		if (box->state != BOX_RUNNING)
			continue;
		box_reply_init(&row, MSG_LIST, req->tag, box->spec.id);
		row.list.limits = box->spec.limits;
		row.list.isolation = box->engine->isolation(box->host, box->guest);
		row.list.image = box->spec.image;
		row.list.is_alive = 1;
		row.list.keeper = box->spec.keeper;
		wire_reply(b->wire, &row, NULL);
	}
	b->base->each_kept(b->hosts[0], list_kept, &kept);
	reply->id[0] = '\0';
	return 0;
}

static int (*const requests[])(struct broker *b, const struct msg_request *req,
                               struct msg_reply *reply, int *fds) = {
	[MSG_PROBE] = do_probe,
	[MSG_CREATE] = do_create,
	[MSG_CONNECT] = do_connect,
	[MSG_DELETE] = do_delete,
	[MSG_LIMITS] = do_limits,
	[MSG_USAGE] = do_usage,
	[MSG_FREEZE] = do_freeze,
	[MSG_THAW] = do_freeze,
	[MSG_LIST] = do_list,
	[MSG_DOOR] = doors_do_open,
	[MSG_DOOR_CLOSE] = doors_do_close,
	[MSG_DIAL] = doors_do_dial,
	[MSG_FORK] = do_fork,
	[MSG_STOP] = do_delete,
	[MSG_SEAL] = seals_do_seal,
	[MSG_SEAL_CANCEL] = seals_do_cancel,
	[MSG_IMAGES] = seals_do_images,
	[MSG_IMAGE_REMOVE] = seals_do_remove,
	[MSG_SNAPSHOT] = snapshots_do_take,
	[MSG_SNAPSHOTS] = snapshots_do_list,
	[MSG_SNAPSHOT_REMOVE] = snapshots_do_remove,
	[MSG_KERNEL] = seals_do_kernel,
	[MSG_VOLUME] = volumes_do_make,
	[MSG_VOLUMES] = volumes_do_list,
	[MSG_VOLUME_REMOVE] = volumes_do_remove,
	[MSG_BACKUP] = backups_do_freeze,
	[MSG_BACKUP_END] = backups_do_release,
	[MSG_SYNC] = sync_do,
	[MSG_OWNER] = volumes_do_owner,
	[MSG_VOLUME_COPY] = volumes_do_copy,
	[MSG_IMAGE_SHARE] = exchange_do_share,
	[MSG_IMAGE_FETCH] = exchange_do_fetch,
	[MSG_IMAGE_TAKE] = exchange_do_take,
	[MSG_IMAGE_DROP] = exchange_do_drop,
	[MSG_SEALED_OPEN] = sealed_do_open,
	[MSG_SEALED_CLOSE] = sealed_do_close,
	[MSG_SEALED_DROP] = sealed_do_drop,
	[MSG_GATEWAY_KEY] = exchange_do_key,
};

/* Refuses requests that need disk space when only the reserve is left. Running sandboxes go on. */
static int check_disk(struct broker *b, uint32_t op, struct err *err)
{
	struct host_disk disk;

	if ((op != MSG_CREATE && op != MSG_SEAL && op != MSG_SNAPSHOT && op != MSG_VOLUME &&
	     op != MSG_VOLUME_COPY && op != MSG_IMAGE_FETCH && op != MSG_SEALED_OPEN) ||
	    !b->base->disk)
		return 0;
	b->base->disk(b->hosts[0], &disk);
	return host_disk_check(&disk, err);
}

void requests_on_request(const struct msg_request *req, ssize_t len, size_t n_fds, void *arg)
{
	struct broker *b = arg;
	struct msg_reply reply;
	int fds[MSG_FDS_MAX] = {-1, -1, -1, -1};
	int r;

	box_reply_init(&reply, req->op, req->tag, "");
	/* A message that was too long fails the check on its size like one that is too short. */
	r = check_request(req, len < 0 ? SIZE_MAX : (size_t)len, n_fds, &b->config.max_limits,
	                  &reply.err);
	if (r < 0) {
		log_warn("broker.refused", "op=%u error='%s'", req->op, reply.err.message);
		wire_reply(b->wire, &reply, NULL);
		return;
	}
	memcpy(reply.id, req->id, sizeof(reply.id));
	r = check_disk(b, req->op, &reply.err);
	if (r == 0)
		r = requests[req->op](b, req, &reply, fds);
	if (r == 1)
		return;
	if (r == 0)
		reply.err = (struct err){0}; /* an engine may have tried one way, then another */
	else
		log_debug("broker.failed", "op=%u id=%s error='%s'", req->op, req->id,
		          reply.err.message);
	wire_reply(b->wire, &reply, fds);
}
