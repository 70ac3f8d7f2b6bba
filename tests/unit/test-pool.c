// SPDX-License-Identifier: Apache-2.0
/* Spares: how many there are, who gets one, and that none is left. */
#include "sandbox-rig.h"
#include "sandbox/code/code_call.h"

#include <signal.h>
#include <string.h>

static struct rig rig;

static struct pool_figures figures(void)
{
	struct pool_figures f;

	fleet_pool(rig.fleet, &f);
	return f;
}

static void start(uint32_t min, uint32_t max)
{
	rig.sandboxes_max = 0;
	rig.pool_min = min;
	rig.pool_max = max;
	rig_start(&rig);
}

/* With room for a burst, and all spares that it is to have. */
static void start_wide(uint32_t min, uint32_t max)
{
	rig.sandboxes_max = 100;
	rig.pool_min = min;
	rig.pool_max = max;
	rig_start(&rig);
	UNTIL(&rig.broker, figures().ready == min);
}

/* With all spares that it is to have. */
static void start_full(uint32_t min, uint32_t max)
{
	start(min, max);
	UNTIL(&rig.broker, figures().ready == min);
}

static int count_row(const struct sandbox_row *row, void *arg)
{
	(void)row;
	(*(size_t *)arg)++;
	return 0;
}

static size_t rows(void)
{
	size_t n = 0;

	CHECK_INT(store_each_sandbox(rig.store, count_row, &n, NULL), 0);
	return n;
}

static size_t agents(void)
{
	size_t n = 0;

	list_for_each (&rig.broker.agents, struct fake_agent, a, link)
		n++;
	return n;
}

static void ask_for(const char *project_id, struct outcome *o, const struct sandbox_spec *spec)
{
	struct err err = {0};

	*o = (struct outcome){0};
	if (sandbox_create(rig.fleet, project_id, spec, rig_note, o, &err) < 0)
		CHECK_STR(err.message, "");
}

static void ask(struct outcome *o, const struct sandbox_spec *spec)
{
	ask_for("prj_test", o, spec);
}

static void turn_some(void)
{
	for (int i = 0; i < 50; i++)
		fake_turn(&rig.broker);
}

static void count_sandbox(struct sandbox *s, void *arg)
{
	(void)s;
	(*(size_t *)arg)++;
}

static void on_done(struct loop *loop, void *arg)
{
	(void)loop;
	*(bool *)arg = true;
}

TEST(spares_are_ready_before_they_are_asked_for_and_are_nobodys)
{
	const struct sandbox_filter all = {.project_id = "prj_test", .limit = 10};
	const struct sandbox_filter none = {.project_id = "", .limit = 10};
	struct fake_agent *a;
	size_t n = 0;
	bool more;

	start_full(2, 4);
	CHECK_INT(rig.broker.creates, 2);
	CHECK_INT(figures().target, 2);
	CHECK_INT(fleet_count(rig.fleet), 0);
	CHECK_INT(rows(), 0);
	CHECK_INT(fleet_list(rig.fleet, &all, count_sandbox, &n, &more), 0);
	CHECK_INT(fleet_list(rig.fleet, &none, count_sandbox, &n, &more), 0);
	a = fake_agent_only(&rig.broker);
	CHECK(sandbox_find(rig.fleet, "prj_test", a->id) == NULL);
	CHECK(sandbox_find(rig.fleet, "", a->id) == NULL);
	rig_stop(&rig);
}

TEST(spares_are_made_in_no_hurry_once_half_of_them_are_there)
{
	start_full(4, 4);
	CHECK_INT(rig.broker.creates, 4);
	CHECK_INT(rig.broker.n_ahead, 2);
	rig_stop(&rig);
}

