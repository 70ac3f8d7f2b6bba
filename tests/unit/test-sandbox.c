// SPDX-License-Identifier: Apache-2.0
/* The life of sandboxes: create, fail, end, restart. Execs and hostile agents: test-exec.c. */
#include "sandbox-rig.h"
#include "sandbox/brokerclient/broker_client.h"

#include <assert.h>
#include <signal.h>

static struct rig rig;

static int count_row(const struct sandbox_row *row, void *arg)
{
	(void)row;
	(*(int *)arg)++;
	return 0;
}

static int rows(void)
{
	int n = 0;

	CHECK_INT(store_each_sandbox(rig.store, count_row, &n, NULL), 0);
	return n;
}

static void add_name(struct sandbox *s, void *arg)
{
	const char *json = strstr(rig_json(s), "\"name\":\"");
	char *text = arg;
	size_t len = strlen(text);

	text[len] = json[8];
	text[len + 1] = '\0';
}

TEST(a_sandbox_lives_and_its_end_stays_known_until_it_is_forgotten)
{
	struct sandbox *s;
	char id[64];

	rig_start(&rig);
	s = rig_create(&rig, "web");
	(void)snprintf(id, sizeof(id), "%s", sandbox_id(s));
	CHECK_INT(fleet_count(rig.fleet), 1);
	CHECK(sandbox_find(rig.fleet, "prj_test", id) == s);
	CHECK(sandbox_find(rig.fleet, "prj_test", "web") == s);
	CHECK(strstr(rig_json(s), "\"state\":\"running\"") != NULL);
	CHECK(strstr(rig_json(s),
	             "\"isolation\":{\"engine\":\"jail\",\"grade\":\"process\",\"walls\":"
	             "[\"user_namespace\",\"seccomp\"],\"gaps\":[\"disk_limit\"]}") != NULL);
	CHECK(strstr(rig_json(s), "\"ended\":null") != NULL);
	rig_delete(&rig, s);
	CHECK_INT(fleet_count(rig.fleet), 0);
	CHECK(fake_agent_only(&rig.broker) == NULL);
	CHECK(sandbox_find(rig.fleet, "prj_test", id) == s);
	CHECK(sandbox_find(rig.fleet, "prj_test", "web") == NULL);
	CHECK(strstr(rig_json(s), "\"ended\":{\"cause\":\"deleted\"") != NULL);
	CHECK_INT(rows(), 1);
	rig_delete(&rig, s); /* of a stopped one: forgets */
	CHECK(sandbox_find(rig.fleet, "prj_test", id) == NULL);
	CHECK_INT(rows(), 0);
	rig_stop(&rig);
}

TEST(a_create_that_fails_anywhere_leaves_nothing)
{
	static const struct {
		enum fake_create create;
		enum fake_hello hello;
		enum err_code code;
	} steps[] = {
		{CREATE_REFUSED, HELLO_WELCOME, ERR_CAPACITY},
		{CREATE_WELL, HELLO_SILENT, ERR_GUEST},
		{CREATE_WELL, HELLO_GARBAGE, ERR_GUEST},
		{CREATE_WELL, HELLO_WRONG_VERSION, ERR_GUEST},
		{CREATE_WELL, HELLO_HANG_UP, ERR_GUEST},
		{CREATE_WELL, HELLO_LYING_LIST, ERR_GUEST},
		{CREATE_WELL, HELLO_CUT_LIST, ERR_GUEST},
	};
	struct sandbox_spec spec = {.name = "again"};

	rig.is_hasty = true;
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct outcome o = {0};

		rig.broker.create = steps[i].create;
		rig.broker.next_hello = steps[i].hello;
		CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, NULL), 0);
		UNTIL(&rig.broker, o.calls > 0);
		CHECK(o.s == NULL);
		CHECK_INT(o.err.code, steps[i].code);
		CHECK_INT(fleet_count(rig.fleet), 0);
		CHECK(fake_agent_only(&rig.broker) == NULL);
		CHECK_INT(rows(), 0);
	}
	rig_go_away(&rig);
	rig.broker.create = CREATE_WELL;
	rig.broker.next_hello = HELLO_WELCOME;
	rig.is_hasty = false;
	rig_come_back(&rig);
	(void)rig_create(&rig, "again");
	rig_stop(&rig);
}

