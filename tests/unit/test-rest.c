// SPDX-License-Identifier: Apache-2.0
/* Sandboxes at rest: paused, stopped, kept over restarts, resumed; and the clocks that lead there.
 */
#include "base/clock.h"
#include "base/units.h"
#include "sandbox-rig.h"
#include "sandbox/model/phase.h"

static struct rig rig;

static struct sandbox *create(const struct sandbox_spec *spec)
{
	struct outcome o = {0};
	struct err err = {0};

	if (sandbox_create(rig.fleet, "prj_test", spec, rig_note, &o, &err) < 0)
		CHECK_STR(err.message, "");
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_STR(o.err.message, "");
	return o.s;
}

static struct sandbox *create_kept(const char *name)
{
	struct sandbox_spec spec = {.name = name, .is_persistent = true};

	return create(&spec);
}

static struct outcome ask(struct sandbox *s, int (*fn)(struct sandbox *s, sandbox_done_fn done,
                                                       void *arg, struct err *err))
{
	struct outcome o = {0};

	if (fn(s, rig_note, &o, &o.err) == 0) {
		CHECK_INT(o.calls, 0);
		UNTIL(&rig.broker, o.calls > 0);
	}
	return o;
}

static struct sandbox *find(const char *name)
{
	return sandbox_find(rig.fleet, "prj_test", name);
}

static bool has(struct sandbox *s, const char *part)
{
	if (strstr(rig_json(s), part))
		return true;
	print_error("%s\n", rig_json(s));
	return false;
}

/* Every phase that a way leads to from this one. */
static unsigned reach(enum sandbox_phase from, unsigned seen)
{
	for (enum sandbox_phase to = 0; to < PHASE_COUNT; to++)
		if (phase_move(from, to) && !(seen & BIT(to)))
			seen = reach(to, seen | BIT(to));
	return seen;
}

TEST(a_sandbox_gets_into_every_phase_and_from_each_to_its_end)
{
	CHECK_INT(reach(PHASE_STARTING, 0), BIT(PHASE_COUNT) - 1);
	for (enum sandbox_phase p = 0; p < PHASE_COUNT; p++) {
		CHECK(phase_move(p, p) == NULL);
		CHECK(reach(p, BIT(p)) & BIT(PHASE_STOPPED));
	}
}

TEST(a_paused_sandbox_stands_still_refuses_calls_and_goes_on)
{
	struct exec_spec spec = {.shell = "true"};
	struct err err = {0};
	struct sandbox *s;
	struct exec *e;

	rig_start(&rig);
	s = rig_create(&rig, "p");
	CHECK(ask(s, sandbox_pause).s == s);
	CHECK_INT(sandbox_state(s), SANDBOX_PAUSED);
	CHECK(rig.broker.is_frozen);
	CHECK(has(s, "\"expires_us\":null"));
	CHECK(exec_start(s, &spec, &e, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(err.hint[0] != '\0');
	CHECK(!sandbox_wakes_by_call(s));
	CHECK(ask(s, sandbox_pause).s == s); /* twice is fine */
	CHECK(ask(s, sandbox_resume).s == s);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	CHECK(!rig.broker.is_frozen);
	CHECK(ask(s, sandbox_resume).s == s);
	CHECK(rig_exec(&rig, s, "true", false) != NULL);
	rig_stop(&rig);
}

TEST(a_resume_during_a_pause_waits_for_it_and_wins)
{
	struct outcome paused = {0}, resumed = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	CHECK_INT(sandbox_pause(s, rig_note, &paused, NULL), 0);
	CHECK_INT(sandbox_state(s), SANDBOX_PAUSING);
	CHECK_INT(sandbox_resume(s, rig_note, &resumed, NULL), 0);
	UNTIL(&rig.broker, paused.calls && resumed.calls);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	CHECK_INT(rig.broker.freezes, 2);
	rig_stop(&rig);
}

TEST(a_host_that_cannot_freeze_says_so_and_the_sandbox_runs_on)
{
	struct outcome o;
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	rig.broker.refuses_freeze = true;
	o = ask(s, sandbox_pause);
	CHECK_INT(o.err.code, ERR_UNSUPPORTED);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_RUNNING);
	rig_stop(&rig);
}

TEST(a_pause_whose_broker_dies_is_undone_by_the_next)
{
	struct outcome o = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, "frozen");
	rig.broker.ignores_freeze = true;
	CHECK_INT(sandbox_pause(s, rig_note, &o, NULL), 0);
	fake_broker_die(&rig.broker);
	UNTIL(&rig.broker, o.calls);
	CHECK_INT(o.err.code, ERR_UNAVAILABLE);
	rig.broker.ignores_freeze = false;
	rig.broker.is_frozen = true; /* it had done it, and died before it said so */
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = find("frozen");
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_RUNNING);
	CHECK(!rig.broker.is_frozen);
	rig_stop(&rig);
}