TEST(a_create_takes_a_spare_and_another_is_made_behind_it)
{
	struct sandbox_spec spec = {.tags = json_pack("{s:s}", "for", "me"), .timeout_ms = 5000};
	struct fake_agent *oldest;
	struct outcome o;

	start_full(2, 4);
	oldest = fake_agent_only(&rig.broker);
	rig.broker.create = CREATE_UNANSWERED; /* so this is not how it comes to be */
	ask(&o, &spec);
	CHECK_INT(o.calls, 0); /* never from inside the call */
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_STR(o.err.message, "");
	CHECK_STR(sandbox_id(o.s), oldest->id);
	CHECK_INT(sandbox_state(o.s), SANDBOX_RUNNING);
	CHECK(strstr(rig_json(o.s), "\"tags\":{\"for\":\"me\"}") != NULL);
	CHECK(strstr(rig_json(o.s), "\"timeout_ms\":5000") != NULL);
	CHECK(strstr(rig_json(o.s), "\"engine\":\"jail\"") != NULL);
	CHECK(sandbox_find(rig.fleet, "prj_test", oldest->id) == o.s);
	CHECK_INT(rows(), 1);
	CHECK_INT(fleet_count(rig.fleet), 1);
	CHECK_INT(figures().hits, 1);
	UNTIL(&rig.broker, rig.broker.creates == 3);
	json_decref(unconst(spec.tags));
	rig_stop(&rig);
}

TEST(a_create_that_no_spare_fits_goes_its_own_way)
{
	struct sandbox_spec small = {.limits.memory_bytes = 32 << 20};
	struct sandbox *named;
	struct outcome o;

	start_full(1, 4);
	named = rig_create(&rig, "web");
	CHECK(strstr(rig_json(named), "\"name\":\"web\"") != NULL);
	CHECK_INT(rig.broker.creates, 2);
	CHECK_INT(figures().ready, 1);
	CHECK_INT(figures().misses, 0); /* none could have been there */
	ask(&o, &small);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_INT(figures().misses, 1);
	CHECK_INT(rig.broker.limits.memory_bytes, 32 << 20);
	CHECK_INT(figures().ready, 1);
	rig_stop(&rig);
}

TEST(a_size_that_is_asked_for_again_and_again_gets_spares_too)
{
	struct sandbox_spec small = {.limits.memory_bytes = 32 << 20};
	struct outcome o;

	start_full(0, 4);
	for (int i = 0; i < 3; i++) {
		ask(&o, &small);
		UNTIL(&rig.broker, o.calls > 0);
		rig_delete(&rig, o.s);
	}
	UNTIL(&rig.broker, figures().ready > 0);
	CHECK_INT(rig.broker.limits.memory_bytes, 32 << 20);
	ask(&o, &small);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_INT(figures().hits, 1);
	rig_stop(&rig);
}

TEST(a_burst_is_served_by_spares_and_then_directly)
{
	struct sandbox_spec spec = {0};
	struct outcome o[5];
	struct err err = {0};

	start_full(2, 4);
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		ask(&o[i], &spec);
	CHECK(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, NULL, &err) < 0);
	CHECK_INT(err.code, ERR_CAPACITY); /* the rig's most */
	for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
		UNTIL(&rig.broker, o[i].calls > 0);
		CHECK_STR(o[i].err.message, "");
	}
	CHECK_INT(figures().hits, 2);
	CHECK_INT(figures().misses, 3);
	CHECK_INT(fleet_count(rig.fleet), 5);
	rig_stop(&rig);
}

TEST(creates_that_wait_come_before_spares)
{
	struct sandbox_spec spec = {.name = "first"};
	struct outcome o;

	start(0, 4);
	rig.broker.create = CREATE_UNANSWERED;
	ask(&o, &spec);
	spec.name = NULL;
	ask(&o, &spec);
	for (int i = 0; i < 50; i++)
		fake_turn(&rig.broker);
	CHECK_INT(rig.broker.creates, 2);
	CHECK_INT(figures().target, 1);
	rig_stop(&rig);
}

TEST(spares_make_room_for_sandboxes)
{
	static const char *const names[] = {"a", "b", "c", "d", "e"};

	start_full(3, 4);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)rig_create(&rig, names[i]);
	CHECK_INT(fleet_count(rig.fleet), 5);
	UNTIL(&rig.broker, figures().ready == 0 && agents() == 5);
	CHECK_INT(figures().target, 0);
	rig_delete(&rig, sandbox_find(rig.fleet, "prj_test", "a"));
	UNTIL(&rig.broker, figures().ready == 1);
	rig_stop(&rig);
}

