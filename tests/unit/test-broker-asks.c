// SPDX-License-Identifier: Apache-2.0
/* What the gateway asks of a sandbox that runs, and of what there is. */
#include "base/fd.h"
#include "broker-rig.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

TEST(requests_on_a_running_sandbox_reach_the_engine)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	req = rig_request(MSG_LIMITS, id);
	req.limits = rig_most;
	req.limits.pids = 17;
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.limits.pids, 17);
	req = rig_request(MSG_FREEZE, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK(fake.is_frozen);
	req = rig_request(MSG_THAW, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK(!fake.is_frozen);
	req = rig_request(MSG_USAGE, id);
	reply = rig_ask(&req);
	CHECK_INT(reply.usage.cpu_ns, 7);
	req = rig_request(MSG_CONNECT, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	rig_end();
}

TEST(a_freeze_is_answered_when_all_stands_still)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake.freezing = 3;
	req = rig_request(MSG_FREEZE, id);
	rig_send(&req);
	while (fake.freezing > 0)
		rig_turn();
	CHECK_INT(rig_next_code(MSG_FREEZE), ERR_NONE);
	rig_end();
}

TEST(a_freeze_under_way_ends_with_a_thaw_or_the_sandbox)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake.freezing = UINT32_MAX;
	req = rig_request(MSG_FREEZE, id);
	rig_send(&req);
	req = rig_request(MSG_THAW, id);
	rig_send(&req);
	CHECK_INT(rig_next_code(MSG_FREEZE), ERR_CONFLICT);
	CHECK_INT(rig_next_code(MSG_THAW), ERR_NONE);
	req = rig_request(MSG_FREEZE, id);
	rig_send(&req);
	req = rig_request(MSG_DELETE, id);
	rig_send(&req);
	CHECK_INT(rig_next_code(MSG_FREEZE), ERR_CONFLICT);
	CHECK_INT(rig_next_code(MSG_DELETE), ERR_NONE);
	rig_end();
}

TEST(a_fork_is_asked_for_by_an_interpreters_tag_and_nothing_else)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	req = rig_request(MSG_FORK, id);
	id_make(req.fork.tag, "in");
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_STR(fake.fork_tag, req.fork.tag);
	fake.fails_fork = true;
	CHECK_INT(rig_ask_code(&req), ERR_UNAVAILABLE);
	id_make(req.fork.tag, "sb");
	CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	memset(req.fork.tag, 'a', sizeof(req.fork.tag));
	CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	rig_end();
}

static size_t ask_for_door(const char *id, struct msg_reply *reply)
{
	struct msg_request req = rig_request(MSG_DOOR, id);
	int fds[FD_PASS_MAX];
	size_t n_fds = 0;

	rig_send(&req);
	CHECK(rig_next_fds(reply, fds, &n_fds));
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	return n_fds;
}

TEST(a_door_is_answered_with_the_sockets_that_it_names)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(ask_for_door(id, &reply), DOOR_SOCKETS);
	CHECK_INT(reply.door.sockets, BIT(DOOR_SOCKETS) - 1);
	fake.lacks_ipv6 = true;
	CHECK_INT(ask_for_door(id, &reply), 2);
	CHECK_INT(reply.door.sockets, BIT(DOOR_TCP4) | BIT(DOOR_DNS4));
	req = rig_request(MSG_DOOR_CLOSE, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_doors, 0);
	rig_end();
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

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake.dialled = 0;
		req = rig_request(MSG_DIAL, id);
		req.dial.family = rows[i].family;
		req.dial.port = rows[i].port;
		CHECK_INT(rig_ask_code(&req), rows[i].code);
		CHECK_INT(fake.dialled, rows[i].code == ERR_NONE ? rows[i].port : 0);
	}
	rig_end();
}

TEST(requests_on_an_unknown_sandbox_are_not_found)
{
	static const uint32_t ops[] = {MSG_CONNECT, MSG_LIMITS, MSG_USAGE,      MSG_FREEZE,
	                               MSG_THAW,    MSG_DOOR,   MSG_DOOR_CLOSE, MSG_FORK};
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		req = rig_request(ops[i], id);
		if (ops[i] == MSG_FORK)
			id_make(req.fork.tag, "in");
		else
			req.limits = rig_most;
		CHECK_INT(rig_ask_code(&req), ERR_NOT_FOUND);
	}
	rig_end();
}

TEST(a_list_names_the_living_and_ends_with_an_empty_id)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	req = rig_request(MSG_LIST, "");
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.list.limits.pids, rig_most.pids);
	CHECK_INT(reply.list.is_alive, 1);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, "");
	rig_end();
}

