// SPDX-License-Identifier: Apache-2.0
/* Contexts and calls over the link: the test plays the interpreter. */
#include "sandbox-rig.h"
#include "sandbox/code/code_call.h"
#include "sandbox/model/fleet_state.h"
#include "telemetry/telemetry.h"

#include <signal.h>
#include <string.h>

static struct rig rig;
static struct sandbox *s;
static struct fake_agent *agent;

struct told { /* of one call */
	struct code_call *call;
	struct buf text; /* what came, in order: o(…) e(…) r(…) d(…) x(…) */
	bool has_started, has_end, has_failed;
	struct code_end end;
	struct err err;
};

static void start(void)
{
	rig_start(&rig);
	s = rig_create(&rig, "box");
	agent = fake_agent_only(&rig.broker);
}

static struct fake_channel *last(void)
{
	return fake_channel_last(agent);
}

static void on_start(void *arg)
{
	struct told *t = arg;

	t->has_started = true;
}

static void on_output(enum frame_stream stream, const char *data, size_t len, void *arg)
{
	struct told *t = arg;

	CHECK_INT(buf_printf(&t->text, "%c(%.*s)", stream == STREAM_STDOUT ? 'o' : 'e', (int)len,
	                     data),
	          0);
}

static void on_event(enum code_event event, json_t *value, void *arg)
{
	static const char letters[] = "rdx";
	const char *text = json_string_value(json_object_get(value, "message"));
	struct told *t = arg;

	if (event != CODE_EVENT_ERROR)
		text = json_string_value(
			json_object_get(json_object_get(value, "data"), "text/plain"));
	CHECK_INT(buf_printf(&t->text, "%c(%s)", letters[event], text), 0);
}

static void on_end(struct context *c, const struct code_end *end, const struct err *err, void *arg)
{
	struct told *t = arg;

	(void)c;
	CHECK(!t->has_end && !end != !err);
	t->has_end = true;
	t->has_failed = err != NULL;
	if (err)
		t->err = *err;
	else
		t->end = *end;
}

static const struct code_ops ops = {
	.on_start = on_start, .on_output = on_output, .on_event = on_event, .on_end = on_end};

static void run(struct told *t, const struct code_spec *spec)
{
	struct err err = {0};

	*t = (struct told){.text = BUF_INIT(1 << 16)};
	if (code_run(s, spec, &ops, t, &t->call, &err) < 0)
		CHECK_STR(err.message, "");
}

static void say(const char *verb, unsigned call, const char *payload)
{
	auto_free char *text = xasprintf("%s %u %zu\n%s", verb, call, strlen(payload), payload);

	fake_output(agent, last(), STREAM_RECORD, text, strlen(text));
}

static void print(const char *text)
{
	fake_output(agent, last(), STREAM_STDOUT, text, strlen(text));
}

static bool has_input(const char *text)
{
	return last() && strstr(buf_str(&last()->input), text) != NULL;
}

/* A call on a fresh interpreter, up to where the code runs. */
static void begin(struct told *t, const char *code, uint64_t timeout_ms)
{
	const struct code_spec spec = {.code = code, .timeout_ms = timeout_ms};
	struct fake_channel *before = last();

	run(t, &spec);
	UNTIL(&rig.broker, last() != before);
	fake_started(agent, last());
	say("ready", 0, "{}");
	UNTIL(&rig.broker, t->has_started && has_input(code));
}

/* What the driver is sent for a call of a traced request, if that was its first word. */
static char *sent_after(const char *ready)
{
	const struct trace_wish wish = {
		.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		.tracestate = "a=1",
		.project_id = "prj_test"};
	const struct code_spec spec = {.code = "6*7"};
	struct trace *trace;
	char *input;
	struct told t;

	start();
	rig.fleet->config.telemetry =
		telemetry_new(&(struct telemetry_config){.outgoing = {.loop = rig.loop}});
	trace = trace_begin(rig.fleet->config.telemetry, &wish);
	trace_enter(rig.fleet->config.telemetry, trace);
	run(&t, &spec);
	trace_enter(rig.fleet->config.telemetry, NULL);
	trace_end(trace, 0, NULL);
	UNTIL(&rig.broker, last() != NULL);
	fake_started(agent, last());
	say("ready", 0, ready);
	UNTIL(&rig.broker, t.has_started && has_input("6*7"));
	input = xstrdup(buf_str(&last()->input));
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	telemetry_free(take_ptr(rig.fleet->config.telemetry));
	return input;
}

TEST(a_trace_is_told_to_a_driver_that_knows_env)
{
	auto_free char *sent = sent_after("{\"env\":true}");

	CHECK_STR(sent, "env 1 83\nTRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-"
	                "b7ad6b7169203331-00\nTRACESTATE=a=1\nrun 1 3\n6*7");
}

