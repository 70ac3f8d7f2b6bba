// SPDX-License-Identifier: Apache-2.0
/* The broker with a fake engine; the test is the gateway, at times a hostile one. */
#include "base/fd.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/check.h"
#include "broker/finals.h"
#include "fake-engine.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define TURNS_MAX                                                                                  \
	1000 /* all is local and nothing waits for a clock: a few turns answer anything            \
	      */

static struct loop *loop;
static struct loop_timer *tick;
static struct broker *broker;
static int gateway_fd = -1;
static bool is_over;
static char run_dir[64];

static const struct guest_limits most = {
	.memory_bytes = UINT64_C(1) << 30,
	.disk_bytes = UINT64_C(1) << 30,
	.inodes = 100000,
	.cpu_milli = 4000,
	.pids = 1000,
	.nofile = 4096,
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
	is_over = true;
}

static void turn(void)
{
	loop_timer_set_in(tick, 0);
	CHECK_INT(loop_run(loop), 0);
}

static void begin_with(uint32_t sandboxes_max)
{
	int fds[2];
	struct err err;
	struct broker_config config = {
		.engine = &fake_engine,
		.host = {.data_dir = "/", .run_dir = run_dir, .agent_fd = -1},
		.max_limits = most,
		.sandboxes_max = sandboxes_max,
	};

	log_init("test", LOG_ERROR + 1);
	is_over = false;
	CHECK_INT(loop_new(&loop, &err), 0);
	tick = loop_timer_new(loop, on_tick, NULL);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	gateway_fd = fds[0];
	config.loop = loop;
	config.gateway_fd = fds[1];
	CHECK_INT(broker_new(&config, on_over, NULL, &broker, &err), 0);
}

static void begin(void)
{
	fake_reset();
	(void)snprintf(run_dir, sizeof(run_dir), "/nonexistent");
	begin_with(4);
}

static void end(void)
{
	if (gateway_fd >= 0)
		(void)close(take_fd(&gateway_fd));
	broker_free(broker);
	loop_timer_free(tick);
	loop_free(loop);
	fake_free();
}

static struct msg_request request(uint32_t op, const char *id)
{
	struct msg_request req = {.magic = MSG_MAGIC, .op = op, .tag = 42};

	(void)snprintf(req.id, sizeof(req.id), "%s", id);
	return req;
}

static struct msg_request create_request(const char *id)
{
	struct msg_request req = request(MSG_CREATE, id);

	(void)snprintf(req.create.hostname, sizeof(req.create.hostname), "box-1");
	req.create.engine = 1;
	req.create.limits = most;
	return req;
}

static void send_request(const struct msg_request *req)
{
	CHECK_INT(fd_send(gateway_fd, req, sizeof(*req), NULL, 0), sizeof(*req));
}

/* The next reply, or false if none comes. The fds are the caller's. */
static bool next_reply_fds(struct msg_reply *reply, int *fds, size_t *n_fds)
{
	for (int i = 0; i < TURNS_MAX; i++) {
		ssize_t n = fd_recv(gateway_fd, reply, sizeof(*reply), fds, n_fds);

		if (n == (ssize_t)sizeof(*reply))
			return true;
		turn();
	}
	return false;
}

static bool next_reply(struct msg_reply *reply, int *ret_fd)
{
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;
	bool ok = next_reply_fds(reply, fds, &n_fds);

	*ret_fd = n_fds > 0 ? fds[0] : -1;
	return ok;
}

static struct msg_reply ask(const struct msg_request *req)
{
	struct msg_reply reply;
	int fd;

	send_request(req);
	CHECK(next_reply(&reply, &fd));
	if (fd >= 0)
		(void)close(fd);
	CHECK_INT(reply.magic, MSG_MAGIC);
	CHECK_INT(reply.tag, req->tag);
	return reply;
}

static int ask_code(const struct msg_request *req)
{
	return (int)ask(req).err.code;
}

