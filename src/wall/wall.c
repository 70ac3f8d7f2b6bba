// SPDX-License-Identifier: Apache-2.0
/*
 * Handles the gateway's messages one at a time and answers each. Once a second it reports the
 * traffic of each door, and looks up the host's own addresses, which are closed to sandboxes.
 */
#include "wall/wall.h"

#include "base/fd.h"
#include "wall/conn.h"
#include "wall/group/group.h"
#include "wall/transport/sockaddr.h"

#include <ifaddrs.h>
#include <string.h>
#include <sys/epoll.h>

#define TICK_US         UINT64_C(1000000)
#define FDS_PER_CONN    4 /* guest, server, a name's question, and room for doors */
#define OWN_MAX         256
#define MESSAGES_A_TURN 16

struct wall_process {
	struct wall_config config;
	struct doors doors;
	struct loop_io *io;
	struct loop_timer *tick;
	struct cidr own[OWN_MAX];
	bool is_lost;
	char message[sizeof(struct wall_head) + WALL_TEXT_MAX];
};

static int send_message(const void *message, size_t len, void *arg)
{
	struct wall_process *w = arg;
	ssize_t n = fd_send(w->config.link_fd, message, len, NULL, 0);

	return n < 0 ? (int)n : 0;
}

static void answer(struct wall_process *w, const struct wall_head *to, int error)
{
	auto_call(buf_done) struct buf message = BUF_INIT(sizeof(*to) + ISSUER_PEM_MAX);
	struct wall_head head = *to;
	struct door *door = doors_find(&w->doors, to->id);
	const struct issuer *issuer = NULL;

	if (error == 0 && door && door->is_trusting)
		issuer = door_issuer(door);
	head.op = WALL_ANSWER;
	head.error = (uint32_t)-error;
	if (buf_append(&message, &head, sizeof(head)) == 0 &&
	    buf_append_str(&message, issuer ? issuer_pem(issuer) : "") == 0)
		(void)!send_message(message.data, message.len, w);
}

static int read_policy(const char *text, size_t len, struct policy **ret)
{
	json_error_t error;
	json_t *value = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
	int r = value ? policy_read(value, "policy", ret, NULL) : -EINVAL;

	json_decref(value);
	return r;
}

static int open_door(struct wall_process *w, const struct wall_head *head, struct policy *policy,
                     int *fds, size_t n_fds)
{
	int sockets[WALL_SOCKETS];
	struct door *door;
	size_t next = 0;
	int r;

	for (size_t i = 0; i < WALL_SOCKETS; i++)
		sockets[i] = (head->sockets & BIT(i)) && next < n_fds ? take_fd(&fds[next++]) : -1;
	r = doors_open(&w->doors, head->id, policy, sockets, &door);
	if (r == 0)
		door->is_trusting = head->is_trusting;
	return r;
}

static int take_dialled(struct wall_process *w, const struct wall_head *head, const char *text,
                        size_t len, int *fds, size_t n_fds)
{
	char why[WALL_WHY_SIZE];
	int none = -1;

	(void)snprintf(why, sizeof(why), "%.*s", (int)MIN(len, sizeof(why)), text);
	conn_on_dialled(&w->doors, head->dial, (int)head->error, why, n_fds > 0 ? &fds[0] : &none);
	return 0;
}

static int act(struct wall_process *w, struct wall_head *head, size_t len, int *fds, size_t n_fds)
{
	const char *text = w->message + sizeof(*head);
	size_t text_len = len - sizeof(*head);
	struct door *door;
	struct policy *policy;
	int r;

	if (head->op == WALL_PING)
		return 0;
	head->id[sizeof(head->id) - 1] = '\0';
	door = doors_find(&w->doors, head->id);
	if (head->op == WALL_CLOSE) {
		if (door)
			doors_close(door);
		return 0;
	}
	if (head->op == WALL_GROUP)
		return groups_set(&w->doors, head->id, text, text_len);
	if (head->op == WALL_DIALLED)
		return take_dialled(w, head, text, text_len, fds, n_fds);
	if (head->op == WALL_POLICY && !door)
		return -ENOENT;
	r = read_policy(text, text_len, &policy);
	if (r < 0)
		return r;
	if (head->op == WALL_OPEN)
		return open_door(w, head, policy, fds, n_fds);
	door->is_trusting = head->is_trusting;
	door_set_policy(door, policy);
	return 0;
}