TEST(a_trace_is_not_told_to_a_driver_of_before)
{
	auto_free char *sent = sent_after("{}");

	CHECK_STR(sent, "run 1 3\n6*7");
}

TEST(a_call_runs_in_an_interpreter_and_gives_its_value)
{
	struct told t;

	start();
	begin(&t, "6*7", 0);
	CHECK_INT(last()->start.kind, START_FORKED);
	CHECK_INT(rig.broker.forks, 1);
	CHECK_STR(last()->start.argv[0], "python3");
	CHECK_STR(buf_str(&last()->input), "run 1 3\n6*7");
	print("hi");
	say("result", 1, "{\"data\":{\"text/plain\":\"42\"},\"metadata\":{}}");
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	CHECK(!t.has_failed);
	CHECK_STR(buf_str(&t.text), "o(hi)r(42)");
	CHECK_INT(t.end.status, CODE_OK);
	CHECK_INT(t.end.count, 1);
	CHECK(!t.end.is_restarted && !t.end.cause);
	buf_done(&t.text);
	rig_stop(&rig);
}

/* Up to where the code runs in a second process, which is begun the ordinary way. */
static void await_afresh(struct told *t)
{
	UNTIL(&rig.broker, last() && last()->start.kind == START_KERNEL);
	fake_started(agent, last());
	say("ready", 0, "{}");
	UNTIL(&rig.broker, t->has_started);
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t->has_end);
	CHECK_INT(t->end.status, CODE_OK);
	CHECK(!t->end.is_restarted);
}