TEST(a_paused_sandbox_can_be_deleted_and_its_guest_can_die)
{
	struct outcome resumed = {0};
	struct sandbox *a, *b;

	rig_start(&rig);
	a = rig_create(&rig, NULL);
	b = rig_create(&rig, NULL);
	(void)ask(a, sandbox_pause);
	(void)ask(b, sandbox_pause);
	CHECK_INT(sandbox_resume(a, rig_note, &resumed, NULL), 0);
	rig_delete(&rig, a);
	CHECK_INT(resumed.calls, 1);
	CHECK_INT(resumed.err.code, ERR_GONE);
	fake_broker_end(&rig.broker, sandbox_id(b), 9);
	UNTIL(&rig.broker, sandbox_state(b) == SANDBOX_FAILED);
	rig_stop(&rig);
}

TEST(a_restart_finds_the_paused_and_undoes_a_pause_under_way)
{
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, "paused");
	(void)ask(s, sandbox_pause);
	rig_go_away(&rig);
	rig.broker.is_frozen = false; /* as if a resume had been under way */
	rig_come_back(&rig);
	s = find("paused");
	CHECK_INT(sandbox_state(s), SANDBOX_PAUSED);
	UNTIL(&rig.broker, rig.broker.is_frozen);
	CHECK(ask(s, sandbox_resume).s == s);
	rig.broker.ignores_freeze = true;
	CHECK_INT(sandbox_pause(s, NULL, NULL, NULL), 0);
	fake_turn(&rig.broker);
	rig_go_away(&rig);
	rig.broker.ignores_freeze = false;
	rig.broker.is_frozen = true;
	rig_come_back(&rig);
	s = find("paused");
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_RUNNING);
	UNTIL(&rig.broker, !rig.broker.is_frozen);
	rig_stop(&rig);
}

TEST(a_stop_ends_any_sandbox_and_keeps_the_files_of_a_persistent_one)
{
	struct outcome o;
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, "plain");
	CHECK(ask(s, sandbox_stop).s == s);
	CHECK_INT(sandbox_state(s), SANDBOX_STOPPED);
	CHECK(has(s, "\"cause\":\"stopped\""));
	CHECK(find("plain") == NULL);
	o = ask(s, sandbox_resume);
	CHECK_INT(o.err.code, ERR_GONE);
	o = ask(s, sandbox_stop);
	CHECK_INT(o.err.code, ERR_GONE);
	CHECK_INT(fake_kept(&rig.broker), 0);

	s = create_kept("kept");
	CHECK(ask(s, sandbox_stop).s == s);
	CHECK_INT(sandbox_state(s), SANDBOX_STOPPED);
	CHECK(find("kept") == s);
	CHECK_INT(fake_kept(&rig.broker), 1);
	CHECK(ask(s, sandbox_stop).s == s);
	CHECK_INT(fleet_count(rig.fleet), 0);
	rig_stop(&rig);
}

