// SPDX-License-Identifier: Apache-2.0
/*
 * A box is the broker's side of a sandbox, from the accepted create until the engine has removed
 * the last host object:
 *
 *	starting --> running --> killing --> (freed)
 *	    +---------------------^
 *
 * A delete takes a kept layer too (engine.h), a stop or an end of the guest's own leaves it. A
 * delete that finds no guest but a kept layer makes a box that is killing from the start.
 *
 * A delete that comes while a box is starting waits for the start's end: an engine is never asked
 * to undo what it is in the middle of doing. A guest whose first process died is killed here, at
 * once, without being told to: a gateway that forgets it cannot keep its uid range, cgroups and
 * disk in use.
 *
 * Every request has exactly one last reply. Those that take time (create, delete) are counted; past
 * IN_FLIGHT_MAX the socket is not read, and the rest waits in the kernel or in the gateway.
 */
#include "broker/broker.h"

#include "base/list.h"
#include "base/log.h"
#include "broker/adopt.h"
#include "broker/check.h"
#include "broker/finals.h"
#include "broker/slots.h"
#include "broker/wire.h"

#include <assert.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#define IN_FLIGHT_MAX 128
#define LAST_WORDS_US                                                                              \
	(10 * UINT64_C(1000000)) /* for creates and deletes once the gateway is gone */

enum box_state { BOX_STARTING, BOX_RUNNING, BOX_KILLING };

struct waiter { /* a delete or stop that is not answered yet */
	struct list link;
	uint32_t op;
	uint64_t tag;
};

struct box {
	struct list link;
	struct broker *broker;
	enum box_state state;
	bool has_slot;
	bool is_deleted; /* a kept layer goes too */
	struct guest_spec spec;
	struct guest *guest;
	uint64_t create_tag;
	struct guest_usage final; /* once its last process is dead */
	struct list waiters;      /* for its end; not empty while starting: kill it once it has */
};

struct broker {
	struct broker_config config;
	const struct engine *engine;
	struct wire *wire;
	loop_fn over;
	void *over_arg;
	bool is_gone; /* the gateway */
	bool is_over;
	struct loop_timer *last_words;
	struct finals finals;
	struct list boxes;
	size_t n_boxes;
	size_t in_flight;
	struct slots slots;
};

/* A list is enough: it is walked once a request, and a request costs far more than the walk. */
static struct box *box_find(struct broker *b, const char *id)
{
	for (struct list *l = b->boxes.next; l != &b->boxes; l = l->next) {
		struct box *box = list_entry(l, struct box, link);

		if (strcmp(box->spec.id, id) == 0)
			return box;
	}
	return NULL;
}

static struct box *box_new(struct broker *b)
{
	struct box *box = xnew0(struct box);

	box->broker = b;
	list_init(&box->waiters);
	list_append(&b->boxes, &box->link);
	b->n_boxes++;
	return box;
}

static void box_free(struct box *box)
{
	list_remove(&box->link);
	box->broker->n_boxes--;
	free(box);
}

/* Padding is zeroed too: nothing of root's stack goes to the gateway. */
static void reply_init(struct msg_reply *reply, uint32_t op, uint64_t tag, const char *id)
{
	memset(reply, 0, sizeof(*reply));
	reply->magic = MSG_MAGIC;
	reply->op = op;
	reply->tag = tag;
	(void)snprintf(reply->id, sizeof(reply->id), "%s", id);
}

static void over(struct loop *loop, void *arg)
{
	struct broker *b = arg;

	if (b->is_over)
		return;
	b->is_over = true;
	b->over(loop, b->over_arg);
}

static void in_flight_add(struct broker *b)
{
	b->in_flight++;
	wire_hold(b->wire, b->in_flight >= IN_FLIGHT_MAX);
}

static void in_flight_end(struct broker *b)
{
	assert(b->in_flight > 0);
	b->in_flight--;
	wire_hold(b->wire, b->in_flight >= IN_FLIGHT_MAX);
	if (b->is_gone && b->in_flight == 0)
		loop_defer(b->config.loop, over, b);
}

/* Nothing is left of it but, perhaps, a kept layer. */
static void box_end(void *arg)
{
	struct box *box = arg;
	struct broker *b = box->broker;
	struct waiter *waiter;
	struct msg_reply reply;

	log_info("sandbox.removed", "id=%s slot=%u", box->spec.id, box->spec.slot);
	while ((waiter = list_first(&box->waiters, struct waiter, link))) {
		reply_init(&reply, waiter->op, waiter->tag, box->spec.id);
		reply.usage = box->final;
		list_remove(&waiter->link);
		free(waiter);
		wire_reply(b->wire, &reply, NULL);
		in_flight_end(b);
	}
	if (box->has_slot)
		slots_give(&b->slots, box->spec.slot);
	box_free(box);
}

