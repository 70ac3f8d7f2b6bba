// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that do not fit into the socket wait here, in order; the broker stops reading while it
 * has too much to do.
 *
 * The broker handles requests in order, so only a few slow ones (creates and deletes) are sent at a
 * time: BROKER_MAX are under way. The rest wait here, in a queue for each project, and the projects
 * take turns. A project with none under way may always send one, so it never waits for another's to
 * end. Requests that take long for other reasons than the broker's own work (the start of a vm, or
 * one with memory) are not counted.
 *
 * A reply with an unknown tag (its request timed out or was cancelled) is dropped with its fd. We
 * trust the broker more than anybody else, but the form of a reply is still checked: a bug there
 * must not become a crash here.
 */
#include "sandbox/brokerclient/broker_client.h"

#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/units.h"

#include <inttypes.h>
#include <sys/epoll.h>
#include <uthash.h>

#define WAITING_MAX    8192 /* requests under way; a create and a delete of each sandbox and more */
#define WAITING_SHARE  (WAITING_MAX / 2) /* of these, one project's */
#define BROKER_MAX     8
#define REPLIES_A_TURN 64
/* The relative cost of creates and deletes in the broker's time. */
#define CREATE_COST 2
#define DELETE_COST 1
/* For a vm's create, on top of its boot. */
#define AROUND_BOOT_US (40 * SECOND_US)

/* How long the broker may take. Creates and deletes queue behind each other. */
static const uint64_t patience_us[] = {
	[MSG_PROBE] = 30 * SECOND_US,
	[MSG_CREATE] = 150 * SECOND_US, /* of a vm it depends: broker_client_patience_us() */
	[MSG_CONNECT] = 30 * SECOND_US,
	[MSG_DELETE] = 60 * SECOND_US,
	[MSG_LIMITS] = 30 * SECOND_US,
	[MSG_USAGE] = 5 * SECOND_US,
	[MSG_FREEZE] = 30 * SECOND_US,
	[MSG_THAW] = 30 * SECOND_US,
	[MSG_LIST] = 60 * SECOND_US,
	[MSG_DOOR] = 90 * SECOND_US, /* a vm takes its card in; the broker gives up before */
	[MSG_DOOR_CLOSE] = 30 * SECOND_US,
	[MSG_DIAL] = 30 * SECOND_US,
	[MSG_FORK] = 15 * SECOND_US,
	[MSG_STOP] = 60 * SECOND_US,
	[MSG_SEAL] = 3600 * SECOND_US,
	[MSG_SEAL_CANCEL] = 30 * SECOND_US,
	[MSG_IMAGES] = 30 * SECOND_US,
	[MSG_IMAGE_REMOVE] = 60 * SECOND_US,
	[MSG_SNAPSHOT] = 600 * SECOND_US,
	[MSG_SNAPSHOTS] = 60 * SECOND_US,
	[MSG_SNAPSHOT_REMOVE] = 600 * SECOND_US,
	[MSG_KERNEL] = 30 * SECOND_US,
	[MSG_VOLUME] = 60 * SECOND_US,
	[MSG_VOLUMES] = 60 * SECOND_US,
	[MSG_VOLUME_REMOVE] = 60 * SECOND_US,
	[MSG_BACKUP] = 90 * SECOND_US, /* the broker gives up before */
	[MSG_BACKUP_END] = 600 * SECOND_US,
	[MSG_SYNC] = 120 * SECOND_US, /* of what all guests have written */
	[MSG_OWNER] = 60 * SECOND_US,
	[MSG_VOLUME_COPY] = 3600 * SECOND_US, /* each byte may be written once more */
	[MSG_IMAGE_SHARE] = 30 * SECOND_US,
	[MSG_IMAGE_FETCH] = 30 * SECOND_US,
	[MSG_IMAGE_TAKE] = 3600 * SECOND_US, /* each byte is hashed */
	[MSG_IMAGE_DROP] = 30 * SECOND_US,
	[MSG_SEALED_OPEN] = 30 * SECOND_US,
	[MSG_SEALED_CLOSE] = 3600 * SECOND_US, /* each byte is hashed */
	[MSG_SEALED_DROP] = 30 * SECOND_US,
	[MSG_GATEWAY_KEY] = 30 * SECOND_US,
};

struct ask {
	struct broker_client *client;
	uint64_t tag;
	struct msg_request req;
	broker_client_fn fn;
	broker_client_fds_fn fds_fn; /* instead of fn */
	void *arg;
	struct loop_timer *timer;
	struct share *share; /* NULL: it is not counted */
	bool is_under_way;   /* at the broker, if it is counted */
	struct list link;    /* in client->unsent or its share's line, else on no list */
	UT_hash_handle hh;
};