TEST(a_persistent_sandbox_is_resumed_under_its_name_and_tells_how_often)
{
	struct sandbox *s;
	char id[64];

	rig_start(&rig);
	s = create_kept("kept");
	(void)snprintf(id, sizeof(id), "%s", sandbox_id(s));
	CHECK(has(s, "\"resumes\":0"));
	(void)rig_exec(&rig, s, "true", false);
	(void)ask(s, sandbox_stop);
	CHECK(sandbox_wakes_by_call(s));
	CHECK(ask(s, sandbox_resume).s == s);
	CHECK(rig.broker.was_resumed);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	CHECK_STR(sandbox_id(s), id);
	CHECK(has(s, "\"resumes\":1"));
	CHECK(has(s, "\"ended\":null"));
	CHECK(rig_exec(&rig, s, "true", false) != NULL);
	CHECK_INT(fleet_count(rig.fleet), 1);
	rig_stop(&rig);
}

TEST(any_number_of_calls_make_one_resume_also_while_it_is_stopping)
{
	struct outcome o[5] = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("kept");
	CHECK_INT(sandbox_stop(s, NULL, NULL, NULL), 0);
	for (size_t i = 0; i < 5; i++)
		CHECK_INT(sandbox_resume(s, rig_note, &o[i], NULL), 0);
	UNTIL(&rig.broker, o[4].calls > 0);
	for (size_t i = 0; i < 5; i++) {
		CHECK_INT(o[i].calls, 1);
		CHECK(o[i].s == s);
	}
	CHECK_INT(rig.broker.creates, 2);
	rig_stop(&rig);
}

TEST(kept_files_outlive_restarts_of_daemon_and_machine)
{
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("stopped");
	(void)ask(s, sandbox_stop);
	(void)create_kept("running");
	rig_go_away(&rig);
	rig_come_back(&rig);
	CHECK_INT(sandbox_state(find("stopped")), SANDBOX_STOPPED);
	CHECK_INT(sandbox_state(find("running")), SANDBOX_RUNNING);
	rig_go_away(&rig);
	fake_broker_reboot(&rig.broker);
	rig_come_back(&rig);
	s = find("running");
	CHECK_INT(fleet_count(rig.fleet), 0);
	CHECK_INT(fake_kept(&rig.broker), 2);
	CHECK(sandbox_is_resting(s));
	CHECK(ask(s, sandbox_resume).s == s);
	CHECK(ask(find("stopped"), sandbox_resume).s == find("stopped"));
	CHECK_INT(fake_kept(&rig.broker), 0);
	rig_stop(&rig);
}

TEST(a_crash_of_the_guest_leaves_the_files_to_be_resumed)
{
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("crashed");
	fake_broker_end(&rig.broker, sandbox_id(s), 11);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_FAILED);
	CHECK_INT(rig.broker.stops, 1);
	CHECK(ask(s, sandbox_resume).s == s);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	rig_stop(&rig);
}

TEST(a_delete_removes_what_was_kept_in_any_state)
{
	struct outcome o = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("a");
	(void)ask(s, sandbox_stop);
	rig_delete(&rig, s);
	CHECK_INT(fake_kept(&rig.broker), 0);
	CHECK(has(s, "\"cause\":\"deleted\""));
	CHECK(find("a") == NULL);
	rig_delete(&rig, s); /* now it is only a record */
	rig_delete(&rig, create_kept("b"));
	CHECK_INT(fake_kept(&rig.broker), 0);

	s = create_kept("c");
	rig.broker.holds_deletes = true;
	CHECK_INT(sandbox_stop(s, NULL, NULL, NULL), 0);
	UNTIL(&rig.broker, rig.broker.held_tag > 0);
	sandbox_delete(s, END_DELETED, rig_note, &o);
	fake_broker_release(&rig.broker);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_INT(fake_kept(&rig.broker), 0);
	CHECK(has(s, "\"cause\":\"deleted\"")); /* though the stop came first */
	CHECK(find("c") == NULL);
	rig_stop(&rig);
}

TEST(a_restart_finishes_a_delete_and_undoes_a_create_of_a_persistent_one)
{
	struct sandbox_spec creating = {.name = "creating", .is_persistent = true};
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("deleted");
	(void)ask(s, sandbox_stop);
	rig.broker.holds_deletes = true;
	sandbox_delete(s, END_DELETED, NULL, NULL);
	rig.broker.next_hello = HELLO_SILENT;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &creating, rig_note, NULL, NULL), 0);
	UNTIL(&rig.broker, rig.broker.creates == 2);
	rig_go_away(&rig);
	rig.broker.holds_deletes = false;
	rig_come_back(&rig);
	UNTIL(&rig.broker, fleet_count(rig.fleet) == 0 && fake_kept(&rig.broker) == 0);
	CHECK(fake_agent_only(&rig.broker) == NULL);
	CHECK(find("deleted") == NULL);
	CHECK(find("creating") == NULL);
	rig_stop(&rig);
}

