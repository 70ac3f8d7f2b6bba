// SPDX-License-Identifier: Apache-2.0
/* Execs and file calls over the link, with honest agents and with others. */
#include "sandbox-rig.h"
#include "sandbox/inside.h"

#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static struct rig rig;
static struct sandbox *s;
static struct fake_agent *agent;

static void start(void)
{
	rig_start(&rig);
	s = rig_create(&rig, "box");
	agent = fake_agent_only(&rig.broker);
}

static void restart(void)
{
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	CHECK(s != NULL);
}

static struct fake_channel *last(void)
{
	return fake_channel_last(agent);
}

static void out(const char *text)
{
	fake_output(agent, last(), STREAM_STDOUT, text, strlen(text));
}

static void check_output(struct exec *e, uint8_t kind, const char *wanted)
{
	auto_free char *got = rig_output(e, kind);

	CHECK_STR(got, wanted);
}

struct watcher {
	struct exec_watch watch;
	unsigned calls;
	bool is_gone, removes;
};

static void on_watch(struct exec *e, void *arg)
{
	struct watcher *w = arg;

	w->calls++;
	w->is_gone = e == NULL;
	if (e && w->removes)
		exec_remove(e);
}

static void watch(struct exec *e, struct watcher *w)
{
	w->watch.fn = on_watch;
	w->watch.arg = w;
	exec_watch_add(e, &w->watch);
}

TEST(an_exec_runs_and_its_output_and_end_are_kept)
{
	struct watcher w = {0};
	struct exec *e;

	start();
	e = rig_exec(&rig, s, "echo hi", false);
	CHECK_STR(last()->start.argv[0], "/bin/sh");
	CHECK_STR(last()->start.argv[2], "echo hi");
	watch(e, &w);
	fake_started(agent, last());
	UNTIL(&rig.broker, exec_state(e) == EXEC_RUNNING);
	out("hi\n");
	fake_output(agent, last(), STREAM_STDERR, "oops\n", 5);
	fake_exit(agent, last(), EXIT_CODE, 3);
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK(!last()->is_forgotten); /* a child may still write */
	out("late\n");
	fake_closed(agent, last());
	UNTIL(&rig.broker, last()->is_forgotten);
	CHECK_INT(exec_state(e), EXEC_EXITED);
	check_output(e, SPOOL_STDOUT, "hi\nlate\n");
	check_output(e, SPOOL_STDERR, "oops\n");
	CHECK(w.calls >= 2 && !w.is_gone);
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":3,\"signal\":null,\"cause\":\"exited\"") !=
	      NULL);
	CHECK(strstr(rig_exec_json(e), "\"stdout_bytes\":8,\"stderr_bytes\":5") != NULL);
	CHECK(strstr(rig_exec_json(e), "\"usage\":{\"wall_us\":1234") != NULL);
	exec_watch_remove(&w.watch);
	rig_stop(&rig);
}

TEST(an_execs_words_are_checked_with_their_names)
{
	json_t *numbers = json_pack("[i]", 1), *empty = json_array(), *blank = json_pack("[s]", "");
	json_t *equals = json_pack("{s:s}", "A=", "b");
	auto_free char *huge = malloc(300001);
	struct exec_spec bad[] = {
		{0},
		{.shell = "x", .argv = numbers},
		{.argv = numbers},
		{.argv = empty},
		{.argv = blank},
		{.shell = ""},
		{.shell = "x", .cwd = ""},
		{.shell = "x", .user = ""},
		{.shell = "x", .env = equals},
		{.shell = "x", .timeout_ms = UINT64_MAX},
		{.shell = "x", .has_pty = true, .rows = 60000},
		{.shell = huge},
	};
	static const char *const fields[] = {"argv", "argv", "argv", "argv",       "argv", "shell",
	                                     "cwd",  "user", "env",  "timeout_ms", "pty",  "shell"};

	memset(huge, 'x', 300000);
	huge[300000] = '\0';
	start();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct exec *e;
		struct err err = {0};

		CHECK(exec_start(s, &bad[i], &e, &err) < 0);
		CHECK_STR(err.field, fields[i]);
	}
	CHECK(last() == NULL);
	CHECK_INT(rig_spools(&rig), 0);
	json_decref(numbers);
	json_decref(empty);
	json_decref(blank);
	json_decref(equals);
	rig_stop(&rig);
}