/* Of the next reply, which must be to this. */
static int next_code(uint32_t op)
{
	struct msg_reply reply;
	int fd;

	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, op);
	return (int)reply.err.code;
}

static void make_id(char id[ID_SIZE])
{
	id_make(id, "sb");
}

TEST(a_probe_tells_the_host_and_its_walls)
{
	struct msg_request req = request(MSG_PROBE, "");
	struct msg_reply reply;

	begin();
	reply = ask(&req);
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_INT(reply.probe.isolation.walls, BIT(WALL_USER_NS));
	CHECK(reply.probe.cpus > 0);
	CHECK(reply.probe.memory_bytes > 0);
	end();
}

TEST(a_create_is_answered_with_a_stream_to_the_agent)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd = -1;

	begin();
	make_id(id);
	req = create_request(id);
	send_request(&req);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_STR(reply.id, id);
	CHECK(fd >= 0);
	(void)close(fd);
	CHECK_STR(fake.last_spec.hostname, "box-1");
	CHECK_INT(fake.last_spec.limits.pids, most.pids);
	end();
}

/* Each row spoils a good create in one way. */
static void no_magic(struct msg_request *r)
{
	r->magic = 0;
}
static void op_zero(struct msg_request *r)
{
	r->op = 0;
}
static void op_past_the_last(struct msg_request *r)
{
	r->op = MSG_STOP + 1;
}
static void op_of_the_broker(struct msg_request *r)
{
	r->op = MSG_ENDED;
}
static void op_huge(struct msg_request *r)
{
	r->op = UINT32_MAX;
}
static void id_without_end(struct msg_request *r)
{
	memset(r->id, 'a', sizeof(r->id));
}
static void id_with_path(struct msg_request *r)
{
	(void)snprintf(r->id, sizeof(r->id), "sb_../../../../etc/shadow_______");
}
static void id_of_an_exec(struct msg_request *r)
{
	id_make(r->id, "ex");
}
static void id_empty(struct msg_request *r)
{
	r->id[0] = '\0';
}
static void hostname_without_end(struct msg_request *r)
{
	memset(r->create.hostname, 'a', sizeof(r->create.hostname));
}
static void hostname_with_newline(struct msg_request *r)
{
	(void)snprintf(r->create.hostname, sizeof(r->create.hostname), "a\nb");
}
static void hostname_with_slash(struct msg_request *r)
{
	(void)snprintf(r->create.hostname, sizeof(r->create.hostname), "../x");
}
static void hostname_empty(struct msg_request *r)
{
	r->create.hostname[0] = '\0';
}
static void unknown_engine(struct msg_request *r)
{
	r->create.engine = 9;
}
static void too_much_memory(struct msg_request *r)
{
	r->create.limits.memory_bytes = most.memory_bytes + 1;
}
static void no_memory(struct msg_request *r)
{
	r->create.limits.memory_bytes = 0;
}
static void too_much_disk(struct msg_request *r)
{
	r->create.limits.disk_bytes = UINT64_MAX;
}
static void too_many_inodes(struct msg_request *r)
{
	r->create.limits.inodes = most.inodes + 1;
}
static void too_many_cpus(struct msg_request *r)
{
	r->create.limits.cpu_milli = UINT32_MAX;
}
static void too_many_pids(struct msg_request *r)
{
	r->create.limits.pids = most.pids + 1;
}
static void too_many_files(struct msg_request *r)
{
	r->create.limits.nofile = most.nofile + 1;
}
static void resumed_without_keeper(struct msg_request *r)
{
	r->create.is_resumed = 1;
}
static void resumed_twice(struct msg_request *r)
{
	r->create.keeper = 7;
	r->create.is_resumed = 2;
}
static void reserved_is_used(struct msg_request *r)
{
	r->create.limits.reserved = 1;
}