TEST(a_guest_that_dies_while_it_is_created_fails_the_create)
{
	struct sandbox_spec spec = {0};
	struct outcome o = {0};

	rig_start(&rig);
	rig.broker.next_hello = HELLO_SILENT;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, fake_agent_only(&rig.broker) && fake_agent_only(&rig.broker)->hellos);
	fake_broker_end(&rig.broker, fake_agent_only(&rig.broker)->id, SIGKILL);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_INT(o.err.code, ERR_GUEST);
	CHECK(strstr(o.err.message, "signal 9") != NULL);
	CHECK_INT(rows(), 0);
	rig_stop(&rig);
}

TEST(the_brokers_death_fails_what_is_under_way_and_is_told)
{
	struct sandbox_spec spec = {0};
	struct outcome o = {0};

	rig_start(&rig);
	rig.broker.create = CREATE_UNANSWERED;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, rig.broker.creates > 0);
	CHECK_INT(rig.losses, 0);
	fake_broker_die(&rig.broker);
	UNTIL(&rig.broker, rig.losses > 0 && o.calls > 0);
	CHECK_INT(rig.losses, 1);
	CHECK_INT(o.err.code, ERR_UNAVAILABLE);
	rig_stop(&rig);
}

TEST(a_sandbox_can_be_deleted_while_it_is_created)
{
	struct sandbox_spec spec = {.name = "early"};
	struct outcome created = {0}, deleted = {0};

	rig_start(&rig);
	rig.broker.create = CREATE_UNANSWERED;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &created, NULL), 0);
	sandbox_delete(sandbox_find(rig.fleet, "prj_test", "early"), END_DELETED, rig_note,
	               &deleted);
	UNTIL(&rig.broker, deleted.calls > 0);
	CHECK_INT(created.calls, 1);
	CHECK_INT(created.err.code, ERR_GONE);
	CHECK_INT(sandbox_state(deleted.s), SANDBOX_STOPPED);
	CHECK_INT(fleet_count(rig.fleet), 0);
	rig_stop(&rig);
}

TEST(every_delete_of_one_sandbox_is_answered_when_it_is_gone)
{
	struct outcome first = {0}, second = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	rig.broker.holds_deletes = true;
	sandbox_delete(s, END_DELETED, rig_note, &first);
	UNTIL(&rig.broker, rig.broker.deletes > 0);
	CHECK_INT(sandbox_state(s), SANDBOX_STOPPING);
	sandbox_delete(s, END_DELETED, rig_note, &second);
	fake_turn(&rig.broker);
	CHECK_INT(first.calls + second.calls, 0);
	fake_broker_release(&rig.broker);
	UNTIL(&rig.broker, first.calls && second.calls);
	CHECK_INT(sandbox_state(s), SANDBOX_STOPPED);
	rig_stop(&rig);
}

TEST(a_bad_field_is_named)
{
	json_t *tags33 = json_object();
	struct sandbox_spec bad[] = {
		{.name = ""},
		{.name = "-a"},
		{.name = "a-"},
		{.name = "Web"},
		{.name = "a_b"},
		{.name = "0123456789012345678901234567890123456789012345678901234567890123"},
		{.template = "none"},
		{.tags = json_pack("{s:i}", "a", 1)},
		{.tags = json_pack("{s:s}", "a:b", "c")},
		{.tags = json_pack("{s:s}", "", "c")},
		{.tags = json_pack("{s:s}", "a", "line\nbreak")},
		{.tags = tags33},
		{.env = json_pack("{s:s}", "A=B", "c")},
		{.env = json_pack("{s:s}", "", "c")},
		{.env = json_pack("{s:i}", "A", 1)},
		{.limits.memory_bytes = 4096},
		{.limits.memory_bytes = UINT64_MAX},
		{.limits.disk_bytes = UINT64_C(1) << 60},
		{.limits.inodes = 1},
		{.limits.cpu_milli = 4001},
		{.limits.pids = UINT32_MAX},
		{.limits.open_files = 1},
		{.timeout_ms = 86400001},
		{.timeout_ms = UINT64_MAX},
		{.engine = "docker"},
		{.min_grade = "best"},
	};
	static const char *const fields[] = {
		"name",
		"name",
		"name",
		"name",
		"name",
		"name",
		"template",
		"tags.a",
		"tags",
		"tags",
		"tags.a",
		"tags",
		"env",
		"env",
		"env",
		"limits.memory_mib",
		"limits.memory_mib",
		"limits.disk_mib",
		"limits.inodes",
		"limits.vcpus",
		"limits.pids",
		"limits.open_files",
		"timeout_ms",
		"timeout_ms",
		"engine",
		"min_grade",
	};
	static_assert(ARRAY_SIZE(bad) == ARRAY_SIZE(fields), "a case has no field");

	for (int i = 0; i < 33; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "t%d", i);
		(void)json_object_set_new(tags33, name, json_string("x"));
	}
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = {0};

		CHECK(sandbox_create(rig.fleet, "prj_test", &bad[i], rig_note, NULL, &err) < 0);
		CHECK_STR(err.field, fields[i]);
		CHECK_INT(err.code, ERR_INVALID_FIELD);
		json_decref(unconst(bad[i].tags));
		json_decref(unconst(bad[i].env));
	}
	CHECK_INT(rig.broker.creates, 0);
	CHECK_INT(rows(), 0);
	rig_stop(&rig);
}

