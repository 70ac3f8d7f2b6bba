// SPDX-License-Identifier: Apache-2.0
/* A sandbox in the broker, from its create to its end. */
#include "broker-rig.h"

#include <string.h>

TEST(a_probe_tells_the_host_and_its_walls)
{
	struct msg_request req = rig_request(MSG_PROBE, "");
	struct msg_reply reply;

	rig_begin();
	reply = rig_ask(&req);
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_INT(reply.probe.engines[0].isolation.walls, BIT(WALL_USER_NS));
	CHECK(reply.probe.cpus > 0);
	CHECK(reply.probe.memory_bytes > 0);
	rig_end();
}

TEST(a_create_is_answered_with_a_stream_to_the_agent)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd = -1;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_STR(reply.id, id);
	CHECK(fd >= 0);
	(void)close(fd);
	CHECK_STR(fake.last_spec.hostname, "box-1");
	CHECK_INT(fake.last_spec.limits.pids, rig_most.pids);
	rig_end();
}

TEST(a_second_create_of_an_id_is_a_conflict)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(rig_ask_code(&req), ERR_CONFLICT);
	CHECK_INT(fake.n_starts, 1);
	rig_end();
}

TEST(past_the_cap_a_create_is_told_that_the_host_is_full)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	for (int i = 0; i < 4; i++) {
		rig_make_id(id);
		req = rig_create(id);
		CHECK_INT(rig_ask_code(&req), ERR_NONE);
	}
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_CAPACITY);
	rig_end();
}

TEST(uid_ranges_of_the_living_differ_and_are_not_used_again_at_once)
{
	struct msg_request req;
	char id[ID_SIZE];
	uint32_t first;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	first = fake.last_spec.slot;
	req = rig_request(MSG_DELETE, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK(fake.last_spec.slot != first);
	rig_end();
}

TEST(a_start_that_fails_leaves_its_id_free)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	fake.fails_start = true;
	CHECK_INT(rig_ask_code(&req), ERR_CAPACITY);
	fake.fails_start = false;
	fake.fails_started = true;
	CHECK_INT(rig_ask_code(&req), ERR_GUEST);
	fake.fails_started = false;
	CHECK_INT(rig.broker->n_boxes, 0);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	rig_end();
}

TEST(a_delete_of_an_unknown_id_succeeds)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_request(MSG_DELETE, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	rig_end();
}

TEST(a_stop_leaves_a_kept_layer_and_a_delete_removes_it)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	req.create.keeper = 7;
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.last_spec.keeper, 7);
	fake.kept = id;
	req = rig_request(MSG_STOP, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_kills, 1);
	CHECK_INT(fake.n_discards, 0);
	req = rig_create(id);
	req.create.keeper = 7;
	req.create.is_resumed = 1;
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.last_spec.is_resumed, 1);
	req = rig_request(MSG_DELETE, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_kills, 2);
	CHECK_INT(fake.n_discards, 1);
	CHECK_INT(rig.broker->n_boxes, 0);
	rig_end();
}

TEST(a_kept_layer_is_listed_and_removed_without_a_guest)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	fake.kept = id;
	req = rig_request(MSG_LIST, "");
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.list.is_alive, 0);
	CHECK_INT(reply.list.keeper, 7);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, "");
	req = rig_request(MSG_STOP, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_discards, 0);
	req = rig_request(MSG_DELETE, id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	CHECK_INT(fake.n_discards, 1);
	CHECK_INT(rig.broker->n_boxes, 0);
	rig_end();
}

TEST(a_kept_layer_is_listed_while_its_guest_is_cleared_away)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	req.create.keeper = 7;
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake.kept = id;
	fake.holds_kills = true;
	req = rig_request(MSG_STOP, id);
	rig_send(&req);
	req = rig_request(MSG_LIST, "");
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_LIST);
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.list.is_alive, 0);
	CHECK_INT(reply.list.keeper, 7);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, "");
	fake_release();
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_STOP);
	rig_end();
}

TEST(a_delete_during_a_stop_takes_the_layer_too)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	req.create.keeper = 7;
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake.kept = id;
	fake.holds_kills = true;
	req = rig_request(MSG_STOP, id);
	rig_send(&req);
	req = rig_request(MSG_DELETE, id);
	rig_send(&req);
	for (int i = 0; i < 5; i++)
		rig_turn();
	fake_release();
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_STOP);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_DELETE);
	CHECK_INT(fake.n_discards, 1);
	rig_end();
}

TEST(a_delete_during_a_start_waits_for_its_end)
{
	struct msg_request create, del;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	create = rig_create(id);
	del = rig_request(MSG_DELETE, id);
	fake.holds_starts = true;
	rig_send(&create);
	rig_send(&del);
	for (int i = 0; i < 5; i++)
		rig_turn();
	CHECK_INT(fake.n_kills, 0);
	fake_release();
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_CREATE);
	(void)close(fd);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_DELETE);
	CHECK_INT(fake.n_kills, 1);
	CHECK_INT(rig.broker->n_boxes, 0);
	rig_end();
}

TEST(every_delete_is_answered_when_several_wait)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	req = rig_request(MSG_DELETE, id);
	for (uint64_t tag = 1; tag <= 3; tag++) {
		req.tag = tag;
		rig_send(&req);
	}
	for (uint64_t tag = 1; tag <= 3; tag++) {
		CHECK(rig_next(&reply, &fd));
		CHECK_INT(reply.tag, tag);
		CHECK_INT(reply.err.code, ERR_NONE);
	}
	CHECK_INT(fake.n_kills, 1);
	rig_end();
}

TEST(a_guest_that_dies_is_reported_with_its_usage_and_removed)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake_end_guest(id, 9);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_ENDED);
	CHECK_INT(reply.tag, 0);
	CHECK_STR(reply.id, id);
	CHECK_INT(reply.ended.wait_status, 9);
	CHECK_INT(reply.ended.usage.cpu_ns, 7);
	rig_turn();
	CHECK_INT(fake.n_alive, 0);
	CHECK_INT(rig.broker->n_boxes, 0);
	rig_end();
}
