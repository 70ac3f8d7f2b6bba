// SPDX-License-Identifier: Apache-2.0
#include "broker-rig.h"

#include "base/fd.h"
#include "base/log.h"

#include <stdio.h>
#include <sys/socket.h>

/* All is local and nothing waits for a clock: a few turns answer anything. */
#define TURNS_MAX 1000

struct broker_rig rig = {.gateway_fd = -1};
static struct loop_timer *tick;

const struct guest_limits rig_most = {
	.memory_bytes = UINT64_C(1) << 30,
	.disk_bytes = UINT64_C(1) << 30,
	.inodes = 100000,
	.cpu_milli = 4000,
	.pids = 1000,
	.open_files = 4096,
};

static void on_tick(struct loop *l, void *arg)
{
	(void)arg;
	loop_stop(l);
}

static void on_over(struct loop *l, void *arg)
{
	(void)l;
	(void)arg;
	rig.is_over = true;
}

void rig_turn(void)
{
	loop_timer_set_in(tick, 0);
	CHECK_INT(loop_run(rig.loop), 0);
}

void rig_begin_with(uint32_t sandboxes_max)
{
	int fds[2];
	struct err err;
	struct broker_config config = {
		.host = {.data_dir = "/", .run_dir = rig.run_dir, .agent_fd = -1},
		.max_limits = rig_most,
		.sandboxes_max = sandboxes_max,
	};

	log_init("test", LOG_ERROR + 1);
	rig.is_over = false;
	CHECK_INT(loop_new(&rig.loop, &err), 0);
	tick = loop_timer_new(rig.loop, on_tick, NULL);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	rig.gateway_fd = fds[0];
	config.loop = rig.loop;
	config.gateway_fd = fds[1];
	CHECK_INT(broker_new(&config, on_over, NULL, &rig.broker, &err), 0);
}

void rig_begin(void)
{
	fake_reset();
	(void)snprintf(rig.run_dir, sizeof(rig.run_dir), "/nonexistent");
	rig_begin_with(4);
}

void rig_end(void)
{
	if (rig.gateway_fd >= 0)
		(void)close(take_fd(&rig.gateway_fd));
	broker_free(rig.broker);
	loop_timer_free(tick);
	loop_free(rig.loop);
	fake_free();
}

struct msg_request rig_request(uint32_t op, const char *id)
{
	struct msg_request req = {.magic = MSG_MAGIC, .op = op, .tag = 42};

	(void)snprintf(req.id, sizeof(req.id), "%s", id);
	return req;
}

struct msg_request rig_create(const char *id)
{
	struct msg_request req = rig_request(MSG_CREATE, id);

	(void)snprintf(req.create.hostname, sizeof(req.create.hostname), "box-1");
	req.create.engine = ENGINE_BASE;
	req.create.limits = rig_most;
	return req;
}

void rig_send(const struct msg_request *req)
{
	CHECK_INT(fd_send(rig.gateway_fd, req, sizeof(*req), NULL, 0), sizeof(*req));
}

bool rig_next_fds(struct msg_reply *reply, int *fds, size_t *n_fds)
{
	for (int i = 0; i < TURNS_MAX; i++) {
		ssize_t n = fd_recv(rig.gateway_fd, reply, sizeof(*reply), fds, n_fds);

		if (n == (ssize_t)sizeof(*reply))
			return true;
		rig_turn();
	}
	return false;
}

bool rig_next(struct msg_reply *reply, int *ret_fd)
{
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	bool ok = rig_next_fds(reply, fds, &n_fds);

	*ret_fd = n_fds > 0 ? fds[0] : -1;
	return ok;
}

struct msg_reply rig_ask(const struct msg_request *req)
{
	struct msg_reply reply;
	int fd;

	rig_send(req);
	CHECK(rig_next(&reply, &fd));
	if (fd >= 0)
		(void)close(fd);
	CHECK_INT(reply.magic, MSG_MAGIC);
	CHECK_INT(reply.tag, req->tag);
	return reply;
}

int rig_ask_code(const struct msg_request *req)
{
	return (int)rig_ask(req).err.code;
}

int rig_next_code(uint32_t op)
{
	struct msg_reply reply;
	int fd;

	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, op);
	return (int)reply.err.code;
}

void rig_make_id(char id[ID_SIZE])
{
	id_make(id, "sb");
}