TEST(each_malformed_request_is_refused_and_starts_nothing)
{
	static void (*const spoils[])(struct msg_request * r) = {
		no_magic,
		op_zero,
		op_past_the_last,
		op_of_the_broker,
		op_huge,
		id_without_end,
		id_with_path,
		id_of_an_exec,
		id_empty,
		hostname_empty,
		hostname_without_end,
		hostname_with_newline,
		unknown_engine,
		hostname_with_slash,
		too_much_memory,
		no_memory,
		too_much_disk,
		too_many_inodes,
		too_many_cpus,
		too_many_pids,
		too_many_files,
		reserved_is_used,
		resumed_without_keeper,
		resumed_twice,
	};
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	for (size_t i = 0; i < ARRAY_SIZE(spoils); i++) {
		int code;

		req = create_request(id);
		spoils[i](&req);
		code = ask_code(&req);
		if (code != ERR_BAD_REQUEST && code != ERR_INVALID_FIELD)
			print_error("row %zu\n", i);
		CHECK(code == ERR_BAD_REQUEST || code == ERR_INVALID_FIELD);
	}
	CHECK_INT(fake.n_starts, 0);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	end();
}

TEST(a_message_of_another_size_is_refused)
{
	static const size_t sizes[] = {
		1, 8, 16, sizeof(struct msg_request) - 1, sizeof(struct msg_request) + 1, 8192};
	struct msg_request req;
	struct msg_reply reply;
	char bytes[8192] = {0};
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	memcpy(bytes, &req, sizeof(req));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		CHECK_INT(fd_send(gateway_fd, bytes, sizes[i], NULL, 0), sizes[i]);
		CHECK(next_reply(&reply, &fd));
		CHECK_INT(reply.err.code, ERR_BAD_REQUEST);
	}
	CHECK_INT(fake.n_starts, 0);
	end();
}

TEST(a_request_with_fds_is_refused_and_they_are_closed)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	char byte;
	int pair[2];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	CHECK_INT(fd_send(gateway_fd, &req, sizeof(req), &pair[1], 1), sizeof(req));
	(void)close(pair[1]);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.err.code, ERR_BAD_REQUEST);
	CHECK_INT(read(pair[0], &byte, 1), 0); /* the last writer is gone */
	(void)close(pair[0]);
	end();
}

TEST(a_second_create_of_an_id_is_a_conflict)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(ask_code(&req), ERR_CONFLICT);
	CHECK_INT(fake.n_starts, 1);
	end();
}

TEST(past_the_cap_a_create_is_told_that_the_host_is_full)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	for (int i = 0; i < 4; i++) {
		make_id(id);
		req = create_request(id);
		CHECK_INT(ask_code(&req), ERR_NONE);
	}
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_CAPACITY);
	end();
}

TEST(uid_ranges_of_the_living_differ_and_are_not_used_again_at_once)
{
	struct msg_request req;
	char id[ID_SIZE];
	uint32_t first;

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	first = fake.last_spec.slot;
	req = request(MSG_DELETE, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK(fake.last_spec.slot != first);
	end();
}

TEST(a_start_that_fails_leaves_its_id_free)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	fake.fails_start = true;
	CHECK_INT(ask_code(&req), ERR_CAPACITY);
	fake.fails_start = false;
	fake.fails_started = true;
	CHECK_INT(ask_code(&req), ERR_GUEST);
	fake.fails_started = false;
	CHECK_INT(broker_count(broker), 0);
	CHECK_INT(ask_code(&req), ERR_NONE);
	end();
}

TEST(a_delete_of_an_unknown_id_succeeds)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = request(MSG_DELETE, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	end();
}

TEST(a_stop_leaves_a_kept_layer_and_a_delete_removes_it)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	req.create.keeper = 7;
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.last_spec.keeper, 7);
	fake.kept = id;
	req = request(MSG_STOP, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_kills, 1);
	CHECK_INT(fake.n_discards, 0);
	req = create_request(id);
	req.create.keeper = 7;
	req.create.is_resumed = 1;
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.last_spec.is_resumed, 1);
	req = request(MSG_DELETE, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_kills, 2);
	CHECK_INT(fake.n_discards, 1);
	CHECK_INT(broker_count(broker), 0);
	end();
}