TEST(spares_are_bounded_by_the_memory_that_they_use)
{
	start_full(4, 4); /* each was taken for the least, of 64 MiB */
	rig.broker.memory_bytes = 20 << 20;
	rig_delete(&rig, rig_create(&rig, NULL));
	UNTIL(&rig.broker, figures().target == 3 && figures().ready == 3);
	rig_stop(&rig);
}

TEST(demand_raises_the_target_and_its_end_brings_it_back_to_the_floor)
{
	struct sandbox_spec spec = {0};
	struct outcome o[3];

	rig.is_hasty = true;
	start_full(1, 2);
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		ask(&o[i], &spec);
	UNTIL(&rig.broker, figures().target > 1);
	for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
		UNTIL(&rig.broker, o[i].calls > 0);
		rig_delete(&rig, o[i].s);
	}
	UNTIL(&rig.broker, figures().target == 1 && figures().ready == 1 && agents() == 1);
	CHECK_INT(fleet_count(rig.fleet), 0);
	rig_stop(&rig);
}

TEST(a_spare_that_dies_is_dropped_and_replaced)
{
	char id[ID_SIZE];

	rig.is_hasty = true;
	start_full(1, 4);
	memcpy(id, fake_agent_only(&rig.broker)->id, sizeof(id));
	fake_broker_end(&rig.broker, id, SIGKILL);
	UNTIL(&rig.broker, figures().ready == 0);
	UNTIL(&rig.broker, figures().ready == 1);
	CHECK(strcmp(fake_agent_only(&rig.broker)->id, id) != 0);
	memcpy(id, fake_agent_only(&rig.broker)->id, sizeof(id));
	fake_agent_hang_up(fake_agent_only(&rig.broker));
	UNTIL(&rig.broker, figures().ready == 0);
	UNTIL(&rig.broker, figures().ready == 1);
	CHECK(strcmp(fake_agent_only(&rig.broker)->id, id) != 0);
	CHECK_INT(rows(), 0);
	CHECK_INT(agents(), 1);
	rig_stop(&rig);
}

TEST(fills_that_fail_wait_longer_each_time_and_stop_no_create)
{
	struct sandbox *s;
	unsigned tries;

	start_full(2, 4);
	list_for_each (&rig.broker.agents, struct fake_agent, a, link)
		fake_broker_end(&rig.broker, a->id, SIGKILL);
	UNTIL(&rig.broker, rig.broker.deletes == 2);
	for (int i = 0; i < 200; i++)
		fake_turn(&rig.broker);
	CHECK_INT(rig.broker.creates, 2); /* the next is due in a second or two */
	CHECK_INT(agents(), 0);
	s = rig_create(&rig, NULL);
	CHECK_INT(figures().misses, 1);
	rig_delete(&rig, s);
	rig_stop(&rig);

	rig.is_hasty = true;
	start_full(1, 4);
	rig.broker.create = CREATE_REFUSED;
	(void)rig_create(&rig, NULL);
	UNTIL(&rig.broker, rig.broker.creates > 3);
	tries = rig.broker.creates;
	rig.broker.create = CREATE_WELL;
	UNTIL(&rig.broker, figures().ready == 1);
	CHECK_INT(rig.broker.creates, tries + 1);
	rig_stop(&rig);
}

TEST(a_gateway_that_dies_with_a_full_pool_leaves_no_spare)
{
	char ids[2][ID_SIZE];
	size_t n = 0;

	start_full(2, 4);
	list_for_each (&rig.broker.agents, struct fake_agent, a, link)
		memcpy(ids[n++], a->id, ID_SIZE);
	rig_go_away(&rig);
	CHECK_INT(agents(), 2);
	rig_come_back(&rig);
	UNTIL(&rig.broker,
	      !fake_agent_find(&rig.broker, ids[0]) && !fake_agent_find(&rig.broker, ids[1]));
	UNTIL(&rig.broker, figures().ready == 2);
	CHECK_INT(agents(), 2);
	rig_stop(&rig);
}

