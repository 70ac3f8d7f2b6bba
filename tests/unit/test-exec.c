// SPDX-License-Identifier: Apache-2.0
/* An exec, from its start to its removal, with an honest agent. */
#include "exec-rig.h"

#include <signal.h>
#include <sys/stat.h>

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

	box_start();
	e = rig_exec(&rig, box, "echo hi", false);
	CHECK_STR(box_channel()->start.argv[0], "/bin/sh");
	CHECK_STR(box_channel()->start.argv[2], "echo hi");
	watch(e, &w);
	fake_started(agent, box_channel());
	UNTIL(&rig.broker, exec_state(e) == EXEC_RUNNING);
	box_say("hi\n");
	fake_output(agent, box_channel(), STREAM_STDERR, "oops\n", 5);
	fake_exit(agent, box_channel(), EXIT_CODE, 3);
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK(!box_channel()->is_forgotten); /* a child may still write */
	box_say("late\n");
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	CHECK_INT(exec_state(e), EXEC_EXITED);
	box_check_output(e, SPOOL_STDOUT, "hi\nlate\n");
	box_check_output(e, SPOOL_STDERR, "oops\n");
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
	box_start();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct exec *e;
		struct err err = {0};

		CHECK(exec_start(box, &bad[i], &e, &err) < 0);
		CHECK_STR(err.field, fields[i]);
	}
	CHECK(box_channel() == NULL);
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
	UNTIL(&rig.broker, box_channel() != NULL);
	CHECK_INT(box_channel()->start.envc, 2 + 5); /* and those of network_env.c */
	CHECK_STR(box_channel()->start.env[0], "A=1");
	CHECK_STR(box_channel()->start.env[1], "B=3");
	json_decref(env);
	json_decref(own);
	rig_stop(&rig);
}

TEST(a_command_that_cannot_be_run_fails_with_the_agents_reason)
{
	struct exec *e;

	box_start();
	e = rig_exec(&rig, box, "x", false);
	fake_exit(agent, box_channel(), EXIT_FAILED, ENOENT);
	fake_closed(agent, box_channel());
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

	box_start();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct exec *e = rig_exec(&rig, box, "x", false);
		char wanted[40];

		rig.broker.oom_kills = ends[i].oom_kills;
		box_channel()->exit.cause = ends[i].cause;
		fake_started(agent, box_channel());
		fake_exit(agent, box_channel(), ends[i].how, ends[i].value);
		fake_closed(agent, box_channel());
		UNTIL(&rig.broker, exec_is_over(e) && box_channel()->is_forgotten);
		(void)snprintf(wanted, sizeof(wanted), "\"cause\":%s", ends[i].name);
		CHECK(strstr(rig_exec_json(e), wanted) != NULL);
		exec_remove(e);
	}
	rig_stop(&rig);
}

TEST(streams_that_take_turns_byte_by_byte_are_acknowledged)
{
	struct exec *e;

	box_start();
	e = rig_exec(&rig, box, "x", false);
	fake_started(agent, box_channel());
	for (int i = 0; i < 4096; i++) {
		fake_output(agent, box_channel(), i % 2 ? STREAM_STDERR : STREAM_STDOUT, "x", 1);
		if (i % 64 == 0)
			fake_turn(&rig.broker);
	}
	UNTIL(&rig.broker, box_channel()->acked == 4096);
	CHECK(!exec_is_over(e));
	rig_stop(&rig);
}

#define ACKED_AT_ONCE 1024 /* frames of output */

/* At a pace of so many bytes a second. */
static void box_start_paced(uint64_t rate)
{
	static struct link_timing timing; /* the fleet borrows it */

	timing = link_timing_usual;
	timing.output_rate = rate;
	timing.burst_us = 0;
	rig.timing = &timing;
	box_start();
	rig.timing = NULL;
}