TEST(a_create_of_a_persistent_one_that_the_brokers_death_failed_is_gone_at_the_next_start)
{
	struct sandbox_spec spec = {.name = "failed", .is_persistent = true};
	struct outcome o = {0};

	rig_start(&rig);
	rig.broker.create = CREATE_UNANSWERED;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, rig.broker.creates > 0);
	fake_broker_die(&rig.broker);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_INT(o.err.code, ERR_UNAVAILABLE);
	rig_go_away(&rig);
	rig.broker.create = CREATE_WELL;
	rig_come_back(&rig);
	UNTIL(&rig.broker, find("failed") == NULL);
	CHECK_INT(fake_kept(&rig.broker), 0);
	rig_stop(&rig);
}

TEST(a_layer_of_this_store_without_a_record_goes_and_one_of_another_stays)
{
	rig_start(&rig);
	rig_go_away(&rig);
	CHECK_INT(store_open(rig.db, &rig.store, NULL), 0);
	rig.broker.kept[0].keeper = store_number(rig.store);
	rig.broker.kept[1].keeper = store_number(rig.store) + 1;
	store_close(rig.store);
	(void)snprintf(rig.broker.kept[0].id, ID_SIZE, "sb_ouraaaaaaaaaaaaaaaaaaaaaaa");
	(void)snprintf(rig.broker.kept[1].id, ID_SIZE, "sb_theiraaaaaaaaaaaaaaaaaaaaa");
	rig_come_back(&rig);
	UNTIL(&rig.broker, rig.broker.kept[0].keeper == 0);
	CHECK_INT(fake_kept(&rig.broker), 1);
	rig_stop(&rig);
}

TEST(one_whose_files_are_lost_has_ended)
{
	struct sandbox *s;
	char id[64];

	rig_start(&rig);
	s = create_kept("lost");
	(void)snprintf(id, sizeof(id), "%s", sandbox_id(s));
	(void)ask(s, sandbox_stop);
	rig_go_away(&rig);
	rig.broker.kept[0].keeper = 0;
	rig_come_back(&rig);
	CHECK(find("lost") == NULL);
	s = find(id);
	CHECK_INT(ask(s, sandbox_resume).err.code, ERR_GONE);
	rig_stop(&rig);
}

TEST(a_resume_that_fails_leaves_the_files_and_can_be_tried_again)
{
	struct outcome o;
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("again");
	(void)ask(s, sandbox_stop);
	rig.broker.create = CREATE_REFUSED;
	o = ask(s, sandbox_resume);
	CHECK_INT(o.err.code, ERR_CAPACITY);
	CHECK(find("again") == s);
	CHECK_INT(fake_kept(&rig.broker), 1);
	rig.broker.create = CREATE_WELL;
	CHECK(ask(s, sandbox_resume).s == s);
	rig_stop(&rig);
}

TEST(persistent_sandboxes_have_a_most_running_or_not)
{
	struct sandbox_spec spec = {.is_persistent = true};
	struct err err = {0};
	struct sandbox *s;

	rig_start(&rig);
	s = create_kept("a");
	(void)create_kept("b");
	(void)ask(create_kept("c"), sandbox_stop);
	CHECK(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, NULL, &err) < 0);
	CHECK_INT(err.code, ERR_CAPACITY);
	rig_delete(&rig, s);
	(void)create_kept("d");
	rig_stop(&rig);
}