TEST(what_the_host_cannot_give_is_refused_with_a_reason)
{
	struct sandbox_spec vm = {.engine = "vm"}, hardware = {.min_grade = "hardware"};
	struct err err = {0};

	rig_start(&rig);
	CHECK(sandbox_create(rig.fleet, "prj_test", &vm, rig_note, NULL, &err) < 0);
	CHECK_INT(err.code, ERR_UNSUPPORTED);
	CHECK(sandbox_create(rig.fleet, "prj_test", &hardware, rig_note, NULL, &err) < 0);
	CHECK_INT(err.code, ERR_UNSUPPORTED);
	CHECK(strstr(err.message, "'process'") != NULL);
	CHECK(err.hint[0] != '\0');
	rig_stop(&rig);
}

TEST(a_name_is_unique_among_the_projects_living)
{
	struct sandbox_spec spec = {.name = "one"};
	struct outcome o = {0};
	struct sandbox *s;
	struct err err = {0};

	rig_start(&rig);
	s = rig_create(&rig, "one");
	CHECK(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(sandbox_find(rig.fleet, "prj_other", "one") == NULL);
	CHECK(sandbox_find(rig.fleet, "prj_other", sandbox_id(s)) == NULL);
	CHECK_INT(sandbox_create(rig.fleet, "prj_other", &spec, rig_note, &o, &err), 0);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK(sandbox_find(rig.fleet, "prj_other", "one") == o.s);
	rig_delete(&rig, s);
	(void)rig_create(&rig, "one");
	rig_stop(&rig);
}

TEST(past_the_limit_of_sandboxes_a_create_is_refused)
{
	struct sandbox_spec spec = {0};
	struct err err = {0};

	rig_start(&rig);
	for (int i = 0; i < 5; i++)
		(void)rig_create(&rig, NULL);
	CHECK(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, NULL, &err) < 0);
	CHECK_INT(err.code, ERR_CAPACITY);
	rig_stop(&rig);
}

TEST(a_sandbox_ends_when_its_time_is_up)
{
	struct sandbox_patch patch = {.has_timeout = true, .timeout_ms = 1};
	struct outcome o = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	CHECK_INT(sandbox_update(s, &patch, rig_note, &o, NULL), 0);
	CHECK_INT(o.calls, 0);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_STOPPED);
	CHECK_INT(o.calls, 1);
	CHECK(strstr(rig_json(s), "\"cause\":\"timeout\"") != NULL);
	CHECK(fake_agent_only(&rig.broker) == NULL);
	rig_stop(&rig);
}