struct broker_client {
	struct loop *loop;
	int fd; /* -1: the broker is gone */
	struct loop_io *io;
	const struct broker_client_ops *ops;
	void *arg;
	uint64_t vm_boot_us;
	uint64_t last_tag;
	uint64_t ping_tag;            /* 0: none is under way */
	uint64_t pinged_us, heard_us; /* by the loop's clock */
	struct ask *asks;             /* by tag */
	struct list unsent;
	struct fair_queue lines;
	size_t n_under_way; /* of those that are counted */
	bool is_look_due;
};

static void look(struct loop *loop, void *arg);

static void ask_free(struct ask *a)
{
	struct broker_client *client = a->client;

	list_remove(&a->link);
	if (a->share)
		a->share->n_asks--;
	if (a->is_under_way) {
		client->n_under_way--;
		a->share->n_under_way--;
	}
	if (a->is_under_way && !client->is_look_due) {
		client->is_look_due = true;
		loop_defer(client->loop, look, client);
	}
	HASH_DEL(client->asks, a);
	loop_timer_free(a->timer);
	free(a);
}

static void ask_tell(struct ask *a, const struct msg_reply *reply, int *fds, bool is_last)
{
	broker_client_fds_fn fds_fn = a->fds_fn;
	broker_client_fn fn = a->fn;
	void *arg = a->arg;

	if (is_last)
		ask_free(a);
	if (fds_fn)
		fds_fn(reply, fds, arg);
	else
		fn(reply, arg);
}

static void ask_fail(struct ask *a, enum err_code code, const char *why)
{
	struct msg_reply reply = {.op = a->req.op, .tag = a->tag};
	int none[MSG_FDS_MAX] = {-1, -1, -1, -1};

	memcpy(reply.id, a->req.id, sizeof(reply.id));
	(void)err_set(&reply.err, code, 0, "%s", why);
	ask_tell(a, &reply, none, /* is_last= */ true);
}

static void on_timeout(struct loop *loop, void *arg)
{
	struct ask *a = arg;

	(void)loop;
	log_error("broker.silent", "op=%u id='%s'", a->req.op, a->req.id);
	ask_fail(a, ERR_TIMEOUT, "the broker did not answer in time");
}

static void lose(struct broker_client *client)
{
	struct ask *a;

	loop_io_removep(&client->io);
	(void)close(take_fd(&client->fd));
	log_error("broker.lost", "requests=%u", HASH_COUNT(client->asks));
	/* A callback may ask again, which fails at once, or cancel another request. So always take
	 * the first. */
	while ((a = client->asks))
		ask_fail(a, ERR_UNAVAILABLE, "the broker is gone");
	client->ops->on_lost(client->arg);
}

static void end_strings(struct msg_reply *reply)
{
	reply->id[sizeof(reply->id) - 1] = '\0';
	reply->err.field[sizeof(reply->err.field) - 1] = '\0';
	reply->err.message[sizeof(reply->err.message) - 1] = '\0';
	reply->err.hint[sizeof(reply->err.hint) - 1] = '\0';
	memset(&reply->err.quota, 0, sizeof(reply->err.quota)); /* quotas are the gateway's own */
	if ((unsigned)reply->err.code >= ERR_CODE_COUNT)
		reply->err.code = ERR_INTERNAL;
}

/* Puts a door's sockets at their places. If they are not those that the reply names, none is
 * used. */
static void place_fds(const struct msg_reply *reply, const int *came, size_t n, int *ret)
{
	bool is_door = reply->op == MSG_DOOR;
	size_t next = 0;

	for (size_t i = 0; i < MSG_FDS_MAX; i++) {
		bool has = is_door ? (reply->door.sockets & BIT(i)) != 0 : i == 0;

		ret[i] = has && next < n ? came[next++] : -1;
	}
	for (; next < n; next++)
		(void)close(came[next]);
}

/* Whether this is the last of several replies to one request. */
static bool is_last(const struct msg_reply *reply)
{
	if (reply->err.code != ERR_NONE)
		return true;
	switch (reply->op) {
	case MSG_LIST:
	case MSG_SNAPSHOTS:
	case MSG_VOLUMES:
		return reply->id[0] == '\0';
	case MSG_SEAL:
		return !digest_is_zero(&reply->seal.image);
	case MSG_IMAGES:
		return digest_is_zero(&reply->image.digest);
	default:
		return true;
	}
}