TEST(when_time_is_up_what_was_asked_for_happens)
{
	static const struct {
		const char *action;
		bool is_persistent;
		enum sandbox_state state;
		size_t kept;
	} rows[] = {
		{NULL, false, SANDBOX_STOPPED, 0},    {NULL, true, SANDBOX_STOPPED, 1},
		{"delete", true, SANDBOX_STOPPED, 0}, {"stop", false, SANDBOX_STOPPED, 0},
		{"pause", false, SANDBOX_PAUSED, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sandbox_spec spec = {.on_timeout = rows[i].action,
		                            .is_persistent = rows[i].is_persistent};
		struct sandbox_patch patch = {.has_timeout = true, .timeout_ms = 1};
		struct sandbox *s;

		rig_start(&rig);
		s = create(&spec);
		CHECK_INT(sandbox_update(s, &patch, NULL, NULL, NULL), 0);
		UNTIL(&rig.broker, sandbox_state(s) == rows[i].state);
		CHECK_INT(fake_kept(&rig.broker), rows[i].kept);
		if (rows[i].state == SANDBOX_STOPPED)
			CHECK(has(s, "\"cause\":\"timeout\",\"detail\":{\"timeout_ms\":1}"));
		rig_stop(&rig);
	}
}

TEST(a_slow_start_takes_nothing_of_the_lifetime)
{
	const struct sandbox_spec spec = {.name = "slow", .timeout_ms = 100};
	struct sandbox_patch soon = {.has_timeout = true, .timeout_ms = 1};
	uint64_t began_us = clock_steady_us();
	struct outcome o = {0};
	struct err err = {0};

	rig_start(&rig);
	rig.broker.create = CREATE_HELD;
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, &err), 0);
	UNTIL(&rig.broker, clock_steady_us() > began_us + 300 * MILLISECOND_US);
	CHECK_INT(o.calls, 0);
	CHECK_INT(sandbox_state(find("slow")), SANDBOX_CREATING);
	CHECK(has(find("slow"), "\"expires_us\":null"));
	CHECK_INT(sandbox_extend(find("slow"), 1000000, &err), 0);
	CHECK(sandbox_extend(find("slow"), 86400000, &err) < 0);
	CHECK_STR(err.field, "ms");
	fake_broker_start_held(&rig.broker);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_STR(o.err.message, "");
	CHECK_INT(sandbox_state(o.s), SANDBOX_RUNNING);
	CHECK(!has(o.s, "\"expires_us\":null"));
	CHECK_INT(sandbox_update(o.s, &soon, NULL, NULL, NULL), 0);
	UNTIL(&rig.broker, sandbox_state(o.s) == SANDBOX_STOPPED);
	rig_stop(&rig);
}

TEST(the_time_of_a_paused_one_runs_on_where_that_was_asked_for)
{
	static const char *const actions[] = {"delete", "stop", "pause"};

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		struct sandbox_spec spec = {
			.on_timeout = actions[i], .is_persistent = true, .counts_paused = true};
		struct sandbox_patch soon = {.has_timeout = true, .timeout_ms = 1};
		struct sandbox *s;

		rig_start(&rig);
		s = create(&spec);
		CHECK(ask(s, sandbox_pause).s == s);
		CHECK(!has(s, "\"expires_us\":null"));
		CHECK_INT(sandbox_extend(s, 1000, NULL), 0);
		CHECK_INT(sandbox_update(s, &soon, NULL, NULL, NULL), 0);
		UNTIL(&rig.broker, has(s, "\"expires_us\":null"));
		if (strcmp(actions[i], "pause") == 0) {
			CHECK_INT(sandbox_state(s), SANDBOX_PAUSED);
			rig_stop(&rig);
			continue;
		}
		UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_STOPPED);
		CHECK(has(s, "\"cause\":\"timeout\""));
		CHECK_INT(fake_kept(&rig.broker), strcmp(actions[i], "stop") == 0 ? 1 : 0);
		rig_stop(&rig);
	}
}