TEST(a_kept_layer_is_listed_and_removed_without_a_guest)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	fake.kept = id;
	req = request(MSG_LIST, "");
	send_request(&req);
	CHECK(next_reply(&reply, &fd));
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.list.is_alive, 0);
	CHECK_INT(reply.list.keeper, 7);
	CHECK(next_reply(&reply, &fd));
	CHECK_STR(reply.id, "");
	req = request(MSG_STOP, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_discards, 0);
	req = request(MSG_DELETE, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_discards, 1);
	CHECK_INT(broker_count(broker), 0);
	end();
}

TEST(a_kept_layer_is_listed_while_its_guest_is_cleared_away)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	req.create.keeper = 7;
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake.kept = id;
	fake.holds_kills = true;
	req = request(MSG_STOP, id);
	send_request(&req);
	req = request(MSG_LIST, "");
	send_request(&req);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_LIST);
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.list.is_alive, 0);
	CHECK_INT(reply.list.keeper, 7);
	CHECK(next_reply(&reply, &fd));
	CHECK_STR(reply.id, "");
	fake_release();
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_STOP);
	end();
}

TEST(a_delete_during_a_stop_takes_the_layer_too)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	req.create.keeper = 7;
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake.kept = id;
	fake.holds_kills = true;
	req = request(MSG_STOP, id);
	send_request(&req);
	req = request(MSG_DELETE, id);
	send_request(&req);
	for (int i = 0; i < 5; i++)
		turn();
	fake_release();
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_STOP);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_DELETE);
	CHECK_INT(fake.n_discards, 1);
	end();
}

TEST(a_delete_during_a_start_waits_for_its_end)
{
	struct msg_request create, del;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	create = create_request(id);
	del = request(MSG_DELETE, id);
	fake.holds_starts = true;
	send_request(&create);
	send_request(&del);
	for (int i = 0; i < 5; i++)
		turn();
	CHECK_INT(fake.n_kills, 0);
	fake_release();
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_CREATE);
	(void)close(fd);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_DELETE);
	CHECK_INT(fake.n_kills, 1);
	CHECK_INT(broker_count(broker), 0);
	end();
}

TEST(every_delete_is_answered_when_several_wait)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	req = request(MSG_DELETE, id);
	for (uint64_t tag = 1; tag <= 3; tag++) {
		req.tag = tag;
		send_request(&req);
	}
	for (uint64_t tag = 1; tag <= 3; tag++) {
		CHECK(next_reply(&reply, &fd));
		CHECK_INT(reply.tag, tag);
		CHECK_INT(reply.err.code, ERR_NONE);
	}
	CHECK_INT(fake.n_kills, 1);
	end();
}

TEST(a_guest_that_dies_is_reported_with_its_usage_and_removed)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake_end_guest(id, 9);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_ENDED);
	CHECK_INT(reply.tag, 0);
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.ended.wait_status, 9);
	CHECK_INT(reply.ended.usage.cpu_ns, 7);
	turn();
	CHECK_INT(fake.n_alive, 0);
	CHECK_INT(broker_count(broker), 0);
	end();
}

TEST(requests_on_a_running_sandbox_reach_the_engine)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	req = request(MSG_LIMITS, id);
	req.limits = most;
	req.limits.pids = 17;
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.limits.pids, 17);
	req = request(MSG_FREEZE, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK(fake.is_frozen);
	req = request(MSG_THAW, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK(!fake.is_frozen);
	req = request(MSG_USAGE, id);
	reply = ask(&req);
	CHECK_INT(reply.usage.cpu_ns, 7);
	req = request(MSG_CONNECT, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	end();
}

TEST(a_freeze_is_answered_when_all_stands_still)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake.freezing = 3;
	req = request(MSG_FREEZE, id);
	send_request(&req);
	while (fake.freezing > 0)
		turn();
	CHECK_INT(next_code(MSG_FREEZE), ERR_NONE);
	end();
}

TEST(a_freeze_under_way_ends_with_a_thaw_or_the_sandbox)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake.freezing = UINT32_MAX;
	req = request(MSG_FREEZE, id);
	send_request(&req);
	req = request(MSG_THAW, id);
	send_request(&req);
	CHECK_INT(next_code(MSG_FREEZE), ERR_CONFLICT);
	CHECK_INT(next_code(MSG_THAW), ERR_NONE);
	req = request(MSG_FREEZE, id);
	send_request(&req);
	req = request(MSG_DELETE, id);
	send_request(&req);
	CHECK_INT(next_code(MSG_FREEZE), ERR_CONFLICT);
	CHECK_INT(next_code(MSG_DELETE), ERR_NONE);
	end();
}