static void hand_over(struct broker_client *client, const struct msg_reply *reply, int *fds)
{
	struct ask *a = NULL;

	if (reply->op == MSG_ENDED && reply->tag == 0) {
		client->ops->on_ended(reply, client->arg);
		return;
	}
	if (reply->op == MSG_DISK && reply->tag == 0) {
		client->ops->on_disk(&reply->disk, client->arg);
		return;
	}
	HASH_FIND(hh, client->asks, &reply->tag, sizeof(reply->tag), a);
	if (!a || a->req.op != reply->op) {
		log_debug("broker.late", "op=%u id='%s'", reply->op, reply->id);
		return;
	}
	ask_tell(a, reply, fds, is_last(reply));
}

static void on_reply(struct broker_client *client, struct msg_reply *reply, const int *came,
                     size_t n_came)
{
	int fds[MSG_FDS_MAX];

	end_strings(reply);
	place_fds(reply, came, n_came, fds);
	hand_over(client, reply, fds);
	for (size_t i = 0; i < MSG_FDS_MAX; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

static void receive(struct broker_client *client)
{
	for (int i = 0; i < REPLIES_A_TURN && client->fd >= 0; i++) {
		struct msg_reply reply;
		int fds[FD_PASS_MAX];
		size_t n_fds;
		ssize_t n = fd_recv(client->fd, &reply, sizeof(reply), fds, &n_fds);

		if (n == -EAGAIN)
			return;
		if (n == (ssize_t)sizeof(reply) && reply.magic == MSG_MAGIC) {
			client->heard_us = loop_now_us(client->loop);
			on_reply(client, &reply, fds, n_fds);
			continue;
		}
		for (size_t j = 0; j < n_fds; j++)
			(void)close(fds[j]);
		if (n != 0)
			log_error("broker.garbled", "length=%zd", n);
		lose(client);
	}
}

static void transmit(struct broker_client *client)
{
	struct ask *a;

	while ((a = list_first(&client->unsent, struct ask, link))) {
		ssize_t n = fd_send(client->fd, &a->req, sizeof(a->req), NULL, 0);

		if (n < 0)
			break; /* full; or at its end, which reading finds after what came before */
		list_remove(&a->link);
	}
	loop_io_set(client->io, list_empty(&client->unsent) ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* The next request to send. NULL if none waits, or the broker has enough to do. */
static struct ask *next_ask(struct broker_client *client)
{
	struct fair_share *line;
	struct list *item = NULL;

	if (client->n_under_way < BROKER_MAX)
		item = fair_next(&client->lines, &line);
	else
		list_for_each (&client->lines.ring, struct fair_share, idle, link)
			if (!item && list_entry(idle, struct share, broker)->n_under_way == 0 &&
			    !list_empty(&idle->items))
				item = idle->items.next;
	return item ? list_entry(item, struct ask, link) : NULL;
}

static void send_counted(struct broker_client *client)
{
	struct ask *a;

	while (client->fd >= 0 && (a = next_ask(client))) {
		a->is_under_way = true;
		client->n_under_way++;
		a->share->n_under_way++;
		fair_charge(&client->lines, &a->share->broker,
		            a->req.op == MSG_CREATE ? CREATE_COST : DELETE_COST);
		list_remove(&a->link);
		list_append(&client->unsent, &a->link);
	}
}

static void look(struct loop *loop, void *arg)
{
	struct broker_client *client = arg;

	(void)loop;
	client->is_look_due = false;
	send_counted(client);
	if (client->fd >= 0)
		transmit(client);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct broker_client *client = arg;

	(void)loop;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		receive(client);
	if (client->fd >= 0)
		transmit(client);
}

int broker_client_new(struct loop *loop, int fd, uint64_t vm_boot_us,
                      const struct broker_client_ops *ops, void *arg, struct broker_client **ret,
                      struct err *err)
{
	struct broker_client *client = xnew0(struct broker_client);
	int r;

	*client = (struct broker_client){
		.loop = loop, .fd = fd, .vm_boot_us = vm_boot_us, .ops = ops, .arg = arg};
	list_init(&client->unsent);
	fair_queue_init(&client->lines, CREATE_COST);
	r = fd_set_nonblock(fd, true);
	if (r == 0)
		r = loop_io_add(loop, fd, EPOLLIN, on_io, client, &client->io);
	if (r < 0) {
		(void)close(fd);
		free(client);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the broker's socket");
	}
	*ret = client;
	return 0;
}

static void free_client(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void broker_client_free(struct broker_client *client)
{
	if (!client)
		return;
	while (client->asks)
		ask_free(client->asks);
	fair_queue_done(&client->lines);
	loop_io_removep(&client->io);
	if (client->fd >= 0)
		(void)close(take_fd(&client->fd));
	loop_defer(client->loop, free_client, client);
}

static bool is_counted(const struct msg_request *req)
{
	switch (req->op) {
	case MSG_CREATE:
		return !engine_traits(req->create.engine)->has_own_kernel &&
		       !req->create.with_memory;
	case MSG_DELETE:
	case MSG_STOP:
		return true;
	default:
		return false;
	}
}

/* If KVM cannot run a vm, it is given up after a quarter of its time and started again. */
uint64_t broker_client_patience_us(const struct msg_request *req, uint64_t vm_boot_us)
{
	if (req->op == MSG_CREATE && engine_traits(req->create.engine)->has_own_kernel)
		return vm_boot_us + vm_boot_us / 4 + AROUND_BOOT_US;
	return patience_us[req->op];
}

static int ask_new(struct broker_client *client, struct share *share, const struct msg_request *req,
                   struct ask **ret, struct err *err)
{
	struct ask *a;

	if (client->fd < 0)
		return err_set(err, ERR_UNAVAILABLE, 0, "the broker is gone");
	if (HASH_COUNT(client->asks) >= WAITING_MAX)
		return err_set(err, ERR_LIMIT, 0, "%d requests wait for the broker", WAITING_MAX);
	if (share && share->n_asks >= WAITING_SHARE)
		return err_set(err, ERR_LIMIT, 0, "%d requests of the project wait for the broker",
		               WAITING_SHARE);
	a = xnew0(struct ask);
	a->client = client;
	a->tag = ++client->last_tag;
	a->req = *req;
	a->req.magic = MSG_MAGIC;
	a->req.tag = a->tag;
	a->timer = loop_timer_new(client->loop, on_timeout, a);
	loop_timer_set_in(a->timer, broker_client_patience_us(req, client->vm_boot_us));
	HASH_ADD(hh, client->asks, tag, sizeof(a->tag), a);
	if (share && is_counted(req)) {
		a->share = share;
		share->n_asks++;
		fair_push(&client->lines, &share->broker, &a->link);
		send_counted(client);
	} else {
		list_append(&client->unsent, &a->link);
	}
	transmit(client);
	*ret = a;
	return 0;
}

int broker_client_ask(struct broker_client *client, const struct msg_request *req,
                      broker_client_fn fn, void *arg, uint64_t *ret_tag, struct err *err)
{
	return broker_client_ask_for(client, NULL, req, fn, arg, ret_tag, err);
}

int broker_client_ask_for(struct broker_client *client, struct share *share,
                          const struct msg_request *req, broker_client_fn fn, void *arg,
                          uint64_t *ret_tag, struct err *err)
{
	struct ask *a;
	int r = ask_new(client, share, req, &a, err);

	if (r < 0)
		return r;
	a->fn = fn;
	a->arg = arg;
	if (ret_tag)
		*ret_tag = a->tag;
	return 0;
}

int broker_client_ask_fds(struct broker_client *client, struct share *share,
                          const struct msg_request *req, broker_client_fds_fn fn, void *arg,
                          uint64_t *ret_tag, struct err *err)
{
	struct ask *a;
	int r = ask_new(client, share, req, &a, err);

	if (r < 0)
		return r;
	a->fds_fn = fn;
	a->arg = arg;
	if (ret_tag)
		*ret_tag = a->tag;
	return 0;
}

static bool is_pinged(const struct broker_client *client)
{
	struct ask *a = NULL;

	HASH_FIND(hh, client->asks, &client->ping_tag, sizeof(client->ping_tag), a);
	return a != NULL;
}

void broker_client_ping(struct broker_client *client, broker_client_fn fn, void *arg)
{
	const struct msg_request req = {.op = MSG_PROBE};
	struct err err;

	if (is_pinged(client))
		return;
	if (client->heard_us >= client->pinged_us) /* else it owes an answer to the one before */
		client->pinged_us = loop_now_us(client->loop);
	if (broker_client_ask(client, &req, fn, arg, &client->ping_tag, &err) < 0)
		client->ping_tag = 0;
}

/* The broker answers mostly in order, so a ping may wait behind many creates; each of their answers
 * shows that it is alive. */
uint64_t broker_client_silent_us(const struct broker_client *client)
{
	uint64_t now_us = loop_now_us(client->loop);

	return is_pinged(client) ? now_us - MAX(client->pinged_us, client->heard_us) : 0;
}

bool broker_client_is_gone(const struct broker_client *client)
{
	return client->fd < 0;
}

void broker_client_cancel(struct broker_client *client, uint64_t tag)
{
	struct ask *a = NULL;

	HASH_FIND(hh, client->asks, &tag, sizeof(tag), a);
	if (!a)
		return;
	/* A request that was not sent yet is dropped; for one that was, the answer is ignored. */
	ask_free(a);
}