/* Writes so many times what is acknowledged at once, all of which is kept. */
static void write_frames(struct sandbox *s, struct fake_agent *to, size_t times)
{
	struct exec *e = rig_exec(&rig, s, "yes", false);

	fake_started(to, fake_channel_last(to));
	for (size_t i = 1; i <= times * ACKED_AT_ONCE; i++) {
		fake_output(to, fake_channel_last(to), STREAM_STDOUT, "x", 1);
		if (i % 64 == 0)
			UNTIL(&rig.broker, spool_bytes(exec_spool(e), SPOOL_STDOUT) == i);
	}
}

static void write_paced(uint64_t rate)
{
	box_start_paced(rate);
	write_frames(box, agent, 2);
	UNTIL(&rig.broker, box_channel()->acked >= ACKED_AT_ONCE);
}

TEST(output_beyond_the_pace_is_kept_and_not_acknowledged_yet)
{
	write_paced(1);
	for (int i = 0; i < 100; i++)
		fake_turn(&rig.broker);
	CHECK_INT(box_channel()->acked, ACKED_AT_ONCE);
	rig_stop(&rig);
}

TEST(output_beyond_the_pace_is_acknowledged_in_its_time)
{
	write_paced(10 * 1000 * 1000);
	UNTIL(&rig.broker, box_channel()->acked == 2 * ACKED_AT_ONCE);
	rig_stop(&rig);
}