/* While a sync is under way, others are answered. */
static void check_sync(int status, int code)
{
	struct msg_request req = rig_request(MSG_SYNC, ""), probe = rig_request(MSG_PROBE, "");
	siginfo_t info;
	int ends[2];

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	fake.sync_fd = ends[0];
	fake.sync_status = status;
	rig_send(&req);
	CHECK_INT(rig_ask_code(&probe), ERR_NONE);
	CHECK_INT(rig_ask_code(&req), ERR_CONFLICT);
	CHECK_INT(write(ends[1], "x", 1), 1);
	CHECK_INT(waitid(P_PID, (id_t)fake.syncer, &info, WEXITED | WNOWAIT), 0);
	CHECK_INT(rig_next_code(MSG_SYNC), code);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

TEST(layers_are_synced_one_time_after_the_other_and_nobody_else_waits)
{
	struct msg_request req = rig_request(MSG_SYNC, "");

	rig_begin();
	check_sync(0, ERR_NONE);
	check_sync(1, ERR_INTERNAL);
	check_sync(0, ERR_NONE);
	fake.sync_fd = 0;
	CHECK_INT(rig_ask_code(&req), ERR_INTERNAL);
	rig_end();
}

static struct msg_request volume_request(uint32_t op, const char *id)
{
	struct msg_request req = rig_request(op, "");

	(void)snprintf(req.volume.id, sizeof(req.volume.id), "%s", id);
	if (op == MSG_VOLUME) {
		req.volume.keeper = 7;
		req.volume.bytes = UINT64_C(64) << 20;
	}
	return req;
}

TEST(a_volume_is_made_listed_and_removed)
{
	char id[ID_SIZE];
	struct msg_request make, remove, list = rig_request(MSG_VOLUMES, "");
	struct msg_reply reply;
	int fd;

	rig_begin();
	id_make(id, "vo");
	make = volume_request(MSG_VOLUME, id);
	remove = volume_request(MSG_VOLUME_REMOVE, id);
	CHECK_INT(rig_ask_code(&make), ERR_NONE);
	rig_send(&list);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.volume.id, id);
	CHECK_INT(reply.volume.keeper, 7);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, "");
	CHECK_INT(rig_ask_code(&remove), ERR_NONE);
	CHECK_INT(fake.n_volumes, 0);
	CHECK_INT(rig_ask_code(&remove), ERR_NONE);
	rig_end();
}

TEST(a_volume_of_a_wrong_id_size_or_keeper_reaches_no_engine)
{
	static const char *const wrong[] = {"", "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa", "../layers",
	                                    "vo_../../../../../../../../etc"};
	char id[ID_SIZE];
	struct msg_request req;

	rig_begin();
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		req = volume_request(MSG_VOLUME, wrong[i]);
		CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
		req = volume_request(MSG_VOLUME_REMOVE, wrong[i]);
		CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	}
	id_make(id, "vo");
	req = volume_request(MSG_VOLUME, id);
	memset(req.volume.id, 'v', sizeof(req.volume.id));
	CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	req = volume_request(MSG_VOLUME, id);
	req.volume.bytes = 0;
	CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	req.volume.bytes = UINT64_MAX;
	CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	req = volume_request(MSG_VOLUME, id);
	req.volume.keeper = 0;
	CHECK_INT(rig_ask_code(&req), ERR_INVALID_FIELD);
	CHECK_INT(fake.n_volumes, 0);
	rig_end();
}

static struct msg_request copy_request(void)
{
	struct msg_request req = rig_request(MSG_VOLUME_COPY, "");

	id_make(req.volume_copy.made.id, "vo");
	id_make(req.volume_copy.source, "vo");
	req.volume_copy.made.keeper = 7;
	req.volume_copy.made.bytes = UINT64_C(64) << 20;
	return req;
}

static void end_copy(const struct err *err)
{
	fake.copied(err, fake.copied_arg);
	fake.copied = NULL;
}

TEST(a_copy_of_a_volume_is_answered_when_it_is_there_or_has_failed)
{
	struct msg_request req = copy_request();
	struct msg_reply reply;
	struct err full;
	int fd;

	rig_begin();
	(void)err_set(&full, ERR_HOST_DISK_FULL, ENOSPC, "full");
	for (int i = 0; i < 2; i++) {
		rig_send(&req);
		while (!fake.copied)
			rig_turn();
		CHECK_STR(fake.copy.source, req.volume_copy.source);
		end_copy(i == 0 ? NULL : &full);
		CHECK(rig_next(&reply, &fd));
		CHECK_INT(reply.op, MSG_VOLUME_COPY);
		CHECK_INT(reply.err.code, i == 0 ? ERR_NONE : ERR_HOST_DISK_FULL);
	}
	rig_end();
}

TEST(a_copy_that_is_under_way_does_not_keep_the_broker)
{
	struct msg_request req = copy_request();

	rig_begin();
	rig_send(&req);
	while (!fake.copied)
		rig_turn();
	fake.copied = NULL; /* as an engine that has left */
	rig_end();
}

TEST(a_copy_with_a_wrong_field_reaches_no_engine)
{
	struct msg_request good = copy_request(), bad;

	rig_begin();
	for (int i = 0; i < 5; i++) {
		bad = good;
		if (i == 0)
			id_make(bad.volume_copy.source, "sb");
		if (i == 1)
			memset(bad.volume_copy.source, 'v', sizeof(bad.volume_copy.source));
		if (i == 2)
			bad.volume_copy.made.id[0] = '.';
		if (i == 3)
			bad.volume_copy.owner = UINT64_C(1) << 48;
		if (i == 4)
			bad.volume_copy.made.bytes = 0;
		CHECK_INT(rig_ask_code(&bad), ERR_INVALID_FIELD);
	}
	CHECK(!fake.copied);
	rig_end();
}

TEST(nothing_is_begun_while_what_is_kept_is_being_frozen)
{
	const struct backup_counts counts = {.layers = 3, .images = 2};
	struct msg_request freeze, create, release;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd = -1;

	rig_begin();
	rig_make_id(id);
	freeze = rig_request(MSG_BACKUP, "");
	create = rig_create(id);
	release = rig_request(MSG_BACKUP_END, "");
	rig_send(&freeze);
	while (!fake.frozen)
		rig_turn();
	rig_send(&create);
	for (int i = 0; i < 3; i++)
		rig_turn();
	CHECK_INT(fake.n_starts, 0);
	fake_tell_frozen(&counts, NULL);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_BACKUP);
	CHECK_INT(reply.backup.layers, 3);
	CHECK_INT(reply.backup.images, 2);
	CHECK_INT(rig_next_code(MSG_CREATE), ERR_NONE);
	CHECK_INT(rig_ask_code(&freeze), ERR_CONFLICT);
	CHECK_INT(rig_ask_code(&release), ERR_NONE);
	rig_end();
}