TEST(an_execs_environment_is_the_sandboxes_with_its_own_on_top)
{
	json_t *env = json_pack("{s:s,s:s}", "A", "1", "B", "2");
	json_t *own = json_pack("{s:s}", "B", "3");
	struct sandbox_spec spec = {.env = env};
	struct exec_spec exec = {.shell = "env", .env = own};
	struct outcome o = {0};
	struct exec *e;

	rig_start(&rig);
	CHECK_INT(sandbox_create(rig.fleet, "prj_test", &spec, rig_note, &o, NULL), 0);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK(strstr(rig_json(o.s), "\"env_names\":[\"A\",\"B\"]") != NULL);
	agent = fake_agent_only(&rig.broker);
	CHECK_INT(exec_start(o.s, &exec, &e, NULL), 0);
	UNTIL(&rig.broker, last() != NULL);
	CHECK_INT(last()->start.envc, 2);
	CHECK_STR(last()->start.env[0], "A=1");
	CHECK_STR(last()->start.env[1], "B=3");
	json_decref(env);
	json_decref(own);
	rig_stop(&rig);
}

TEST(a_command_that_cannot_be_run_fails_with_the_agents_reason)
{
	struct exec *e;

	start();
	e = rig_exec(&rig, s, "x", false);
	fake_exit(agent, last(), EXIT_FAILED, ENOENT);
	fake_closed(agent, last());
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK_INT(exec_state(e), EXEC_FAILED);
	CHECK_INT(exec_failure(e)->code, ERR_FILE_NOT_FOUND);
	CHECK_STR(exec_failure(e)->message, "cannot run it");
	CHECK(strstr(rig_exec_json(e), "\"error\":{\"code\":\"file_not_found\"") != NULL);
	rig_stop(&rig);
}

TEST(ends_have_their_causes)
{
	static const struct {
		enum exit_how how;
		uint32_t value;
		enum exit_cause cause;
		uint64_t oom_kills;
		const char *name;
	} ends[] = {
		{EXIT_CODE, 0, EXIT_CAUSE_NONE, 0, "\"exited\""},
		{EXIT_SIGNAL, SIGSEGV, EXIT_CAUSE_NONE, 0, "\"exited\""},
		{EXIT_SIGNAL, SIGKILL, EXIT_CAUSE_NONE, 0, "\"killed\""},
		{EXIT_SIGNAL, SIGKILL, EXIT_CAUSE_NONE, 1, "\"oom\""},
		{EXIT_CODE, 137, EXIT_CAUSE_NONE, 2, "\"oom\""},
		{EXIT_CODE, 137, EXIT_CAUSE_NONE, 2, "\"exited\""},
		{EXIT_SIGNAL, SIGKILL, EXIT_CAUSE_TIMEOUT, 3, "\"timeout\""},
		{EXIT_SIGNAL, SIGTERM, EXIT_CAUSE_KILLED, 3, "\"killed\""},
	};

	start();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct exec *e = rig_exec(&rig, s, "x", false);
		char wanted[40];

		rig.broker.oom_kills = ends[i].oom_kills;
		last()->exit.cause = ends[i].cause;
		fake_started(agent, last());
		fake_exit(agent, last(), ends[i].how, ends[i].value);
		fake_closed(agent, last());
		UNTIL(&rig.broker, exec_is_over(e) && last()->is_forgotten);
		(void)snprintf(wanted, sizeof(wanted), "\"cause\":%s", ends[i].name);
		CHECK(strstr(rig_exec_json(e), wanted) != NULL);
		exec_remove(e);
	}
	rig_stop(&rig);
}

TEST(streams_that_take_turns_byte_by_byte_are_acknowledged)
{
	struct exec *e;

	start();
	e = rig_exec(&rig, s, "x", false);
	fake_started(agent, last());
	for (int i = 0; i < 4096; i++) {
		fake_output(agent, last(), i % 2 ? STREAM_STDERR : STREAM_STDOUT, "x", 1);
		if (i % 64 == 0)
			fake_turn(&rig.broker);
	}
	UNTIL(&rig.broker, last()->acked == 4096);
	CHECK(!exec_is_over(e));
	rig_stop(&rig);
}

#define ACKED_AT_ONCE 1024 /* frames of output */

/* Writes twice what is acknowledged at once, at a pace of so many bytes a second. */
static void write_paced(uint64_t rate)
{
	struct link_timing timing = link_timing_usual;
	struct exec *e;

	timing.output_rate = rate;
	timing.burst_us = 0;
	rig.timing = &timing;
	start();
	rig.timing = NULL;
	e = rig_exec(&rig, s, "yes", false);
	fake_started(agent, last());
	for (size_t i = 1; i <= 2 * ACKED_AT_ONCE; i++) {
		fake_output(agent, last(), STREAM_STDOUT, "x", 1);
		if (i % 64 == 0)
			UNTIL(&rig.broker, spool_bytes(exec_spool(e), SPOOL_STDOUT) == i);
	}
	UNTIL(&rig.broker, last()->acked >= ACKED_AT_ONCE);
}