TEST(a_sandbox_in_which_nothing_happens_ends_as_idle_and_a_busy_one_does_not)
{
	struct sandbox_spec spec = {.idle_timeout_ms = 300};
	struct sandbox *idle, *busy;
	struct fake_agent *a;
	struct exec *e;

	rig_start(&rig);
	busy = create(&spec);
	e = rig_exec(&rig, busy, "sleep 100", false);
	idle = create(&spec);
	UNTIL(&rig.broker, sandbox_state(idle) == SANDBOX_STOPPED);
	CHECK(has(idle, "\"cause\":\"idle\",\"detail\":{\"idle_timeout_ms\":300}"));
	CHECK_INT(sandbox_state(busy), SANDBOX_RUNNING);
	a = fake_agent_find(&rig.broker, sandbox_id(busy));
	fake_started(a, fake_channel_last(a));
	fake_exit(a, fake_channel_last(a), EXIT_CODE, 0);
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK_INT(sandbox_state(busy), SANDBOX_RUNNING);
	UNTIL(&rig.broker, sandbox_state(busy) == SANDBOX_STOPPED);
	rig_stop(&rig);
}

TEST(a_lifetime_is_extended_up_to_the_most_and_survives_a_restart)
{
	struct sandbox_spec spec = {.name = "long", .timeout_ms = 1000000};
	struct err err = {0};
	struct sandbox *s;
	char before[512], *at;

	rig_start(&rig);
	s = create(&spec);
	CHECK_INT(sandbox_extend(s, 5000000, &err), 0);
	CHECK(sandbox_extend(s, 86400000, &err) < 0);
	CHECK_STR(err.field, "ms");
	at = strstr(rig_json(s), "\"expires_us\"");
	(void)snprintf(before, 22, "%s", at); /* down to the second */
	rig_go_away(&rig);
	rig_come_back(&rig);
	CHECK(has(find("long"), before));
	(void)ask(find("long"), sandbox_pause);
	CHECK(sandbox_extend(find("long"), 1, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	rig_stop(&rig);
}

TEST(a_patch_changes_name_and_environment_also_of_one_that_is_kept)
{
	json_t *env = json_pack("{s:s}", "A", "b");
	struct sandbox_patch patch = {.name = "new",
	                              .env = env,
	                              .has_limits = true,
	                              .limits.pids = 99,
	                              .has_idle_timeout = true,
	                              .idle_timeout_ms = 5};
	struct sandbox_patch taken = {.name = "new"};
	struct outcome o = {0};
	struct err err = {0};
	struct sandbox *s, *other;

	rig_start(&rig);
	s = create_kept("old");
	other = rig_create(&rig, "other");
	(void)ask(s, sandbox_stop);
	CHECK_INT(sandbox_update(s, &patch, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK(find("new") == s);
	CHECK(find("old") == NULL);
	CHECK(has(s, "\"env_names\":[\"A\"]"));
	CHECK(sandbox_update(other, &taken, rig_note, &o, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	patch = (struct sandbox_patch){.has_idle_timeout = true};
	CHECK_INT(sandbox_update(s, &patch, NULL, NULL, NULL), 0);
	(void)ask(s, sandbox_resume);
	CHECK_INT(rig.broker.limits.pids, 99);
	json_decref(env);
	rig_stop(&rig);
}

static void set_flag(struct loop *loop, void *arg)
{
	(void)loop;
	*(bool *)arg = true;
}

TEST(deleting_all_stops_the_persistent_ones)
{
	bool is_done = false;

	rig_start(&rig);
	(void)create_kept("kept");
	(void)rig_create(&rig, "gone");
	fleet_delete_all(rig.fleet, set_flag, &is_done);
	UNTIL(&rig.broker, is_done);
	CHECK_INT(fake_kept(&rig.broker), 1);
	CHECK(find("gone") == NULL);
	CHECK(find("kept") != NULL);
	rig_stop(&rig);
}

static struct exec *run_to(struct sandbox *s, enum exit_how how, uint32_t value)
{
	struct exec *e = rig_exec(&rig, s, "x", false);
	struct fake_agent *a = fake_agent_find(&rig.broker, sandbox_id(s));

	fake_started(a, fake_channel_last(a));
	fake_output(a, fake_channel_last(a), STREAM_STDOUT, "last words", 10);
	fake_exit(a, fake_channel_last(a), how, value);
	UNTIL(&rig.broker, exec_is_over(e));
	return e;
}

static bool exec_has(const struct exec *e, const char *part)
{
	if (strstr(rig_exec_json(e), part))
		return true;
	print_error("%s\n", rig_exec_json(e));
	return false;
}

static void check_cause(struct sandbox *s, enum exit_how how, uint32_t value, const char *part)
{
	struct exec *e = run_to(s, how, value);

	CHECK(exec_has(e, part));
	exec_remove(e);
}

TEST(a_failed_exec_has_the_limit_that_it_met_as_its_cause_with_the_figures)
{
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	check_cause(s, EXIT_CODE, 3, "\"cause\":\"exited\",\"detail\":{\"exit_code\":3}");
	rig.broker.pids_refused = 5;
	check_cause(s, EXIT_CODE, 0, "\"cause\":\"exited\"");
	rig.broker.pids_refused = 7;
	check_cause(s, EXIT_CODE, 1, "\"cause\":\"pids\",\"detail\":{\"limit\":64,\"refused\":7}");
	check_cause(s, EXIT_CODE, 1, "\"cause\":\"exited\"");
	rig.broker.disk_bytes = 64 << 20;
	check_cause(s, EXIT_CODE, 1,
	            "\"cause\":\"disk_full\",\"detail\":{\"limit_bytes\":"
	            "67108864,\"used_bytes\":67108864}");
	rig.broker.left_bytes =
		8 << 20; /* a vm whose host has not got the removed files' room yet */
	check_cause(s, EXIT_CODE, 1, "\"cause\":\"exited\"");
	rig.broker.left_bytes = 1;
	check_cause(s, EXIT_CODE, 1, "\"cause\":\"disk_full\"");
	rig.broker.left_bytes = 0;
	rig.broker.disk_bytes = 1 << 20;
	rig.broker.oom_kills = 2;
	check_cause(s, EXIT_SIGNAL, 9, "\"cause\":\"oom\",\"detail\":{\"limit_bytes\":67108864,");
	check_cause(s, EXIT_SIGNAL, 9, "\"cause\":\"killed\"");
	rig_stop(&rig);
}

TEST(output_of_what_ended_stays_readable_over_a_restart_until_it_is_forgotten)
{
	struct sandbox_patch soon = {.has_timeout = true, .timeout_ms = 1};
	struct sandbox *s;
	char id[64], exec[64], *text;
	struct exec *e;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	(void)snprintf(id, sizeof(id), "%s", sandbox_id(s));
	(void)snprintf(exec, sizeof(exec), "%s", exec_id(run_to(s, EXIT_CODE, 0)));
	e = rig_exec(&rig, s, "sleep", false);
	fake_started(fake_agent_only(&rig.broker), fake_channel_last(fake_agent_only(&rig.broker)));
	CHECK_INT(sandbox_update(s, &soon, NULL, NULL, NULL), 0);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_STOPPED);
	CHECK(exec_has(e, "\"cause\":\"timeout\",\"detail\":{\"timeout_ms\":1}"));
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = find(id);
	text = rig_output(exec_find(s, exec), SPOOL_STDOUT);
	CHECK_STR(text, "last words");
	free(text);
	CHECK(rig_spools(&rig) > 0);
	rig_delete(&rig, s); /* forgets it */
	fake_turn(&rig.broker);
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(a_delete_takes_the_output_at_once)
{
	struct sandbox *s;

	rig_start(&rig);
	s = rig_create(&rig, NULL);
	(void)run_to(s, EXIT_CODE, 0);
	rig_delete(&rig, s);
	fake_turn(&rig.broker);
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(the_oldest_that_ended_is_forgotten_when_output_takes_too_much)
{
	struct sandbox *a, *b;
	char first[64];

	rig.ended_bytes_max = 2 * 1024;
	rig_start(&rig);
	a = rig_create(&rig, NULL);
	(void)snprintf(first, sizeof(first), "%s", sandbox_id(a));
	b = rig_create(&rig, NULL);
	(void)run_to(a, EXIT_CODE, 0);
	(void)run_to(b, EXIT_CODE, 0);
	(void)ask(a, sandbox_stop);
	CHECK(find(first) == a);
	(void)ask(b, sandbox_stop);
	UNTIL(&rig.broker, find(first) == NULL);
	CHECK(find(sandbox_id(b)) == b);
	rig.ended_bytes_max = 0;
	rig_stop(&rig);
}