TEST(a_fork_is_asked_for_by_an_interpreters_tag_and_nothing_else)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	req = request(MSG_FORK, id);
	id_make(req.fork.tag, "in");
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_STR(fake.fork_tag, req.fork.tag);
	fake.fails_fork = true;
	CHECK_INT(ask_code(&req), ERR_UNAVAILABLE);
	id_make(req.fork.tag, "sb");
	CHECK_INT(ask_code(&req), ERR_INVALID_FIELD);
	memset(req.fork.tag, 'a', sizeof(req.fork.tag));
	CHECK_INT(ask_code(&req), ERR_INVALID_FIELD);
	end();
}

static size_t ask_for_door(const char *id, struct msg_reply *reply)
{
	struct msg_request req = request(MSG_DOOR, id);
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;

	send_request(&req);
	CHECK(next_reply_fds(reply, fds, &n_fds));
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	return n_fds;
}

TEST(a_door_is_answered_with_the_sockets_that_it_names)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(ask_for_door(id, &reply), DOOR_SOCKETS);
	CHECK_INT(reply.door.sockets, BIT(DOOR_SOCKETS) - 1);
	fake.lacks_ipv6 = true;
	CHECK_INT(ask_for_door(id, &reply), 2);
	CHECK_INT(reply.door.sockets, BIT(DOOR_TCP4) | BIT(DOOR_DNS4));
	req = request(MSG_DOOR_CLOSE, id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_doors, 0);
	end();
}

TEST(a_port_is_dialled_by_family_and_number_and_no_other_is_passed_on)
{
	static const struct {
		uint32_t family, port;
		enum err_code code;
	} rows[] = {
		{AF_INET, 3000, ERR_NONE},
		{AF_INET6, 65535, ERR_NONE},
		{AF_INET, 0, ERR_INVALID_FIELD},
		{AF_INET, 65536, ERR_INVALID_FIELD},
		{AF_INET6, 0x10001, ERR_INVALID_FIELD},
		{AF_UNIX, 80, ERR_INVALID_FIELD},
		{0, 80, ERR_INVALID_FIELD},
	};
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake.dialled = 0;
		req = request(MSG_DIAL, id);
		req.dial.family = rows[i].family;
		req.dial.port = rows[i].port;
		CHECK_INT(ask_code(&req), rows[i].code);
		CHECK_INT(fake.dialled, rows[i].code == ERR_NONE ? rows[i].port : 0);
	}
	end();
}

TEST(requests_on_an_unknown_sandbox_are_not_found)
{
	static const uint32_t ops[] = {MSG_CONNECT, MSG_LIMITS, MSG_USAGE,      MSG_FREEZE,
	                               MSG_THAW,    MSG_DOOR,   MSG_DOOR_CLOSE, MSG_FORK};
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		req = request(ops[i], id);
		if (ops[i] == MSG_FORK)
			id_make(req.fork.tag, "in");
		else
			req.limits = most;
		CHECK_INT(ask_code(&req), ERR_NOT_FOUND);
	}
	end();
}

TEST(a_list_names_the_living_and_ends_with_an_empty_id)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	req = request(MSG_LIST, "");
	send_request(&req);
	CHECK(next_reply(&reply, &fd));
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.list.limits.pids, most.pids);
	CHECK_INT(reply.list.is_alive, 1);
	CHECK(next_reply(&reply, &fd));
	CHECK_STR(reply.id, "");
	end();
}