TEST(a_fork_that_the_broker_refuses_is_a_fresh_start_and_no_more)
{
	const struct code_spec spec = {.code = "1"};
	struct told t;

	start();
	rig.broker.refuses_fork = true;
	run(&t, &spec);
	await_afresh(&t);
	CHECK_INT(rig.broker.forks, 1);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_fork_that_ends_before_it_is_ready_is_a_fresh_start_and_no_more)
{
	const struct code_spec spec = {.code = "1"};
	struct fake_channel *forked;
	struct told t;

	start();
	run(&t, &spec);
	UNTIL(&rig.broker, (forked = last()) && rig.broker.forks == 1);
	fake_exit(agent, forked, EXIT_FAILED, EPERM);
	await_afresh(&t);
	CHECK_INT(rig.broker.forks, 1);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_broker_that_dies_before_it_tells_of_a_fork_takes_no_interpreter_along)
{
	struct fake_channel *forked;
	struct told t;

	start();
	rig.broker.ignores_fork = true;
	begin(&t, "1", 0);
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	forked = last();
	fake_broker_die(&rig.broker);
	for (int i = 0; i < 20; i++)
		fake_turn(&rig.broker);
	CHECK(last() == forked);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(what_is_read_at_a_start_of_python_is_no_matter_for_a_fork)
{
	auto_json json_t *env = json_pack("{s:s}", "PYTHONPATH", "/srv");
	const struct code_spec spec = {.code = "1", .env = env};
	struct told t;

	start();
	run(&t, &spec);
	UNTIL(&rig.broker, last());
	CHECK_INT(last()->start.kind, START_KERNEL);
	CHECK_INT(rig.broker.forks, 0);
	code_abandon(t.call);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(calls_of_a_context_run_one_after_the_other)
{
	const struct code_spec second = {.code = "second"};
	const struct code_spec refused = {.code = "third", .refuses_busy = true};
	struct code_call *call;
	struct told a, b;
	struct err err;

	start();
	begin(&a, "first", 0);
	run(&b, &second);
	CHECK(code_run(s, &refused, &ops, &b, &call, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(!has_input("second"));
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, a.has_end && has_input("run 2 6\nsecond"));
	say("done", 2, "{\"status\":\"error\",\"count\":2}");
	UNTIL(&rig.broker, b.has_end);
	CHECK_INT(b.end.status, CODE_ERROR);
	buf_done(&a.text);
	buf_done(&b.text);
	rig_stop(&rig);
}

TEST(what_no_driver_sends_ends_the_interpreter_and_not_the_sandbox)
{
	static const char *const lies[] = {"garbage\n",    "done 2 2\n{}",   "ready 0 2\n{}",
	                                   "done 1 2\n{}", "result 0 2\n{}", "done 1 99999999\n"};

	start();
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct fake_channel *was;
		struct told t;

		begin(&t, "x", 0);
		was = last();
		fake_output(agent, last(), STREAM_RECORD, lies[i], strlen(lies[i]));
		UNTIL(&rig.broker, t.has_end && was->is_forgotten);
		CHECK_INT(t.end.status, CODE_DIED);
		CHECK_MEM(buf_str(&t.text), 10, "x(the code", 10);
		buf_done(&t.text);
		context_remove(context_find(s, "python"));
	}
	CHECK_INT(sandbox_state(s), SANDBOX_RUNNING);
	rig_stop(&rig);
}

TEST(a_call_that_is_done_before_its_code_was_read_breaks_the_interpreter)
{
	auto_free char *code = xcalloc(1, CODE_BYTES_MAX + 1);
	const struct code_spec spec = {.code = code};
	struct told t;

	start();
	memset(code, 'x', CODE_BYTES_MAX); /* more than a window */
	run(&t, &spec);
	UNTIL(&rig.broker, last() != NULL);
	fake_started(agent, last());
	say("ready", 0, "{}");
	UNTIL(&rig.broker, t.has_started);
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	CHECK_INT(t.end.status, CODE_DIED);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_death_ends_the_call_and_the_next_one_starts_afresh)
{
	struct told t;

	start();
	begin(&t, "one", 0);
	print("last");
	fake_exit(agent, last(), EXIT_SIGNAL, SIGSEGV);
	UNTIL(&rig.broker, t.has_end);
	CHECK_INT(t.end.status, CODE_DIED);
	CHECK_INT(t.end.signal, SIGSEGV);
	CHECK_STR(buf_str(&t.text), "o(last)x(the interpreter was killed by SIGSEGV)");
	buf_done(&t.text);
	begin(&t, "two", 0);
	CHECK_STR(buf_str(&last()->input), "run 2 3\ntwo");
	say("done", 2, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	CHECK(t.end.is_restarted);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(death_by_memory_is_told_by_the_broker)
{
	struct told t;

	start();
	begin(&t, "one", 0);
	rig.broker.oom_kills = 1;
	fake_exit(agent, last(), EXIT_SIGNAL, SIGKILL);
	UNTIL(&rig.broker, t.has_end);
	CHECK_STR(t.end.cause, "oom");
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_call_over_its_time_is_interrupted)
{
	struct told t;

	start();
	begin(&t, "loop", 1);
	UNTIL(&rig.broker, last()->signals > 0);
	CHECK_INT(last()->last_signal, SIGINT);
	CHECK_INT(last()->last_scope, SCOPE_GROUP);
	say("done", 1, "{\"status\":\"error\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	CHECK_STR(t.end.cause, "timeout");
	CHECK(!last()->is_forgotten); /* its state stays */
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_program_that_is_not_there_is_unsupported)
{
	const struct code_spec spec = {.code = "1", .language = "javascript"};
	struct told t;

	start();
	run(&t, &spec);
	UNTIL(&rig.broker, last() != NULL);
	(void)snprintf(last()->exit.message, sizeof(last()->exit.message),
	               "argv[0]: no such program 'node'");
	fake_exit(agent, last(), EXIT_FAILED, ENOENT);
	UNTIL(&rig.broker, t.has_end);
	CHECK_INT(t.err.code, ERR_UNSUPPORTED);
	CHECK(strstr(t.err.message, "'node'") != NULL);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_paused_call_holds_the_stream_and_loses_nothing)
{
	struct told t;

	start();
	begin(&t, "x", 0);
	code_pause(t.call, true);
	print("a");
	fake_output(agent, last(), STREAM_STDERR, "b", 1);
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	fake_exit(agent, last(), EXIT_CODE, 0);
	for (int i = 0; i < 20; i++)
		fake_turn(&rig.broker);
	CHECK(!t.has_end);
	CHECK_STR(buf_str(&t.text), "");
	code_pause(t.call, false);
	UNTIL(&rig.broker, t.has_end);
	CHECK_STR(buf_str(&t.text), "o(a)e(b)");
	CHECK_INT(t.end.status, CODE_OK);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(an_abandoned_call_goes_on_and_tells_nobody)
{
	struct told t;

	start();
	begin(&t, "x", 0);
	code_abandon(t.call);
	print("a");
	say("done", 1, "{\"status\":\"ok\",\"count\":5}");
	for (int i = 0; i < 20; i++)
		fake_turn(&rig.broker);
	CHECK(!t.has_end);
	CHECK_INT(last()->signals, 0);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(the_end_of_the_sandbox_ends_running_and_waiting_calls)
{
	const struct code_spec second = {.code = "second"};
	struct told a, b;

	start();
	begin(&a, "first", 0);
	run(&b, &second);
	rig_delete(&rig, s);
	CHECK(a.has_failed && b.has_failed);
	CHECK_INT(a.err.code, ERR_GONE);
	CHECK_INT(b.err.code, ERR_GONE);
	buf_done(&a.text);
	buf_done(&b.text);
	rig_stop(&rig);
}

TEST(a_lost_connection_costs_no_state)
{
	struct told t;

	start();
	begin(&t, "x", 0);
	fake_agent_hang_up(agent);
	print("a");
	say("done", 1, "{\"status\":\"ok\",\"count\":1}");
	UNTIL(&rig.broker, t.has_end);
	CHECK_STR(buf_str(&t.text), "o(a)");
	CHECK_INT(t.end.status, CODE_OK);
	buf_done(&t.text);
	rig_stop(&rig);
}

static void restart_gateway(void)
{
	rig_go_away(&rig);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	agent = fake_agent_only(&rig.broker);
}

static void say_done(unsigned call, unsigned count)
{
	auto_free char *payload = xasprintf("{\"status\":\"ok\",\"count\":%u}", count);

	say("done", call, payload);
}

/* The number that the new gateway asks the interpreter to repeat. */
static unsigned await_sync(struct fake_channel *ch)
{
	const char *at;

	UNTIL(&rig.broker, (at = strstr(buf_str(&ch->input), "sync ")) && strchr(at, '\n'));
	return (unsigned)strtoul(at + strlen("sync "), NULL, 10);
}

TEST(an_interpreter_outlives_the_gateway_with_its_state)
{
	const struct context_spec named = {.name = "side", .language = "bash"};
	const struct code_spec next = {.code = "2"};
	struct fake_channel *was;
	struct context *c;
	struct told t;

	start();
	CHECK_INT(context_create(s, &named, &c, NULL), 0);
	begin(&t, "1", 0);
	was = last();
	say_done(1, 1);
	UNTIL(&rig.broker, t.has_end);
	buf_done(&t.text);
	restart_gateway();
	CHECK(context_find(s, "side") != NULL);
	run(&t, &next);
	say_done(await_sync(was), 1);
	UNTIL(&rig.broker, t.has_started && has_input("run 2 1\n2"));
	CHECK(last() == was && !was->is_forgotten);
	say("result", 2, "{\"data\":{\"text/plain\":\"2\"},\"metadata\":{}}");
	say_done(2, 2);
	UNTIL(&rig.broker, t.has_end);
	CHECK_STR(buf_str(&t.text), "r(2)");
	CHECK(!t.end.is_restarted);
	CHECK_INT(t.end.count, 2);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(what_ran_when_the_gateway_died_is_passed_over)
{
	const struct code_spec next = {.code = "2"};
	struct fake_channel *was;
	struct told old, t;

	start();
	begin(&old, "1", 0);
	was = last();
	print("seen");
	UNTIL(&rig.broker, old.text.len > 0);
	rig_go_away(&rig);
	was->acked = was->output.len - 2; /* the next gateway begins inside of something */
	print("unseen");
	say("result", 1, "{\"data\":{\"text/plain\":\"done 1 2\"},\"metadata\":{}}");
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	run(&t, &next);
	(void)await_sync(was);
	for (int i = 0; i < 20; i++)
		fake_turn(&rig.broker);
	CHECK(!t.has_started); /* the old call runs on */
	say_done(1, 1);
	say_done(await_sync(was), 1);
	UNTIL(&rig.broker, t.has_started && has_input("run 2 1\n2"));
	print("mine");
	say_done(2, 2);
	UNTIL(&rig.broker, t.has_end);
	CHECK_STR(buf_str(&t.text), "o(mine)");
	buf_done(&old.text);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(an_interpreter_that_ended_while_the_gateway_was_away_is_told_as_restarted)
{
	struct fake_channel *was;
	struct told t;

	start();
	begin(&t, "1", 0);
	was = last();
	rig_go_away(&rig);
	fake_exit(agent, was, EXIT_CODE, 3);
	fake_closed(agent, was);
	buf_done(&t.text);
	rig_come_back(&rig);
	s = sandbox_find(rig.fleet, "prj_test", "box");
	UNTIL(&rig.broker, was->is_forgotten);
	begin(&t, "2", 0);
	say_done(1, 1);
	UNTIL(&rig.broker, t.has_end);
	CHECK(t.end.is_restarted);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(an_interpreter_that_may_have_got_half_of_its_code_is_dropped)
{
	auto_free char *code = xcalloc(1, FRAME_DATA_MAX + 1);
	struct fake_channel *was;
	struct told t;

	memset(code, ' ', FRAME_DATA_MAX);
	start();
	begin(&t, code, 0);
	was = last();
	buf_done(&t.text);
	restart_gateway();
	UNTIL(&rig.broker, was->is_forgotten);
	begin(&t, "2", 0);
	say_done(1, 1);
	UNTIL(&rig.broker, t.has_end);
	CHECK(t.end.is_restarted);
	buf_done(&t.text);
	rig_stop(&rig);
}

TEST(a_context_that_was_removed_stays_so)
{
	const struct context_spec named = {.name = "side", .language = "bash"};
	struct context *c;

	start();
	CHECK_INT(context_create(s, &named, &c, NULL), 0);
	context_remove(c);
	restart_gateway();
	CHECK(context_find(s, "side") == NULL);
	rig_stop(&rig);
}