TEST(output_beyond_the_pace_is_kept_and_not_acknowledged_yet)
{
	write_paced(1);
	for (int i = 0; i < 100; i++)
		fake_turn(&rig.broker);
	CHECK_INT(last()->acked, ACKED_AT_ONCE);
	rig_stop(&rig);
}

TEST(output_beyond_the_pace_is_acknowledged_in_its_time)
{
	write_paced(10 * 1000 * 1000);
	UNTIL(&rig.broker, last()->acked == 2 * ACKED_AT_ONCE);
	rig_stop(&rig);
}

TEST(stdin_waits_for_the_agents_window_and_arrives_whole)
{
	auto_free char *data = malloc(1 << 20);
	size_t sent = 0;
	struct watcher w = {0};
	struct exec *e;
	struct err err = {0};

	for (size_t i = 0; i < 1 << 20; i++)
		data[i] = (char)(i * 131 >> 3);
	start();
	e = rig_exec(&rig, s, "cat", true);
	watch(e, &w);
	while (sent < 1 << 20) {
		ssize_t n = exec_write_stdin(e, data + sent, (1 << 20) - sent, &err);

		CHECK(n >= 0);
		sent += (size_t)n;
		if (n > 0)
			continue;
		UNTIL(&rig.broker, last()->input.len == sent);
		CHECK_INT(sent % FRAME_WINDOW, 0);
		w.calls = 0;
		fake_take_input(agent, last());
		UNTIL(&rig.broker, w.calls > 0);
	}
	CHECK_INT(exec_close_stdin(e, &err), 0);
	UNTIL(&rig.broker, last()->is_input_ended);
	CHECK_MEM(last()->input.data, last()->input.len, data, 1 << 20);
	CHECK(exec_write_stdin(e, "x", 1, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	exec_watch_remove(&w.watch);
	rig_stop(&rig);
}

TEST(input_on_its_way_when_the_connection_is_lost_arrives_once)
{
	struct exec *e;
	ssize_t n;

	start();
	e = rig_exec(&rig, s, "cat", true);
	CHECK_INT(exec_write_stdin(e, "one ", 4, NULL), 4);
	UNTIL(&rig.broker, last()->input.len == 4);
	CHECK_INT(exec_write_stdin(e, "two ", 4, NULL), 4);
	fake_agent_hang_up(agent); /* "two " is in the queue or the socket */
	UNTIL(&rig.broker, last()->input.len == 8);
	do {
		fake_turn(&rig.broker);
		n = exec_write_stdin(e, "three", 5, NULL);
	} while (n == 0);
	CHECK_INT(exec_close_stdin(e, NULL), 0);
	UNTIL(&rig.broker, last()->is_input_ended);
	CHECK_MEM(last()->input.data, last()->input.len, "one two three", 13);
	rig_stop(&rig);
}

TEST(an_exec_without_stdin_refuses_input)
{
	struct exec *e;
	struct err err = {0};

	start();
	e = rig_exec(&rig, s, "true", false);
	CHECK(exec_write_stdin(e, "x", 1, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(exec_resize(e, 10, 10, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	rig_stop(&rig);
}

TEST(signals_go_to_the_group_or_the_tree)
{
	struct exec *e;
	struct err err = {0};

	start();
	e = rig_exec(&rig, s, "sleep 9", false);
	CHECK_INT(exec_signal(e, SIGINT, false, &err), 0);
	UNTIL(&rig.broker, last()->signals == 1);
	CHECK_INT(last()->last_signal, SIGINT);
	CHECK_INT(last()->last_scope, SCOPE_GROUP);
	CHECK_INT(exec_signal(e, SIGKILL, true, &err), 0);
	UNTIL(&rig.broker, last()->signals == 2);
	CHECK_INT(last()->last_scope, SCOPE_TREE);
	CHECK(exec_signal(e, 0, false, &err) < 0);
	CHECK(exec_signal(e, 65, false, &err) < 0);
	CHECK_STR(err.field, "signal");
	fake_exit(agent, last(), EXIT_SIGNAL, SIGKILL);
	fake_closed(agent, last());
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK(exec_signal(e, SIGTERM, false, &err) < 0);
	CHECK_INT(err.code, ERR_GONE);
	rig_stop(&rig);
}

TEST(removing_an_exec_tells_its_watchers_and_leaves_no_file)
{
	struct watcher first = {.removes = true}, second = {0};
	struct exec *e;

	start();
	e = rig_exec(&rig, s, "x", false);
	watch(e, &first);
	watch(e, &second);
	out("some");
	UNTIL(&rig.broker, first.is_gone && second.is_gone && last()->is_forgotten);
	CHECK(exec_find(s, last()->start.tag) == NULL);
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(the_oldest_finished_execs_make_room_and_running_ones_do_not)
{
	struct exec_spec spec = {.shell = "x"};
	struct exec *e;
	struct err err = {0};
	char first[64];

	start();
	e = rig_exec(&rig, s, "x", false);
	(void)snprintf(first, sizeof(first), "%s", exec_id(e));
	out("bytes");
	fake_exit(agent, last(), EXIT_CODE, 0);
	fake_closed(agent, last());
	UNTIL(&rig.broker, last()->is_forgotten);
	for (int i = 0; i < 4; i++) /* the fourth takes the first one's place */
		(void)rig_exec(&rig, s, "x", false);
	CHECK(exec_find(s, first) == NULL);
	CHECK_INT(rig_spools(&rig), 0);
	CHECK(exec_start(s, &spec, &e, &err) < 0);
	CHECK_INT(err.code, ERR_LIMIT);
	rig_stop(&rig);
}

TEST(deleting_a_sandbox_ends_its_execs_and_removes_their_output)
{
	struct watcher w = {0};
	struct exec_spec spec = {.shell = "x"};
	struct outcome o = {0};
	struct exec *e;
	struct err err = {0};

	start();
	e = rig_exec(&rig, s, "x", false);
	fake_started(agent, last());
	out("bytes");
	UNTIL(&rig.broker, rig_spools(&rig) == 1);
	watch(e, &w);
	rig.broker.holds_deletes = true;
	sandbox_delete(s, END_DELETED, rig_note, &o);
	UNTIL(&rig.broker, w.calls > 0);
	CHECK_INT(exec_state(e), EXEC_EXITED);
	CHECK(strstr(rig_exec_json(e),
	             "\"exit_code\":null,\"signal\":null,\"cause\":\"deleted\"") != NULL);
	CHECK(exec_start(s, &spec, &e, &err) < 0);
	CHECK_INT(err.code, ERR_GONE);
	UNTIL(&rig.broker, rig.broker.deletes > 0);
	fake_broker_release(&rig.broker);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK(w.is_gone);
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(output_is_byte_exact_over_restarts_of_the_gateway)
{
	struct exec *e;
	char id[64], wanted[32 * 1024];
	size_t len = 0;

	start();
	e = rig_exec(&rig, s, "x", true);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, last());
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 40; i++) {
			char line[64];
			int n = snprintf(line, sizeof(line), "round %d line %d of output\n", round,
			                 i);

			memcpy(wanted + len, line, (size_t)n);
			len += (size_t)n;
			out(line); /* some of it while the gateway is away */
			if (i == 20)
				rig_go_away(&rig);
		}
		rig_come_back(&rig);
		s = sandbox_find(rig.fleet, "prj_test", "box");
		e = exec_find(s, id);
		CHECK(e != NULL);
		UNTIL(&rig.broker, spool_bytes(exec_spool(e), SPOOL_STDOUT) == len);
		CHECK_INT(exec_state(e), EXEC_RUNNING);
	}
	wanted[len] = '\0';
	check_output(e, SPOOL_STDOUT, wanted);
	UNTIL(&rig.broker, exec_write_stdin(e, "x", 1, NULL) == 1); /* stdin goes on too */
	fake_exit(agent, last(), EXIT_CODE, 7);
	fake_closed(agent, last());
	UNTIL(&rig.broker, last()->is_forgotten);
	restart();
	e = exec_find(s, id);
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":7") != NULL);
	check_output(e, SPOOL_STDOUT, wanted);
	rig_stop(&rig);
}

TEST(an_exec_that_ends_while_the_gateway_is_away_is_not_missed)
{
	struct exec *e;
	char id[64];

	start();
	e = rig_exec(&rig, s, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	rig_go_away(&rig);
	fake_started(agent, last());
	out("done\n");
	fake_exit(agent, last(), EXIT_CODE, 5);
	fake_closed(agent, last());
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	e = exec_find(s, id);
	UNTIL(&rig.broker, exec_is_over(e) && last()->is_forgotten);
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":5") != NULL);
	check_output(e, SPOOL_STDOUT, "done\n");
	rig_stop(&rig);
}

TEST(output_of_an_exec_that_ended_before_a_restart_goes_with_it)
{
	struct exec *e;
	char id[64];

	start();
	e = rig_exec(&rig, s, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, last());
	out("done\n");
	fake_exit(agent, last(), EXIT_CODE, 0);
	fake_closed(agent, last());
	UNTIL(&rig.broker, exec_is_over(e) && last()->is_forgotten);
	CHECK_INT(rig_spools(&rig), 1);
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	exec_remove(exec_find(s, id));
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(output_that_the_host_lost_is_a_gap_after_a_restart)
{
	struct exec *e;
	char id[64];

	start();
	e = rig_exec(&rig, s, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, last());
	out("hello world");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	rig_go_away(&rig);
	{
		auto_free char *path = xasprintf("%s/%s", rig.dir, id);

		CHECK_INT(unlink(path), 0);
	}
	last()->acked = 5; /* the agent has dropped these */
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	e = exec_find(s, id);
	UNTIL(&rig.broker, spool_bytes(exec_spool(e), SPOOL_STDOUT) == 11);
	check_output(e, SPOOL_STDOUT, "[gap 5] world");
	rig_stop(&rig);
}

TEST(an_exec_that_the_agent_does_not_know_any_more_is_closed)
{
	struct exec *e;
	char id[64];

	start();
	e = rig_exec(&rig, s, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	fake_started(agent, last());
	UNTIL(&rig.broker, exec_state(e) == EXEC_RUNNING);
	last()->is_forgotten = true;
	restart();
	e = exec_find(s, id);
	UNTIL(&rig.broker, exec_is_over(e));
	rig_stop(&rig);
}

TEST(a_channel_that_no_record_knows_is_forgotten_at_the_agent)
{
	struct exec *e;

	start();
	e = rig_exec(&rig, s, "x", false);
	CHECK_INT(store_delete_exec(rig.store, exec_id(e), NULL), 0);
	restart();
	UNTIL(&rig.broker, last()->is_forgotten);
	rig_stop(&rig);
}

TEST(channel_numbers_are_never_used_twice)
{
	uint32_t before;

	start();
	exec_remove(rig_exec(&rig, s, "x", false));
	exec_remove(rig_exec(&rig, s, "x", false));
	before = last()->number;
	restart();
	(void)rig_exec(&rig, s, "x", false);
	CHECK(last()->number > before);
	rig_stop(&rig);
}

TEST(what_an_agent_says_of_a_forgotten_channel_is_dropped)
{
	struct fake_channel *gone;
	struct exec *e;

	start();
	exec_remove(rig_exec(&rig, s, "x", false));
	gone = last();
	e = rig_exec(&rig, s, "x", false);
	UNTIL(&rig.broker, gone->is_forgotten);
	fake_output(agent, gone, STREAM_STDOUT, "ghost", 5);
	fake_exit(agent, gone, EXIT_CODE, 0);
	fake_closed(agent, gone);
	out("real");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	check_output(e, SPOOL_STDOUT, "real");
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	rig_stop(&rig);
}

TEST(an_agent_that_does_not_answer_makes_calls_fail_until_it_does)
{
	struct exec_spec spec = {.shell = "x"};
	struct exec *e, *other;
	struct err err = {0};

	start();
	rig_go_away(&rig);
	rig.is_hasty = true;
	agent->is_mute = true;
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	e = rig_exec(&rig, s, "x", false);
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK_INT(exec_state(e), EXEC_FAILED);
	CHECK_INT(exec_failure(e)->code, ERR_UNAVAILABLE);
	CHECK(exec_start(s, &spec, &other, &err) < 0);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	{
		uint64_t ping = htole64(agent->pings); /* this connection's first was its first */

		fake_agent_send(agent, FRAME_PONG, 0, &ping, sizeof(ping));
	}
	agent->is_mute = false;
	UNTIL(&rig.broker, exec_start(s, &spec, &other, &err) == 0);
	rig_stop(&rig);
}

static void on_time(struct loop *loop, void *arg)
{
	(void)loop;
	*(bool *)arg = true;
}

TEST(a_vm_whose_agent_stays_silent_ends_and_one_that_is_paused_does_not)
{
	struct outcome o = {0};
	struct loop_timer *timer;
	bool is_over = false;
	uint64_t pings;
	struct err err;

	start();
	rig_go_away(&rig);
	rig.is_hasty = true;
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	s->engine = ENGINE_VM;
	CHECK_INT(sandbox_pause(s, rig_note, &o, &err), 0);
	UNTIL(&rig.broker, o.calls == 1);
	agent->is_mute = true;
	pings = agent->pings;
	UNTIL(&rig.broker, agent->pings > pings);
	timer = loop_timer_new(rig.loop, on_time, &is_over);
	loop_timer_set_in(timer, 200000); /* several times its patience */
	UNTIL(&rig.broker, is_over);
	loop_timer_free(timer);
	CHECK_INT(sandbox_state(s), SANDBOX_PAUSED);
	CHECK_INT(sandbox_resume(s, rig_note, &o, &err), 0);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_FAILED);
	CHECK_INT(s->end.cause, END_GUEST_CRASH);
	CHECK_STR(json_string_value(json_object_get(s->end.detail, "machine")), "hang");
	rig_stop(&rig);
}

TEST(an_agent_that_does_not_read_bounds_what_is_queued_for_it)
{
	auto_free char *data = calloc(1, FRAME_WINDOW);
	size_t taken = 0;

	start();
	agent->is_deaf = true;
	for (int i = 0; i < 4; i++) {
		struct exec_spec spec = {.shell = "x", .has_stdin = true};
		struct exec *e = NULL;
		struct err err;
		ssize_t n;

		CHECK_INT(exec_start(s, &spec, &e, &err), 0);
		while ((n = exec_write_stdin(e, data, FRAME_WINDOW, &err)) > 0)
			taken += (size_t)n;
		CHECK_INT(n, 0);
	}
	CHECK(taken <= 4 * FRAME_WINDOW);
	rig_stop(&rig);
}

static void frame_with_epoch(uint32_t epoch)
{
	uint32_t saved = agent->epoch;
	static const unsigned char pid[4] = {1};

	agent->epoch = epoch;
	fake_agent_send(agent, FRAME_STARTED, last()->number, pid, sizeof(pid));
	agent->epoch = saved;
}

static void output_at(uint64_t offset, uint8_t stream)
{
	unsigned char payload[10] = {0};

	offset = htole64(offset);
	memcpy(payload, &offset, sizeof(offset));
	payload[8] = stream;
	fake_agent_send(agent, FRAME_OUTPUT, last()->number, payload, sizeof(payload));
}

static void exit_with(enum exit_how how, uint32_t value, uint64_t output_end)
{
	struct buf payload = BUF_INIT(512);
	struct channel_exit x = {.how = EXIT_CODE, .output_end = output_end};

	CHECK_INT(channel_exit_encode(&x, &payload), 0);
	value = htole32(value); /* the encoder would refuse it */
	payload.data[0] = (char)how;
	memcpy(payload.data + 1, &value, sizeof(value));
	fake_agent_send(agent, FRAME_EXIT, last()->number, payload.data, payload.len);
	buf_done(&payload);
}

static void lie(int which)
{
	static const char zeros[64];
	static const unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, FRAME_OUTPUT};
	uint64_t word = htole64(1);
	unsigned char pid[4] = {1};

	switch (which) {
	case 0:
		fake_agent_raw(agent, zeros, sizeof(zeros));
		break;
	case 1:
		fake_agent_raw(agent, huge, sizeof(huge));
		break;
	case 2: /* a host's frame */
		fake_agent_send(agent, FRAME_FORGET, last()->number, NULL, 0);
		break;
	case 3:
		frame_with_epoch(1);
		break;
	case 4: /* never given out */
		fake_agent_send(agent, FRAME_STARTED, UINT32_MAX, pid, sizeof(pid));
		break;
	case 5: /* a PONG that nobody asked for */
		fake_agent_send(agent, FRAME_PONG, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
		break;
	case 6:
		fake_started(agent, last());
		fake_started(agent, last());
		break;
	case 7:
		output_at(1, STREAM_STDOUT);
		break;
	case 8:
		output_at(UINT64_MAX, STREAM_STDOUT);
		break;
	case 9:
		output_at(0, 9);
		break;
	case 10: /* records are for file calls */
		output_at(0, STREAM_RECORD);
		break;
	case 11:
		exit_with(EXIT_CODE, 300, 0);
		break;
	case 12:
		exit_with(EXIT_SIGNAL, 200, 0);
		break;
	case 13:
		exit_with((enum exit_how)9, 0, 0);
		break;
	case 14: /* output that was never sent */
		exit_with(EXIT_CODE, 0, 1000);
		break;
	case 15:
		exit_with(EXIT_CODE, 0, 0);
		exit_with(EXIT_CODE, 1, 0);
		break;
	case 16: /* closed before its exit */
		fake_agent_send(agent, FRAME_CLOSED, last()->number, NULL, 0);
		break;
	case 17: /* input that was never sent */
		fake_agent_send(agent, FRAME_INPUT_ACK, last()->number, &word, sizeof(word));
		break;
	case 18:
		fake_agent_send(agent, FRAME_WELCOME, 0, zeros, 8);
		break;
	case 19: /* started after its end */
		exit_with(EXIT_CODE, 0, 0);
		fake_started(agent, last());
		break;
	}
}

#define LIES 20

TEST(a_lying_agent_fails_its_own_sandbox_and_no_other)
{
	struct sandbox *other;

	rig_start(&rig);
	other = rig_create(&rig, NULL);
	for (int i = 0; i < LIES; i++) {
		struct exec *e;
		char id[64];

		s = rig_create(&rig, NULL);
		(void)snprintf(id, sizeof(id), "%s", sandbox_id(s));
		agent = fake_agent_find(&rig.broker, id);
		e = rig_exec(&rig, s, "x", false);
		(void)e;
		lie(i);
		UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_FAILED);
		CHECK(strstr(rig_json(s), "\"cause\":\"guest_crash\"") != NULL);
		CHECK(fake_agent_find(&rig.broker, id) == NULL);
		CHECK_INT(sandbox_state(other), SANDBOX_RUNNING);
	}
	rig_stop(&rig);
}

TEST(times_beyond_all_bounds_are_shown_and_survive_a_restart)
{
	struct exec *e;
	char id[64];

	start();
	e = rig_exec(&rig, s, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	last()->exit.user_us = UINT64_MAX;
	last()->exit.max_rss_kib = UINT64_C(1) << 63;
	fake_started(agent, last());
	fake_exit(agent, last(), EXIT_CODE, 0);
	fake_closed(agent, last());
	UNTIL(&rig.broker, last()->is_forgotten);
	restart();
	e = exec_find(s, id);
	CHECK(e != NULL);
	CHECK(strstr(rig_exec_json(e), "\"user_us\":9223372036854775807") != NULL);
	rig_stop(&rig);
}

struct call {
	struct file_call *c;
	struct buf data;
	unsigned records, rooms, ends;
	bool is_truncated, has_err;
	struct err err;
};

static void on_data(struct file_call *c, const char *data, size_t len, void *arg)
{
	struct call *call = arg;

	(void)c;
	CHECK_INT(buf_append(&call->data, data, len), 0);
}

static void on_record(struct file_call *c, const struct record *r, void *arg)
{
	struct call *call = arg;

	(void)c;
	CHECK_STR(r->path, "/a");
	call->records++;
}

static void on_room(struct file_call *c, void *arg)
{
	(void)c;
	((struct call *)arg)->rooms++;
}

static void on_end(struct file_call *c, const struct err *err, bool is_truncated, void *arg)
{
	struct call *call = arg;

	CHECK(c == call->c);
	call->ends++;
	call->is_truncated = is_truncated;
	call->has_err = err != NULL;
	if (err)
		call->err = *err;
}

static const struct file_call_ops all_ops = {
	.on_data = on_data,
	.on_record = on_record,
	.on_room = on_room,
	.on_end = on_end,
};

static void call_start(struct call *call, enum file_op op)
{
	char path[] = "/a";
	struct start file = {.kind = START_FILE, .op = op, .path = path};
	struct fake_channel *before = last();
	struct err err = {0};

	*call = (struct call){.data = BUF_INIT(1 << 20)};
	if (file_call_start(s, &file, &all_ops, call, &call->c, &err) < 0)
		CHECK_STR(err.message, "");
	UNTIL(&rig.broker, last() != before);
	CHECK_INT(last()->start.op, op);
}

static void send_record(void)
{
	struct buf bytes = BUF_INIT(4096);
	char path[] = "/a";
	struct record r = {.kind = RECORD_ENTRY, .path = path, .size = 5};

	CHECK_INT(record_encode(&r, &bytes), 0);
	/* In two pieces, cut in the middle. */
	fake_output(agent, last(), STREAM_RECORD, bytes.data, 7);
	fake_output(agent, last(), STREAM_RECORD, bytes.data + 7, bytes.len - 7);
	buf_done(&bytes);
}

TEST(a_file_is_read_as_record_and_bytes_and_a_pause_holds_them_back)
{
	struct call call;

	start();
	call_start(&call, FILE_READ);
	send_record();
	out("first ");
	UNTIL(&rig.broker, call.data.len == 6);
	CHECK_INT(call.records, 1);
	file_call_pause(call.c, true);
	out("second");
	fake_exit(agent, last(), EXIT_CODE, 0);
	fake_closed(agent, last());
	UNTIL(&rig.broker, last()->is_forgotten);
	CHECK_INT(call.data.len, 6);
	CHECK_INT(call.ends, 0);
	file_call_pause(call.c, false);
	UNTIL(&rig.broker, call.ends == 1);
	CHECK_MEM(call.data.data, call.data.len, "first second", 12);
	CHECK(!call.has_err);
	buf_done(&call.data);
	rig_stop(&rig);
}

TEST(a_paused_reader_stops_the_agent_at_its_window)
{
	auto_free char *block = calloc(1, 60000);
	struct call call;

	start();
	call_start(&call, FILE_READ);
	file_call_pause(call.c, true);
	fake_output(agent, last(), STREAM_STDOUT, block, 60000);
	fake_turn(&rig.broker);
	fake_turn(&rig.broker);
	CHECK_INT(last()->acked, 0);
	file_call_cancel(call.c);
	UNTIL(&rig.broker, last()->is_forgotten);
	CHECK_INT(call.ends, 0);
	CHECK_INT(call.data.len, 0);
	rig_stop(&rig);
}

TEST(a_file_is_written_within_the_window_and_its_end_is_told)
{
	auto_free char *block = calloc(1, FRAME_WINDOW);
	struct call call;

	start();
	call_start(&call, FILE_WRITE);
	CHECK_INT(file_call_write(call.c, block, FRAME_WINDOW), FRAME_WINDOW);
	CHECK_INT(file_call_write(call.c, block, 1), 0);
	UNTIL(&rig.broker, last()->input.len == FRAME_WINDOW);
	fake_take_input(agent, last());
	UNTIL(&rig.broker, call.rooms > 0);
	CHECK_INT(file_call_write(call.c, block, 1), 1);
	file_call_finish(call.c);
	UNTIL(&rig.broker, last()->is_input_ended);
	CHECK_INT(last()->input.len, FRAME_WINDOW + 1);
	last()->exit.flags = EXIT_TRUNCATED;
	fake_exit(agent, last(), EXIT_CODE, 0);
	fake_closed(agent, last());
	UNTIL(&rig.broker, call.ends == 1);
	CHECK(call.is_truncated && !call.has_err);
	rig_stop(&rig);
}

TEST(errors_inside_have_codes_of_the_api)
{
	static const struct {
		int errnum;
		enum err_code code;
	} errors[] = {
		{ENOENT, ERR_FILE_NOT_FOUND}, {EEXIST, ERR_FILE_EXISTS}, {EACCES, ERR_FILE_DENIED},
		{ENOTDIR, ERR_FILE_INVALID},  {ENOSPC, ERR_DISK_FULL},   {EDQUOT, ERR_DISK_FULL},
		{EAGAIN, ERR_LIMIT},          {EIO, ERR_GUEST},
	};

	start();
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct call call;

		call_start(&call, FILE_STAT);
		fake_exit(agent, last(), EXIT_FAILED, (uint32_t)errors[i].errnum);
		fake_closed(agent, last());
		UNTIL(&rig.broker, call.ends == 1);
		CHECK_INT(call.err.code, errors[i].code);
		CHECK_INT(call.err.errnum, errors[i].errnum);
	}
	rig_stop(&rig);
}

TEST(a_bad_record_fails_the_sandbox_and_the_call)
{
	struct call call;

	start();
	call_start(&call, FILE_LIST);
	fake_output(agent, last(), STREAM_RECORD, "\xff\xff\xff\xff____", 8);
	UNTIL(&rig.broker, call.ends == 1);
	CHECK(call.has_err);
	UNTIL(&rig.broker, sandbox_state(s) == SANDBOX_FAILED);
	rig_stop(&rig);
}

TEST(a_file_call_ends_with_its_sandbox)
{
	struct call call;

	start();
	call_start(&call, FILE_WATCH);
	rig_delete(&rig, s);
	CHECK_INT(call.ends, 1);
	CHECK_INT(call.err.code, ERR_GONE);
	rig_stop(&rig);
}

TEST(a_full_disk_of_the_host_loses_output_and_not_the_exec)
{
	auto_free char *path = NULL;
	struct exec *e;

	start();
	e = rig_exec(&rig, s, "x", false);
	fake_started(agent, last());
	/* A directory in its place stands for every reason not to open the file. */
	path = xasprintf("%s/%s", rig.dir, exec_id(e));
	CHECK_INT(mkdir(path, 0700), 0);
	out("lost");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	CHECK_INT(rmdir(path), 0);
	out("kept");
	fake_exit(agent, last(), EXIT_CODE, 0);
	fake_closed(agent, last());
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":0") != NULL);
	check_output(e, SPOOL_STDOUT, "[gap 4]kept");
	rig_stop(&rig);
}