/* What a project's sandboxes write in all is paced: many of them cost no more than a few. */
TEST(a_projects_second_flood_is_paced_by_the_first_and_another_projects_is_not)
{
	struct fake_agent *second, *other;
	struct sandbox *s;

	write_paced(1);
	s = rig_create(&rig, "second");
	second = fake_agent_find(&rig.broker, sandbox_id(s));
	write_frames(s, second, 1);
	s = rig_create_in(&rig, "prj_other", "box");
	other = fake_agent_find(&rig.broker, sandbox_id(s));
	write_frames(s, other, 1);
	UNTIL(&rig.broker, fake_channel_last(other)->acked == ACKED_AT_ONCE);
	CHECK_INT(fake_channel_last(second)->acked, 0);
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
	box_start();
	e = rig_exec(&rig, box, "cat", true);
	watch(e, &w);
	while (sent < 1 << 20) {
		ssize_t n = exec_write_stdin(e, data + sent, (1 << 20) - sent, &err);

		CHECK(n >= 0);
		sent += (size_t)n;
		if (n > 0)
			continue;
		UNTIL(&rig.broker, box_channel()->input.len == sent);
		CHECK_INT(sent % FRAME_WINDOW, 0);
		w.calls = 0;
		fake_take_input(agent, box_channel());
		UNTIL(&rig.broker, w.calls > 0);
	}
	CHECK_INT(exec_close_stdin(e, &err), 0);
	UNTIL(&rig.broker, box_channel()->is_input_ended);
	CHECK_MEM(box_channel()->input.data, box_channel()->input.len, data, 1 << 20);
	CHECK(exec_write_stdin(e, "x", 1, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	exec_watch_remove(&w.watch);
	rig_stop(&rig);
}

TEST(input_on_its_way_when_the_connection_is_lost_arrives_once)
{
	struct exec *e;
	ssize_t n;

	box_start();
	e = rig_exec(&rig, box, "cat", true);
	CHECK_INT(exec_write_stdin(e, "one ", 4, NULL), 4);
	UNTIL(&rig.broker, box_channel()->input.len == 4);
	CHECK_INT(exec_write_stdin(e, "two ", 4, NULL), 4);
	fake_agent_hang_up(agent); /* "two " is in the queue or the socket */
	UNTIL(&rig.broker, box_channel()->input.len == 8);
	do {
		fake_turn(&rig.broker);
		n = exec_write_stdin(e, "three", 5, NULL);
	} while (n == 0);
	CHECK_INT(exec_close_stdin(e, NULL), 0);
	UNTIL(&rig.broker, box_channel()->is_input_ended);
	CHECK_MEM(box_channel()->input.data, box_channel()->input.len, "one two three", 13);
	rig_stop(&rig);
}

TEST(an_exec_without_stdin_refuses_input)
{
	struct exec *e;
	struct err err = {0};

	box_start();
	e = rig_exec(&rig, box, "true", false);
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

	box_start();
	e = rig_exec(&rig, box, "sleep 9", false);
	CHECK_INT(exec_signal(e, SIGINT, false, &err), 0);
	UNTIL(&rig.broker, box_channel()->signals == 1);
	CHECK_INT(box_channel()->last_signal, SIGINT);
	CHECK_INT(box_channel()->last_scope, SCOPE_GROUP);
	CHECK_INT(exec_signal(e, SIGKILL, true, &err), 0);
	UNTIL(&rig.broker, box_channel()->signals == 2);
	CHECK_INT(box_channel()->last_scope, SCOPE_TREE);
	CHECK(exec_signal(e, 0, false, &err) < 0);
	CHECK(exec_signal(e, 65, false, &err) < 0);
	CHECK_STR(err.field, "signal");
	fake_exit(agent, box_channel(), EXIT_SIGNAL, SIGKILL);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK(exec_signal(e, SIGTERM, false, &err) < 0);
	CHECK_INT(err.code, ERR_GONE);
	rig_stop(&rig);
}

TEST(removing_an_exec_tells_its_watchers_and_leaves_no_file)
{
	struct watcher first = {.removes = true}, second = {0};
	struct exec *e;

	box_start();
	e = rig_exec(&rig, box, "x", false);
	watch(e, &first);
	watch(e, &second);
	box_say("some");
	UNTIL(&rig.broker, first.is_gone && second.is_gone && box_channel()->is_forgotten);
	CHECK(exec_find(box, box_channel()->start.tag) == NULL);
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(the_oldest_finished_execs_make_room_and_running_ones_do_not)
{
	struct exec_spec spec = {.shell = "x"};
	struct exec *e;
	struct err err = {0};
	char first[64];

	box_start();
	e = rig_exec(&rig, box, "x", false);
	(void)snprintf(first, sizeof(first), "%s", exec_id(e));
	box_say("bytes");
	fake_exit(agent, box_channel(), EXIT_CODE, 0);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	for (int i = 0; i < 4; i++) /* the fourth takes the first one's place */
		(void)rig_exec(&rig, box, "x", false);
	CHECK(exec_find(box, first) == NULL);
	CHECK_INT(rig_spools(&rig), 0);
	CHECK(exec_start(box, &spec, &e, &err) < 0);
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

	box_start();
	e = rig_exec(&rig, box, "x", false);
	fake_started(agent, box_channel());
	box_say("bytes");
	UNTIL(&rig.broker, rig_spools(&rig) == 1);
	watch(e, &w);
	rig.broker.holds_deletes = true;
	sandbox_delete(box, END_DELETED, rig_note, &o);
	UNTIL(&rig.broker, w.calls > 0);
	CHECK_INT(exec_state(e), EXEC_EXITED);
	CHECK(strstr(rig_exec_json(e),
	             "\"exit_code\":null,\"signal\":null,\"cause\":\"deleted\"") != NULL);
	CHECK(exec_start(box, &spec, &e, &err) < 0);
	CHECK_INT(err.code, ERR_GONE);
	UNTIL(&rig.broker, rig.broker.deletes > 0);
	fake_broker_release(&rig.broker);
	UNTIL(&rig.broker, o.calls > 0);
	CHECK(w.is_gone);
	CHECK_INT(rig_spools(&rig), 0);
	rig_stop(&rig);
}

TEST(a_full_disk_of_the_host_loses_output_and_not_the_exec)
{
	auto_free char *path = NULL;
	struct exec *e;

	box_start();
	e = rig_exec(&rig, box, "x", false);
	fake_started(agent, box_channel());
	/* A directory in its place stands for every reason not to open the file. */
	path = xasprintf("%s/%s", rig.dir, exec_id(e));
	CHECK_INT(mkdir(path, 0700), 0);
	box_say("lost");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	CHECK_INT(rmdir(path), 0);
	box_say("kept");
	fake_exit(agent, box_channel(), EXIT_CODE, 0);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK(strstr(rig_exec_json(e), "\"exit_code\":0") != NULL);
	box_check_output(e, SPOOL_STDOUT, "[gap 4]kept");
	rig_stop(&rig);
}