TEST(new_limits_go_to_the_broker_and_new_tags_to_the_record)
{
	json_t *tags = json_pack("{s:s}", "team", "blue");
	struct sandbox_patch patch = {
		.tags = tags, .has_limits = true, .limits.memory_bytes = 128 << 20};
	struct sandbox_filter filter = {
		.project_id = "prj_test", .tag_name = "team", .tag_value = "blue", .limit = 9};
	struct outcome o = {0};
	struct sandbox *s;
	struct err err = {0};
	char text[16] = "";
	bool has_more;

	rig_start(&rig);
	s = rig_create(&rig, "tagged");
	CHECK_INT(rig.broker.limits.memory_bytes, 64 << 20);
	CHECK_INT(sandbox_update(s, &patch, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK(o.s == s);
	CHECK_INT(rig.broker.limits.memory_bytes, 128 << 20);
	CHECK_INT(rig.broker.limits.pids, 64);
	CHECK(strstr(rig_json(s), "\"tags\":{\"team\":\"blue\"}") != NULL);
	patch.limits.memory_bytes = UINT64_C(1) << 50;
	CHECK(sandbox_update(s, &patch, rig_note, &o, &err) < 0);
	CHECK_STR(err.field, "limits.memory_mib");
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "tagged");
	CHECK(strstr(rig_json(s), "\"memory_mib\":128") != NULL);
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 1);
	CHECK_STR(text, "t");
	json_decref(tags);
	rig_stop(&rig);
}

TEST(a_list_is_newest_first_in_pages_and_of_one_project)
{
	struct sandbox_filter filter = {.project_id = "prj_test", .limit = 2};
	struct sandbox *middle;
	char text[16] = "";
	bool has_more;

	rig_start(&rig);
	(void)rig_create(&rig, "a");
	(void)rig_create(&rig, "b");
	middle = rig_create(&rig, "c");
	(void)rig_create(&rig, "d");
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 2);
	CHECK_STR(text, "dc");
	CHECK(has_more);
	filter.after_id = sandbox_id(middle);
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 2);
	CHECK_STR(text, "dcba");
	CHECK(!has_more);
	filter.project_id = "prj_other";
	filter.after_id = NULL;
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 0);
	rig_delete(&rig, middle);
	filter = (struct sandbox_filter){.project_id = "prj_test", .limit = 9};
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 3);
	filter.state = "stopped";
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 1);
	CHECK_STR(text, "dcbadbac");
	rig_stop(&rig);
}

static void set_flag(struct loop *loop, void *arg)
{
	(void)loop;
	*(bool *)arg = true;
}

TEST(all_can_be_deleted_at_once_and_then_none_is_made)
{
	struct sandbox_spec spec = {0};
	struct err err = {0};
	bool is_done = false;

	rig_start(&rig);
	for (int i = 0; i < 3; i++)
		(void)rig_create(&rig, NULL);
	fleet_delete_all(rig.fleet, set_flag, &is_done);
	CHECK(!is_done);
	CHECK(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, NULL, &err) < 0);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	UNTIL(&rig.broker, is_done);
	CHECK_INT(fleet_count(rig.fleet), 0);
	CHECK(fake_agent_only(&rig.broker) == NULL);
	rig_stop(&rig);
}

TEST(a_guest_that_dies_ends_its_sandbox_with_the_cause)
{
	struct sandbox *s, *other;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	other = rig_create(&rig, NULL);
	fake_broker_end(&rig.broker, sandbox_id(s), SIGSEGV);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_FAILED);
	CHECK(strstr(rig_json(s), "\"cause\":\"guest_crash\"") != NULL);
	CHECK(strstr(rig_json(s), "signal 11") != NULL);
	CHECK_INT(sandbox_state(other), SANDBOX_RUNNING);
	fake_broker_end(&rig.broker, sandbox_id(other), 0);
	UNTIL(&rig.broker, sandbox_state(other) == SANDBOX_STOPPED);
	CHECK(strstr(rig_json(other), "\"cause\":\"exited\"") != NULL);
	rig_stop(&rig);
}

TEST(a_restart_finds_the_living_and_closes_the_books_of_the_dead)
{
	struct sandbox *s;
	char alive[64], dead[64], stopped[64];
	struct fake_agent *a;

	rig_start(&rig);
	(void)snprintf(alive, sizeof(alive), "%s", sandbox_id(rig_create(&rig, "alive")));
	(void)snprintf(dead, sizeof(dead), "%s", sandbox_id(rig_create(&rig, "dead")));
	s = rig_create(&rig, NULL);
	(void)snprintf(stopped, sizeof(stopped), "%s", sandbox_id(s));
	rig_delete(&rig, s);
	rig_go_away(&rig);
	a = fake_agent_find(&rig.broker, dead);
	fake_agent_hang_up(a);
	(void)snprintf(a->id, sizeof(a->id), "sb_%s", "strayaaaaaaaaaaaaaaaaaaaaa");
	rig_come_back(&rig);
	UNTIL(&rig.broker, fake_agent_find(&rig.broker, "sb_strayaaaaaaaaaaaaaaaaaaaaa") == NULL);
	s = sandbox_find(rig.fleet, "prj_test", "alive");
	CHECK_STR(sandbox_id(s), alive);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	CHECK_INT(fake_agent_only(&rig.broker)->hellos, 2);
	s = sandbox_find(rig.fleet, "prj_test", dead);
	CHECK_INT(sandbox_state(s), SANDBOX_FAILED);
	CHECK(strstr(rig_json(s), "while the daemon was away") != NULL);
	CHECK_INT(sandbox_state(sandbox_find(rig.fleet, "prj_test", stopped)), SANDBOX_STOPPED);
	CHECK_INT(fleet_count(rig.fleet), 1);
	rig_stop(&rig);
}