static void set_buffers(int fd)
{
	const int size = 4 << 20;

	CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)), 0);
}

TEST(a_flood_of_creates_stops_being_read_and_is_answered_in_the_end)
{
	enum { FLOOD = 200 };
	struct msg_request req;
	struct msg_reply reply;
	size_t n_starts;
	char id[ID_SIZE];
	int fd;

	fake_reset();
	(void)snprintf(run_dir, sizeof(run_dir), "/nonexistent");
	begin_with(1000);
	if (geteuid() != 0)
		SKIP("a larger socket buffer needs root");
	set_buffers(gateway_fd);
	fake.holds_starts = true;
	for (int i = 0; i < FLOOD; i++) {
		make_id(id);
		req = create_request(id);
		send_request(&req);
	}
	for (int i = 0; i < 50; i++)
		turn();
	n_starts = fake.n_starts;
	CHECK(n_starts > 0 && n_starts < FLOOD);
	fake_release();
	for (int i = 0; i < FLOOD; i++) {
		CHECK(next_reply(&reply, &fd));
		CHECK_INT(reply.err.code, ERR_NONE);
		(void)close(fd);
	}
	CHECK_INT(fake.n_starts, FLOOD);
	end();
}

TEST(replies_wait_in_order_for_a_gateway_that_does_not_read)
{
	struct msg_request req = request(MSG_PROBE, "");
	struct msg_reply reply;
	uint64_t sent = 0;
	int fd;

	begin();
	for (int i = 0; i < 5000; i++) {
		req.tag = sent + 1;
		if (fd_send(gateway_fd, &req, sizeof(req), NULL, 0) == sizeof(req))
			sent++;
		turn();
	}
	CHECK(sent < 5000); /* the broker stopped reading */
	for (uint64_t tag = 1; tag <= sent; tag++) {
		CHECK(next_reply(&reply, &fd));
		CHECK_INT(reply.tag, tag);
	}
	end();
}

TEST(when_the_gateway_goes_sandboxes_stay_and_the_engine_is_left)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	(void)close(take_fd(&gateway_fd));
	for (int i = 0; i < 5 && !is_over; i++)
		turn();
	CHECK(is_over);
	CHECK_INT(fake.n_kills, 0);
	CHECK_INT(fake.n_alive, 1);
	end();
	CHECK(fake.has_left);
}

TEST(when_the_gateway_goes_a_delete_under_way_is_finished_first)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake.holds_kills = true;
	req = request(MSG_DELETE, id);
	send_request(&req);
	turn();
	(void)close(take_fd(&gateway_fd));
	for (int i = 0; i < 5; i++)
		turn();
	CHECK(!is_over);
	fake_release();
	for (int i = 0; i < 5 && !is_over; i++)
		turn();
	CHECK(is_over);
	CHECK_INT(fake.n_alive, 0);
	end();
}

TEST(when_the_gateway_goes_nobody_waits_for_a_fork)
{
	struct msg_request req;
	char id[ID_SIZE];

	begin();
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	fake.holds_fork = true;
	req = request(MSG_FORK, id);
	id_make(req.fork.tag, "in");
	send_request(&req);
	turn();
	CHECK_STR(fake.fork_tag, req.fork.tag);
	(void)close(take_fd(&gateway_fd));
	for (int i = 0; i < 5 && !is_over; i++)
		turn();
	CHECK(is_over);
	end();
}