TEST(a_spare_that_was_taken_is_adopted_by_the_next_gateway)
{
	struct sandbox *s;
	char id[ID_SIZE];

	start_full(1, 1);
	s = rig_create(&rig, NULL);
	CHECK_INT(figures().hits, 1);
	memcpy(id, sandbox_id(s), sizeof(id));
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", id);
	CHECK(s != NULL);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	rig_stop(&rig);
}

TEST(the_end_of_all_sandboxes_ends_spares_too)
{
	bool is_done = false;

	start_full(2, 4);
	(void)rig_create(&rig, "web");
	fleet_delete_all(rig.fleet, on_done, &is_done);
	CHECK(!is_done);
	UNTIL(&rig.broker, is_done);
	CHECK_INT(agents(), 0);
	rig_stop(&rig);
}

TEST(a_daemon_that_leaves_its_sandboxes_leaves_no_spare)
{
	bool is_done = false;

	start_full(2, 4);
	(void)rig_create(&rig, "web");
	rig.broker.create = CREATE_UNANSWERED; /* one more is on its way */
	(void)rig_create(&rig, NULL);
	UNTIL(&rig.broker, rig.broker.creates == 4);
	fleet_close_pool(rig.fleet, on_done, &is_done);
	UNTIL(&rig.broker, is_done);
	CHECK_INT(agents(), 2);
	CHECK_INT(fleet_count(rig.fleet), 2);
	rig_stop(&rig);
}

static void on_end(struct context *c, const struct code_end *end, const struct err *err, void *arg)
{
	(void)c;
	CHECK(err == NULL);
	*(bool *)arg = end->status == CODE_OK && !end->is_restarted;
}

static const struct code_ops code_ops = {.on_end = on_end};

static void say(struct fake_agent *a, const char *text)
{
	fake_output(a, fake_channel_last(a), STREAM_RECORD, text, strlen(text));
}

static struct fake_agent *start_warm(void)
{
	static char python[] = "python";
	static char *languages[] = {python, NULL};
	struct fake_agent *a;

	rig.pool_languages = languages;
	start(1, 1);
	UNTIL(&rig.broker, (a = fake_agent_only(&rig.broker)) && fake_channel_last(a));
	CHECK_INT(fake_channel_last(a)->start.kind, START_FORKED);
	return a;
}