TEST(a_restart_undoes_a_create_and_finishes_a_delete)
{
	struct sandbox_spec creating = {.name = "creating"}, starting = {.name = "starting"};
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, "leaving");
	rig.broker.holds_deletes = true;
	sandbox_delete(s, END_DELETED, NULL, NULL);
	rig.broker.next_hello = HELLO_SILENT;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &starting, rig_note, NULL, NULL), 0);
	UNTIL(&rig.broker, rig.broker.creates == 2);
	rig.broker.create = CREATE_UNANSWERED;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &creating, rig_note, NULL, NULL), 0);
	UNTIL(&rig.broker, rig.broker.creates == 3);
	rig_go_away(&rig);
	rig.broker.holds_deletes = false;
	rig_come_back(&rig);
	UNTIL(&rig.broker, fleet_count(rig.fleet) == 0);
	CHECK(fake_agent_only(&rig.broker) == NULL);
	CHECK_INT(rows(), 1); /* those that nobody ever saw have no record */
	rig_stop(&rig);
}

TEST(a_silent_agent_does_not_keep_the_fleet_from_starting)
{
	rig_start(&rig);
	(void)rig_create(&rig, "silent");
	fake_agent_only(&rig.broker)->hello = HELLO_SILENT;
	rig_go_away(&rig);
	rig.is_hasty = true;
	rig_come_back(&rig); /* waits until it is ready */
	UNTIL(&rig.broker, fleet_count(rig.fleet) == 0);
	rig_stop(&rig);
}

TEST(a_lost_connection_is_made_anew)
{
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	fake_agent_hang_up(fake_agent_only(&rig.broker));
	UNTIL(&rig.broker, fake_agent_only(&rig.broker)->hellos == 2);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	CHECK_INT(rig.broker.connects, 1);
	rig_stop(&rig);
}

TEST(an_agent_that_always_hangs_up_is_given_up)
{
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	fake_agent_only(&rig.broker)->hello = HELLO_HANG_UP;
	fake_agent_hang_up(fake_agent_only(&rig.broker));
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_FAILED);
	CHECK(strstr(rig_json(s), "\"cause\":\"guest_crash\"") != NULL);
	rig_stop(&rig);
}

TEST(ended_sandboxes_survive_a_restart_in_order)
{
	struct sandbox_filter filter = {.project_id = "prj_test", .state = "stopped", .limit = 9};
	char text[16] = "";
	bool has_more;

	rig_start(&rig);
	rig_delete(&rig, rig_create(&rig, "x"));
	rig_delete(&rig, rig_create(&rig, "y"));
	rig_go_away(&rig);
	rig_come_back(&rig);
	CHECK_INT(fleet_list(rig.fleet, &filter, add_name, text, &has_more), 2);
	CHECK_STR(text, "yx");
	rig_stop(&rig);
}

TEST(a_create_of_a_vm_is_waited_for_longer_than_the_broker_gives_it)
{
	const uint64_t second = 1000000, hour = 3600 * second;
	struct msg_request req = {.op = MSG_CREATE,
	                          .create.engine = engine_find_name("vm")->number};

	/* By KVM a quarter of the time, then emulated all of it, each with ten seconds of grace. */
	CHECK(broker_client_patience_us(&req, hour) > hour / 4 + hour + 20 * second);
	CHECK(broker_client_patience_us(&req, second) > 20 * second);
	req.create.engine = ENGINE_BASE;
	CHECK(broker_client_patience_us(&req, hour) < hour);
}
