// SPDX-License-Identifier: Apache-2.0
/* The gateway goes, and the next broker finds what this one left. */
#include "base/fd.h"
#include "broker-rig.h"
#include "broker/finals.h"

#include <stdio.h>
#include <sys/stat.h>

TEST(when_the_gateway_goes_sandboxes_stay_and_the_engine_is_left)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	(void)close(take_fd(&rig.gateway_fd));
	for (int i = 0; i < 5 && !rig.is_over; i++)
		rig_turn();
	CHECK(rig.is_over);
	CHECK_INT(fake.n_kills, 0);
	CHECK_INT(fake.n_alive, 1);
	rig_end();
	CHECK(fake.has_left);
}

TEST(when_the_gateway_goes_a_delete_under_way_is_finished_first)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake.holds_kills = true;
	req = rig_request(MSG_DELETE, id);
	rig_send(&req);
	rig_turn();
	(void)close(take_fd(&rig.gateway_fd));
	for (int i = 0; i < 5; i++)
		rig_turn();
	CHECK(!rig.is_over);
	fake_release();
	for (int i = 0; i < 5 && !rig.is_over; i++)
		rig_turn();
	CHECK(rig.is_over);
	CHECK_INT(fake.n_alive, 0);
	rig_end();
}

TEST(when_the_gateway_goes_nobody_waits_for_a_fork)
{
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	fake.holds_fork = true;
	req = rig_request(MSG_FORK, id);
	id_make(req.fork.tag, "in");
	rig_send(&req);
	rig_turn();
	CHECK_STR(fake.fork_tag, req.fork.tag);
	(void)close(take_fd(&rig.gateway_fd));
	for (int i = 0; i < 5 && !rig.is_over; i++)
		rig_turn();
	CHECK(rig.is_over);
	rig_end();
}

static void make_run_dir(const char *const *names, size_t n)
{
	char path[160];

	(void)snprintf(rig.run_dir, sizeof(rig.run_dir), "/tmp/test-broker-XXXXXX");
	CHECK(mkdtemp(rig.run_dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/sandboxes", rig.run_dir);
	CHECK_INT(mkdir(path, 0700), 0);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/sandboxes/%s", rig.run_dir, names[i]);
		CHECK_INT(mkdir(path, 0700), 0);
	}
}

static void remove_run_dir(const char *const *names, size_t n)
{
	char path[160];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/sandboxes/%s", rig.run_dir, names[i]);
		CHECK_INT(rmdir(path), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/sandboxes", rig.run_dir);
	CHECK_INT(rmdir(path), 0);
	(void)snprintf(path, sizeof(path), "%s/finals", rig.run_dir);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(rmdir(rig.run_dir), 0);
}

TEST(a_start_adopts_the_living_and_leaves_strangers_alone)
{
	char alive[ID_SIZE], dead[ID_SIZE];
	const char *const names[] = {alive, dead, "lost+found"};
	struct msg_request req;
	struct msg_reply reply;
	int fd;

	rig_make_id(alive);
	rig_make_id(dead);
	fake_reset();
	fake.adoptable = alive;
	fake.adopted_slot = 5;
	make_run_dir(names, ARRAY_SIZE(names));
	rig_begin_with(4);
	CHECK_INT(rig.broker->n_boxes, 1);
	req = rig_request(MSG_LIST, "");
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_STR(reply.id, alive);
	CHECK(rig_next(&reply, &fd));
	fake_end_guest(alive, 0);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.op, MSG_ENDED);
	rig_end();
	remove_run_dir(names, ARRAY_SIZE(names));
}

TEST(an_adopted_sandbox_with_an_impossible_uid_range_is_removed)
{
	char id[ID_SIZE];
	const char *const names[] = {id};

	rig_make_id(id);
	fake_reset();
	fake.adoptable = id;
	fake.adopted_slot = BROKER_SLOTS;
	make_run_dir(names, ARRAY_SIZE(names));
	rig_begin_with(4);
	rig_turn();
	CHECK_INT(fake.n_kills, 1);
	CHECK_INT(rig.broker->n_boxes, 0);
	rig_end();
	remove_run_dir(names, ARRAY_SIZE(names));
}

TEST(the_reply_to_a_delete_has_the_last_usage_also_from_the_next_broker)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];

	fake_reset();
	make_run_dir(NULL, 0);
	rig_begin_with(4);
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	req = rig_request(MSG_DELETE, id);
	reply = rig_ask(&req);
	CHECK_INT(reply.usage.cpu_ns, 9);
	rig_end();
	rig_begin_with(4);
	reply = rig_ask(&req);
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_INT(reply.usage.cpu_ns, 9);
	rig_make_id(id);
	req = rig_request(MSG_DELETE, id);
	reply = rig_ask(&req);
	CHECK_INT(reply.usage.cpu_ns, 0);
	rig_end();
	remove_run_dir(NULL, 0);
}

TEST(a_delete_of_one_whose_cgroups_are_half_removed_has_what_the_last_broker_read)
{
	struct msg_request req;
	struct msg_reply reply;
	struct finals f;
	char id[ID_SIZE];

	fake_reset();
	rig_make_id(id);
	make_run_dir(NULL, 0);
	CHECK_INT(finals_open(&f, rig.run_dir, NULL), 0);
	finals_put(&f, id, &(struct guest_usage){.cpu_ns = 9});
	finals_close(&f);
	rig_begin_with(4);
	fake.kept = fake.dead = id;
	req = rig_request(MSG_DELETE, id);
	reply = rig_ask(&req);
	CHECK_INT(reply.err.code, ERR_NONE);
	CHECK_INT(reply.usage.cpu_ns, 9);
	rig_end();
	remove_run_dir(NULL, 0);
}

TEST(of_figures_for_one_run_the_larger_is_kept_until_many_others_have_ended)
{
	char first[ID_SIZE], other[ID_SIZE];
	struct finals f;

	rig_make_id(first);
	rig_make_id(other);
	make_run_dir(NULL, 0);
	CHECK_INT(finals_open(&f, rig.run_dir, NULL), 0);
	finals_put(&f, first, &(struct guest_usage){.cpu_ns = 5, .disk_bytes = 1});
	finals_close(&f);
	CHECK_INT(finals_open(&f, rig.run_dir, NULL), 0);
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