TEST(a_spare_has_its_interpreter_running_for_the_first_call)
{
	const struct code_spec spec = {.code = "1"};
	struct fake_agent *a = start_warm();
	struct fake_channel *warm = fake_channel_last(a);
	struct code_call *call;
	bool is_ok = false;
	struct sandbox *s;

	fake_started(a, warm);
	for (int i = 0; i < 20; i++)
		fake_turn(&rig.broker);
	CHECK_INT(figures().ready, 0); /* not before the interpreter is */
	say(a, "ready 0 2\n{}");
	UNTIL(&rig.broker, figures().ready == 1);
	s = rig_create(&rig, NULL);
	CHECK(context_find(s, "python") == NULL); /* nobody has asked for it */
	CHECK_INT(code_run(s, &spec, &code_ops, &is_ok, &call, NULL), 0);
	CHECK(context_find(s, "python") != NULL);
	UNTIL(&rig.broker, warm->input.len > 0);
	CHECK_STR(buf_str(&warm->input), "run 1 1\n1");
	CHECK(fake_channel_last(a) == warm);
	say(a, "done 1 25\n{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, is_ok);
	rig_stop(&rig);
}

TEST(an_interpreter_that_lacks_the_owners_variables_is_not_used)
{
	struct sandbox_spec spec = {.env = json_pack("{s:s}", "TOKEN", "x")};
	const struct code_spec code = {.code = "1"};
	struct fake_agent *a = start_warm();
	struct fake_channel *warm = fake_channel_last(a);
	struct code_call *call;
	bool is_ok = false;
	struct outcome o;

	fake_started(a, warm);
	say(a, "ready 0 2\n{}");
	UNTIL(&rig.broker, figures().ready == 1);
	ask(&o, &spec);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK_INT(figures().hits, 1);
	CHECK_INT(code_run(o.s, &code, &code_ops, &is_ok, &call, NULL), 0);
	UNTIL(&rig.broker, warm->is_forgotten && fake_channel_last(a) != warm);
	say(a, "ready 0 2\n{}");
	UNTIL(&rig.broker, fake_channel_last(a)->input.len > 0);
	say(a, "done 1 25\n{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, is_ok);
	json_decref(unconst(spec.env));
	rig_stop(&rig);
}

TEST(a_spare_without_the_interpreter_that_it_should_have_is_used_all_the_same)
{
	struct fake_agent *a = start_warm();

	fake_exit(a, fake_channel_last(a), EXIT_FAILED, ENOENT);
	UNTIL(&rig.broker, fake_channel_last(a)->start.kind == START_KERNEL); /* the other way */
	fake_exit(a, fake_channel_last(a), EXIT_FAILED, ENOENT);
	UNTIL(&rig.broker, figures().ready == 1);
	(void)rig_create(&rig, NULL);
	CHECK_INT(figures().hits, 1);
	rig_stop(&rig);
}

TEST(a_burst_of_one_project_leaves_the_broker_to_another)
{
	struct sandbox_spec spec = {0};
	struct outcome a[60], b;
	unsigned sent;

	start_wide(0, 0);
	rig.broker.create = CREATE_UNANSWERED;
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		ask_for("prj_a", &a[i], &spec);
	turn_some();
	sent = rig.broker.creates;
	CHECK(sent >= 2 && sent <= 16); /* the rest waits where others can go before it */
	ask_for("prj_b", &b, &spec);
	turn_some();
	CHECK_INT(rig.broker.creates, sent + 1);
	ask_for("prj_a", &a[0], &spec);
	turn_some();
	CHECK_INT(rig.broker.creates, sent + 1);
	rig_stop(&rig);
}

TEST(all_of_a_burst_is_made_when_the_broker_answers)
{
	struct sandbox_spec spec = {0};
	struct outcome a[60];

	start_wide(0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		ask_for("prj_a", &a[i], &spec);
	for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
		UNTIL(&rig.broker, a[i].calls > 0);
		CHECK_STR(a[i].err.message, "");
	}
	CHECK_INT(rig.broker.creates, ARRAY_SIZE(a));
	rig_stop(&rig);
}

TEST(one_project_alone_has_all_spares)
{
	struct sandbox_spec spec = {0};
	struct outcome o;

	start_wide(4, 4);
	rig.broker.create = CREATE_UNANSWERED; /* no more come */
	for (int i = 0; i < 4; i++)
		ask_for("prj_a", &o, &spec);
	CHECK_INT(figures().hits, 4);
	rig_stop(&rig);
}

TEST(a_burst_of_one_project_leaves_another_spares)
{
	struct sandbox_spec spec = {0};
	struct outcome o;

	start_wide(4, 4);
	rig.broker.create = CREATE_UNANSWERED; /* no more come */
	ask_for("prj_b", &o, &spec);
	for (int i = 0; i < 20; i++)
		ask_for("prj_a", &o, &spec);
	CHECK_INT(figures().hits, 3); /* two of them the burst's */
	ask_for("prj_b", &o, &spec);
	CHECK_INT(figures().hits, 4);
	rig_stop(&rig);
}

TEST(a_spare_is_made_for_one_project_while_another_waits_for_creates)
{
	struct sandbox_spec spec = {0}, named = {.name = "held"};
	struct outcome a, b;

	start_full(1, 1);
	rig.broker.next_hello = HELLO_SILENT;
	ask_for("prj_a", &a, &named); /* stays on its way */
	turn_some();
	rig.broker.next_hello = HELLO_WELCOME;
	ask_for("prj_b", &b, &spec);
	CHECK_INT(figures().hits, 1);
	UNTIL(&rig.broker, figures().ready == 1);
	CHECK_INT(a.calls, 0);
	rig_stop(&rig);
}