static void on_guest_gone(void *arg)
{
	struct box *box = arg;

	if (box->is_deleted && box->broker->engine->discard(box->spec.id, box_end, box) == 1)
		return;
	box_end(box);
}

static void on_final(const char *id, const struct guest_usage *usage, void *arg)
{
	struct broker *b = arg;
	struct box *box = box_find(b, id);

	if (box)
		box->final = *usage;
	finals_put(&b->finals, id, usage);
}

static void box_kill(struct box *box)
{
	assert(box->state == BOX_RUNNING);
	box->state = BOX_KILLING;
	box->broker->engine->kill(box->guest, on_guest_gone, box);
}

static void on_guest_ended(struct guest *g, int wait_status, void *arg)
{
	struct box *box = arg;
	struct broker *b = box->broker;
	struct msg_reply reply;

	if (box->state != BOX_RUNNING)
		return;
	log_info("sandbox.ended", "id=%s wait_status=0x%x", box->spec.id, wait_status);
	reply_init(&reply, MSG_ENDED, 0, box->spec.id);
	reply.ended.wait_status = wait_status;
	if (b->engine->usage(g, &reply.ended.usage, NULL) < 0)
		memset(&reply.ended.usage, 0, sizeof(reply.ended.usage));
	wire_reply(b->wire, &reply, NULL);
	box_kill(box);
}

/* The start's one end. The box goes on, or is freed here, or is killed for a delete that waited. */
static void on_guest_started(struct guest *g, const struct err *err, void *arg)
{
	struct box *box = arg;
	struct broker *b = box->broker;
	struct msg_reply reply;
	int fds[MSG_FDS_MAX] = {-1, -1, -1, -1};

	reply_init(&reply, MSG_CREATE, box->create_tag, box->spec.id);
	if (!err) {
		box->state = BOX_RUNNING;
		box->guest = g;
		reply.isolation = b->engine->isolation();
		if (b->engine->connect(box->guest, fds, &reply.err) == 0)
			reply.err = (struct err){0};
	} else {
		reply.err = *err;
	}
	if (reply.err.code == ERR_NONE)
		log_info("sandbox.started", "id=%s slot=%u", box->spec.id, box->spec.slot);
	else
		log_warn("sandbox.failed", "id=%s error='%s'", box->spec.id, reply.err.message);
	wire_reply(b->wire, &reply, fds);
	in_flight_end(b);
	if (err)
		on_guest_gone(box);
	else if (reply.err.code != ERR_NONE || !list_empty(&box->waiters))
		box_kill(box);
}

/*
 * The requests. Each gives 0 when *reply (and fds) is the answer, 1 when the answer comes
 * later, or < 0 with reply->err.
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
	reply->probe.isolation = b->engine->isolation();
	reply->probe.cpus = cpus > 0 ? (uint32_t)cpus : 1;
	reply->probe.memory_bytes = (uint64_t)info.totalram * info.mem_unit;
	reply->probe.disk_free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
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
	struct box *box;
	uint32_t slot;
	int r = check_room(b, req->id, &reply->err);

	(void)fds;
	if (r < 0)
		return r;
	r = slots_take(&b->slots, &slot);
	if (r < 0)
		return err_set(&reply->err, ERR_CAPACITY, -r, "no uid range is free");
	box = box_new(b);
	box->state = BOX_STARTING;
	box->create_tag = req->tag;
	memcpy(box->spec.id, req->id, sizeof(box->spec.id));
	memcpy(box->spec.hostname, req->create.hostname, sizeof(box->spec.hostname));
	box->spec.slot = slot;
	box->has_slot = true;
	box->spec.template_id = req->create.template_id;
	box->spec.limits = req->create.limits;
	finals_begin(&b->finals, req->id);
	box->spec.keeper = req->create.keeper;
	box->spec.is_resumed = req->create.is_resumed;
	in_flight_add(b);
	r = b->engine->start(&box->spec, on_guest_started, on_guest_ended, box, &box->guest,
	                     &reply->err);
	if (r == 0)
		return 1;
	slots_give(&b->slots, slot);
	box_free(box);
	in_flight_end(b);
	return r;
}

/* NULL with an error, unless there is one and it runs. */
static struct box *find_running(struct broker *b, const char *id, struct err *err)
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
	struct box *box = find_running(b, req->id, &reply->err);

	return box ? b->engine->connect(box->guest, fds, &reply->err) : -ESRCH;
}