static void make_run_dir(const char *const *names, size_t n)
{
	char path[160];

	(void)snprintf(run_dir, sizeof(run_dir), "/tmp/test-broker-XXXXXX");
	CHECK(mkdtemp(run_dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/sandboxes", run_dir);
	CHECK_INT(mkdir(path, 0700), 0);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/sandboxes/%s", run_dir, names[i]);
		CHECK_INT(mkdir(path, 0700), 0);
	}
}

static void remove_run_dir(const char *const *names, size_t n)
{
	char path[160];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/sandboxes/%s", run_dir, names[i]);
		CHECK_INT(rmdir(path), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/sandboxes", run_dir);
	CHECK_INT(rmdir(path), 0);
	(void)snprintf(path, sizeof(path), "%s/finals", run_dir);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(rmdir(run_dir), 0);
}

TEST(a_start_adopts_the_living_and_leaves_strangers_alone)
{
	char alive[ID_SIZE], dead[ID_SIZE];
	const char *const names[] = {alive, dead, "lost+found"};
	struct msg_request req;
	struct msg_reply reply;
	int fd;

	make_id(alive);
	make_id(dead);
	fake_reset();
	fake.adoptable = alive;
	fake.adopted_slot = 5;
	make_run_dir(names, ARRAY_SIZE(names));
	begin_with(4);
	CHECK_INT(broker_count(broker), 1);
	req = request(MSG_LIST, "");
	send_request(&req);
	CHECK(next_reply(&reply, &fd));
	CHECK_STR(reply.id, alive);
	CHECK(next_reply(&reply, &fd));
	fake_end_guest(alive, 0);
	CHECK(next_reply(&reply, &fd));
	CHECK_INT(reply.op, MSG_ENDED);
	end();
	remove_run_dir(names, ARRAY_SIZE(names));
}

TEST(an_adopted_sandbox_with_an_impossible_uid_range_is_removed)
{
	char id[ID_SIZE];
	const char *const names[] = {id};

	make_id(id);
	fake_reset();
	fake.adoptable = id;
	fake.adopted_slot = BROKER_SLOTS;
	make_run_dir(names, ARRAY_SIZE(names));
	begin_with(4);
	turn();
	CHECK_INT(fake.n_kills, 1);
	CHECK_INT(broker_count(broker), 0);
	end();
	remove_run_dir(names, ARRAY_SIZE(names));
}

TEST(the_reply_to_a_delete_has_the_last_usage_also_from_the_next_broker)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];

	fake_reset();
	make_run_dir(NULL, 0);
	begin_with(4);
	make_id(id);
	req = create_request(id);
	CHECK_INT(ask_code(&req), ERR_NONE);
	req = request(MSG_DELETE, id);
	reply = ask(&req);
	CHECK_INT(reply.usage.cpu_ns, 9);
	end();
	begin_with(4);
	reply = ask(&req);
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_INT(reply.usage.cpu_ns, 9);
	make_id(id);
	req = request(MSG_DELETE, id);
	reply = ask(&req);
	CHECK_INT(reply.usage.cpu_ns, 0);
	end();
	remove_run_dir(NULL, 0);
}

TEST(of_figures_for_one_run_the_larger_is_kept_until_many_others_have_ended)
{
	char first[ID_SIZE], other[ID_SIZE];
	struct finals f;

	make_id(first);
	make_id(other);
	make_run_dir(NULL, 0);
	CHECK_INT(finals_open(&f, run_dir, NULL), 0);
	finals_put(&f, first, &(struct guest_usage){.cpu_ns = 5, .disk_bytes = 1});
	finals_close(&f);
	CHECK_INT(finals_open(&f, run_dir, NULL), 0);
	finals_put(&f, first, &(struct guest_usage){.disk_bytes = 2});
	CHECK_INT(finals_find(&f, first).cpu_ns, 5);
	CHECK_INT(finals_find(&f, first).disk_bytes, 2);
	finals_begin(&f, first);
	CHECK_INT(finals_find(&f, first).cpu_ns, 0);
	finals_put(&f, first, &(struct guest_usage){.cpu_ns = 3});
	CHECK_INT(finals_find(&f, first).cpu_ns, 3);
	for (size_t i = 0; i < FINALS_KEPT; i++)
		finals_put(&f, other, &(struct guest_usage){.cpu_ns = 1});
	CHECK_INT(finals_find(&f, first).cpu_ns, 0);
	finals_close(&f);
	remove_run_dir(NULL, 0);
}