static void on_lost(struct wall_process *w)
{
	w->is_lost = true;
	loop_io_removep(&w->io);
	w->config.lost(w->config.loop, w->config.arg);
}

static bool read_one(struct wall_process *w)
{
	struct wall_head head;
	int fds[FD_PASS_MAX];
	size_t n_fds = ARRAY_SIZE(fds);
	ssize_t n = fd_recv(w->config.link_fd, w->message, sizeof(w->message), fds, &n_fds);
	int r;

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n < (ssize_t)sizeof(head)) {
		on_lost(w);
		return false;
	}
	memcpy(&head, w->message, sizeof(head));
	r = act(w, &head, (size_t)n, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			(void)close(fds[i]); /* what no door took */
	answer(w, &head, r);
	return true;
}

static void on_link(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	for (int i = 0; i < MESSAGES_A_TURN; i++)
		if (!read_one(arg))
			break;
}

/* Loopback is closed anyway. */
static void list_own(struct wall_process *w)
{
	const struct range_site everybody = {0};
	struct ifaddrs *all = NULL;
	size_t n = 0;

	if (getifaddrs(&all) < 0)
		return; /* those of the last time stay */
	for (const struct ifaddrs *i = all; i && n < OWN_MAX; i = i->ifa_next) {
		struct sockaddr_storage sa = {0};
		struct address a;
		uint16_t port;

		if (!i->ifa_addr)
			continue;
		memcpy(&sa, i->ifa_addr, i->ifa_addr->sa_family == AF_INET6 ? 28 : 16);
		if (sockaddr_to(&sa, &a, &port) == 0 &&
		    range_kind_of(&everybody, &a) != RANGE_LOOPBACK)
			w->own[n++] = (struct cidr){.first = a, .prefix = a.bits};
	}
	freeifaddrs(all);
	w->doors.site.n_own = n;
}

static void on_tick(struct loop *loop, void *arg)
{
	struct wall_process *w = arg;

	(void)loop;
	list_own(w);
	for (struct door *door = w->doors.by_id; door; door = door->hh.next)
		door_tell_bytes(door);
	loop_timer_set_in(w->tick, TICK_US);
}

int wall_process_new(const struct wall_config *config, struct wall_process **ret, struct err *err)
{
	struct wall_process *w = xnew0(struct wall_process);
	struct resolver_config resolver = config->resolver;
	int r;

	w->config = *config;
	resolver.loop = config->loop;
	w->doors = (struct doors){
		.loop = config->loop,
		.resolver = resolver_new(&resolver),
		.secure = config->secure,
		.site = config->site,
		.connections_max = config->connections_max,
		.conns_max = config->fds_max / FDS_PER_CONN,
		.send = send_message,
		.send_arg = w,
	};
	w->doors.site.own = w->own;
	w->tick = loop_timer_new(config->loop, on_tick, w);
	list_own(w);
	r = fd_set_nonblock(config->link_fd, true);
	if (r == 0)
		r = loop_io_add(config->loop, config->link_fd, EPOLLIN, on_link, w, &w->io);
	if (r < 0) {
		wall_process_free(w);
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the gateway");
	}
	loop_timer_set_in(w->tick, TICK_US);
	*ret = w;
	return 0;
}

static void on_free(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

void wall_process_free(struct wall_process *w)
{
	if (!w)
		return;
	for (struct door *door = w->doors.by_id, *next; door; door = next) {
		next = door->hh.next;
		doors_close(door);
	}
	groups_free(&w->doors);
	resolver_free(w->doors.resolver);
	secure_free(w->config.secure);
	loop_timer_free(w->tick);
	loop_io_removep(&w->io);
	(void)close(w->config.link_fd);
	loop_defer(w->config.loop, on_free, w); /* doors look into it until the turn ends */
}