static void box_wait(struct box *box, const struct msg_request *req)
{
	struct waiter *waiter = xnew0(struct waiter);

	waiter->op = req->op;
	waiter->tag = req->tag;
	list_append(&box->waiters, &waiter->link);
	in_flight_add(box->broker);
}

/* No guest lives under this id: at most a layer is there. */
static int delete_kept(struct broker *b, const struct msg_request *req)
{
	struct box *box = box_new(b);
	int r;

	box->state = BOX_KILLING;
	box->final = finals_find(&b->finals, req->id);
	memcpy(box->spec.id, req->id, sizeof(box->spec.id));
	r = b->engine->discard(req->id, box_end, box);
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
	struct box *box = find_running(b, req->id, &reply->err);
	int r;

	(void)fds;
	if (!box)
		return -ESRCH;
	r = b->engine->set_limits(box->guest, &req->limits, &reply->err);
	if (r == 0)
		box->spec.limits = req->limits;
	return r;
}

static int do_usage(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                    int *fds)
{
	struct box *box = find_running(b, req->id, &reply->err);

	(void)fds;
	return box ? b->engine->usage(box->guest, &reply->usage, &reply->err) : -ESRCH;
}

static int do_freeze(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                     int *fds)
{
	struct box *box = find_running(b, req->id, &reply->err);
	bool on = req->op == MSG_FREEZE;

	(void)fds;
	return box ? b->engine->freeze(box->guest, on, &reply->err) : -ESRCH;
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

	reply_init(&reply, MSG_FORK, w->tag, w->id);
	if (err)
		reply.err = *err;
	free(w);
	wire_reply(b->wire, &reply, NULL);
	in_flight_end(b);
}

static int do_fork(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	struct box *box = find_running(b, req->id, &reply->err);
	struct fork_wait *w;
	int r;

	(void)fds;
	if (!box)
		return -ESRCH;
	if (!b->engine->fork)
		return err_set(&reply->err, ERR_UNSUPPORTED, ENOSYS, "this engine has no zygotes");
	w = xnew0(struct fork_wait);
	*w = (struct fork_wait){.broker = b, .tag = req->tag};
	memcpy(w->id, req->id, sizeof(w->id));
	r = b->engine->fork(box->guest, req->fork.tag, on_forked, w, &reply->err);
	if (r < 0) {
		free(w);
		return r;
	}
	in_flight_add(b);
	return 1;
}

struct kept_list {
	struct broker *broker;
	uint64_t tag;
};

static void list_kept(const char *id, uint64_t keeper, void *arg)
{
	const struct kept_list *list = arg;
	struct msg_reply row;

	if (box_find(list->broker, id))
		return;
	reply_init(&row, MSG_LIST, list->tag, id);
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
		reply_init(&row, MSG_LIST, req->tag, box->spec.id);
		row.list.limits = box->spec.limits;
		row.list.isolation = b->engine->isolation();
		row.list.template_id = box->spec.template_id;
		row.list.is_alive = 1;
		row.list.keeper = box->spec.keeper;
		wire_reply(b->wire, &row, NULL);
	}
	b->engine->each_kept(list_kept, &kept);
	reply->id[0] = '\0';
	return 0;
}

/* NULL with an error as well if its engine has no doors. */
static struct box *find_with_door(struct broker *b, const char *id, struct err *err)
{
	struct box *box = find_running(b, id, err);

	if (!box || b->engine->open_door)
		return box;
	(void)err_set(err, ERR_UNSUPPORTED, 0, "engine %s has no network", b->engine->name);
	return NULL;
}

static int do_door(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	struct box *box = find_with_door(b, req->id, &reply->err);
	int r = box ? b->engine->open_door(box->guest, fds, &reply->err) : -ESRCH;

	for (size_t i = 0; r == 0 && i < DOOR_SOCKETS; i++)
		reply->door.sockets |= fds[i] >= 0 ? BIT(i) : 0;
	return r;
}

static int do_door_close(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                         int *fds)
{
	struct box *box = find_with_door(b, req->id, &reply->err);

	(void)fds;
	return box ? b->engine->close_door(box->guest, &reply->err) : -ESRCH;
}

static int do_dial(struct broker *b, const struct msg_request *req, struct msg_reply *reply,
                   int *fds)
{
	struct box *box = find_with_door(b, req->id, &reply->err);

	if (!box)
		return -ESRCH;
	return b->engine->dial(box->guest, (int)req->dial.family, (uint16_t)req->dial.port, fds,
	                       &reply->err);
}

static int (*const requests[])(struct broker *b, const struct msg_request *req,
                               struct msg_reply *reply, int *fds) = {
	[MSG_PROBE] = do_probe,   [MSG_CREATE] = do_create,         [MSG_CONNECT] = do_connect,
	[MSG_DELETE] = do_delete, [MSG_LIMITS] = do_limits,         [MSG_USAGE] = do_usage,
	[MSG_FREEZE] = do_freeze, [MSG_THAW] = do_freeze,           [MSG_LIST] = do_list,
	[MSG_DOOR] = do_door,     [MSG_DOOR_CLOSE] = do_door_close, [MSG_DIAL] = do_dial,
	[MSG_FORK] = do_fork,     [MSG_STOP] = do_delete,
};

static void on_request(const struct msg_request *req, ssize_t len, size_t n_fds, void *arg)
{
	struct broker *b = arg;
	struct msg_reply reply;
	int fds[MSG_FDS_MAX] = {-1, -1, -1, -1};
	int r;

	reply_init(&reply, req->op, req->tag, "");
	/* A message that was too long fails the check on its size like one that is too short. */
	r = check_request(req, len < 0 ? SIZE_MAX : (size_t)len, n_fds, &b->config.max_limits,
	                  &reply.err);
	if (r < 0) {
		log_warn("broker.refused", "op=%u error='%s'", req->op, reply.err.message);
		wire_reply(b->wire, &reply, NULL);
		return;
	}
	memcpy(reply.id, req->id, sizeof(reply.id));
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

static void on_gateway_gone(void *arg)
{
	struct broker *b = arg;

	b->is_gone = true;
	log_debug("broker.alone", "in_flight=%zu", b->in_flight);
	if (b->in_flight == 0)
		over(b->config.loop, b);
	else
		loop_timer_set_in(b->last_words, LAST_WORDS_US);
}

static const struct wire_ops wire_ops = {.on_request = on_request, .on_gone = on_gateway_gone};

/* Takes one over from its record. A slot that is nobody's or another's means a broken record. */
static int adopt_one(const char *id, struct err *err, void *arg)
{
	struct broker *b = arg;
	struct box *box = box_new(b);
	int r = b->engine->adopt(id, on_guest_ended, box, &box->guest, &box->spec, err);

	if (r < 0) {
		box_free(box);
		return r;
	}
	box->state = BOX_RUNNING;
	box->has_slot = slots_claim(&b->slots, box->spec.slot);
	if (box->has_slot)
		return 0;
	r = err_set(err, ERR_INTERNAL, EEXIST, "its uid range %u is taken", box->spec.slot);
	box_kill(box);
	return r;
}

static bool is_known(const char *id, void *arg)
{
	return box_find(arg, id) != NULL;
}

static int broker_start(struct broker *b, struct err *err)
{
	int r = finals_open(&b->finals, b->config.host.run_dir, err);

	if (r == 0)
		r = b->engine->probe(&b->config.host, err);
	if (r < 0)
		return r;
	r = adopt_all(b->config.host.run_dir, adopt_one, b, err);
	if (r < 0)
		return r;
	if (b->engine->sweep)
		b->engine->sweep(is_known, b);
	return wire_new(b->config.loop, take_fd(&b->config.gateway_fd), &wire_ops, b, &b->wire,
	                err);
}

int broker_new(const struct broker_config *config, loop_fn fn, void *arg, struct broker **ret,
               struct err *err)
{
	struct broker *b = xnew0(struct broker);
	int r;

	assert(config->sandboxes_max >= 1 && config->sandboxes_max <= BROKER_SLOTS);
	b->config = *config;
	b->config.host.loop = config->loop;
	b->config.host.final = on_final;
	b->config.host.final_arg = b;
	b->engine = config->engine;
	b->over = fn;
	b->over_arg = arg;
	b->last_words = loop_timer_new(config->loop, over, b);
	list_init(&b->boxes);
	r = broker_start(b, err);
	if (r < 0) {
		broker_free(b);
		return r;
	}
	*ret = b;
	return 0;
}

void broker_free(struct broker *b)
{
	struct box *box;
	struct waiter *waiter;

	if (!b)
		return;
	b->engine->leave();
	while ((box = list_first(&b->boxes, struct box, link))) {
		while ((waiter = list_first(&box->waiters, struct waiter, link))) {
			list_remove(&waiter->link);
			free(waiter);
		}
		box_free(box);
	}
	wire_free(b->wire);
	finals_close(&b->finals);
	if (b->config.gateway_fd >= 0)
		(void)close(b->config.gateway_fd);
	loop_timer_free(b->last_words);
	free(b);
}

size_t broker_count(const struct broker *b)
{
	return b->n_boxes;
}
