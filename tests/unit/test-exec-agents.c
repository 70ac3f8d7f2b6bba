// SPDX-License-Identifier: Apache-2.0
/* Agents that are silent, do not read, or lie. */
#include "exec-rig.h"

#include <endian.h>
#include <signal.h>

TEST(what_an_agent_says_of_a_forgotten_channel_is_dropped)
{
	struct fake_channel *gone;
	struct exec *e;

	box_start();
	exec_remove(rig_exec(&rig, box, "x", false));
	gone = box_channel();
	e = rig_exec(&rig, box, "x", false);
	UNTIL(&rig.broker, gone->is_forgotten);
	fake_output(agent, gone, STREAM_STDOUT, "ghost", 5);
	fake_exit(agent, gone, EXIT_CODE, 0);
	fake_closed(agent, gone);
	box_say("real");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	box_check_output(e, SPOOL_STDOUT, "real");
	CHECK_INT(sandbox_state(box), SANDBOX_RUNNING);
	rig_stop(&rig);
}

/* Started at an agent that reads nothing more. */
static struct exec *start_unread(const char *shell)
{
	struct exec_spec spec = {.shell = shell, .has_stdin = true};
	struct exec *e = NULL;
	struct err err = {0};

	agent->is_deaf = true;
	CHECK_INT(exec_start(box, &spec, &e, &err), 0);
	CHECK_INT(exec_write_stdin(e, "words", 5, &err), 5);
	return e;
}

TEST(what_a_lost_connection_swallowed_is_started_again)
{
	struct exec *e;

	box_start();
	e = start_unread("x");
	link_flush(box->link);
	fake_agent_hang_up(agent);
	CHECK(box_channel() == NULL);
	agent->is_deaf = false;
	UNTIL(&rig.broker, box_channel() && box_channel()->input.len == 5);
	CHECK_STR(box_channel()->start.tag, exec_id(e));
	box_say("here");
	UNTIL(&rig.broker, spool_last_seq(exec_spool(e)) == 1);
	box_check_output(e, SPOOL_STDOUT, "here");
	CHECK(!exec_is_over(e));
	rig_stop(&rig);
}

TEST(what_an_agent_never_takes_is_lost_at_the_second_time)
{
	struct exec *e;

	box_start();
	e = start_unread("x");
	agent->hello = HELLO_THEN_DEAF;
	for (unsigned hellos = 1; hellos < 3; hellos++) {
		fake_agent_hang_up(agent);
		UNTIL(&rig.broker, agent->hellos > hellos && link_is_up(box->link));
		CHECK_INT(exec_is_over(e), hellos == 2);
	}
	CHECK_INT(exec_state(e), EXEC_FAILED);
	CHECK_INT(exec_failure(e)->code, ERR_GUEST);
	CHECK_INT(sandbox_state(box), SANDBOX_RUNNING);
	rig_stop(&rig);
}

TEST(an_agent_that_does_not_answer_makes_calls_fail_until_it_does)
{
	struct exec_spec spec = {.shell = "x"};
	struct exec *e, *other;
	struct err err = {0};

	box_start();
	rig_go_away(&rig);
	rig.is_hasty = true;
	agent->is_mute = true;
	rig_come_back(&rig);
	box = sandbox_find(rig.fleet, "prj_test", "box");
	e = rig_exec(&rig, box, "x", false);
	UNTIL(&rig.broker, exec_is_over(e));
	CHECK_INT(exec_state(e), EXEC_FAILED);
	CHECK_INT(exec_failure(e)->code, ERR_UNAVAILABLE);
	CHECK(exec_start(box, &spec, &other, &err) < 0);
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	CHECK_INT(sandbox_state(box), SANDBOX_RUNNING);
	{
		uint64_t ping = htole64(agent->pings); /* this connection's first was its first */

		fake_agent_send(agent, FRAME_PONG, 0, &ping, sizeof(ping));
	}
	agent->is_mute = false;
	UNTIL(&rig.broker, exec_start(box, &spec, &other, &err) == 0);
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

	box_start();
	rig_go_away(&rig);
	rig.is_hasty = true;
	rig_come_back(&rig);
	box = sandbox_find(rig.fleet, "prj_test", "box");
	box->engine = engine_find_name("vm")->number;
	CHECK_INT(sandbox_pause(box, rig_note, &o, &err), 0);
	UNTIL(&rig.broker, o.calls == 1);
	agent->is_mute = true;
	pings = agent->pings;
	UNTIL(&rig.broker, agent->pings > pings);
	timer = loop_timer_new(rig.loop, on_time, &is_over);
	loop_timer_set_in(timer, 200000); /* several times its patience */
	UNTIL(&rig.broker, is_over);
	loop_timer_free(timer);
	CHECK_INT(sandbox_state(box), SANDBOX_PAUSED);
	CHECK_INT(sandbox_resume(box, rig_note, &o, &err), 0);
	UNTIL(&rig.broker, sandbox_state(box) == SANDBOX_FAILED);
	CHECK_INT(box->end.cause, END_GUEST_CRASH);
	CHECK_STR(json_string_value(json_object_get(box->end.detail, "machine")), "hang");
	rig_stop(&rig);
}

TEST(an_agent_that_does_not_read_bounds_what_is_queued_for_it)
{
	auto_free char *data = calloc(1, FRAME_WINDOW);
	size_t taken = 0;

	box_start();
	agent->is_deaf = true;
	for (int i = 0; i < 4; i++) {
		struct exec_spec spec = {.shell = "x", .has_stdin = true};
		struct exec *e = NULL;
		struct err err;
		ssize_t n;

		CHECK_INT(exec_start(box, &spec, &e, &err), 0);
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
	fake_agent_send(agent, FRAME_STARTED, box_channel()->number, pid, sizeof(pid));
	agent->epoch = saved;
}

static void output_at(uint64_t offset, uint8_t stream)
{
	unsigned char payload[10] = {0};

	offset = htole64(offset);
	memcpy(payload, &offset, sizeof(offset));
	payload[8] = stream;
	fake_agent_send(agent, FRAME_OUTPUT, box_channel()->number, payload, sizeof(payload));
}

static void exit_with(enum exit_how how, uint32_t value, uint64_t output_end)
{
	struct buf payload = BUF_INIT(512);
	struct channel_exit x = {.how = EXIT_CODE, .output_end = output_end};

	CHECK_INT(channel_exit_encode(&x, &payload), 0);
	value = htole32(value); /* the encoder would refuse it */
	payload.data[0] = (char)how;
	memcpy(payload.data + 1, &value, sizeof(value));
	fake_agent_send(agent, FRAME_EXIT, box_channel()->number, payload.data, payload.len);
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
		fake_agent_send(agent, FRAME_FORGET, box_channel()->number, NULL, 0);
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
		fake_started(agent, box_channel());
		fake_started(agent, box_channel());
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
		fake_agent_send(agent, FRAME_CLOSED, box_channel()->number, NULL, 0);
		break;
	case 17: /* input that was never sent */
		fake_agent_send(agent, FRAME_INPUT_ACK, box_channel()->number, &word, sizeof(word));
		break;
	case 18:
		fake_agent_send(agent, FRAME_WELCOME, 0, zeros, 8);
		break;
	case 19: /* started after its end */
		exit_with(EXIT_CODE, 0, 0);
		fake_started(agent, box_channel());
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

		box = rig_create(&rig, NULL);
		(void)snprintf(id, sizeof(id), "%s", sandbox_id(box));
		agent = fake_agent_find(&rig.broker, id);
		e = rig_exec(&rig, box, "x", false);
		(void)e;
		lie(i);
		UNTIL(&rig.broker, sandbox_state(box) == SANDBOX_FAILED);
		CHECK(strstr(rig_json(box), "\"cause\":\"guest_crash\"") != NULL);
		CHECK(fake_agent_find(&rig.broker, id) == NULL);
		CHECK_INT(sandbox_state(other), SANDBOX_RUNNING);
	}
	rig_stop(&rig);
}

TEST(times_beyond_all_bounds_are_shown_and_survive_a_restart)
{
	struct exec *e;
	char id[64];

	box_start();
	e = rig_exec(&rig, box, "x", false);
	(void)snprintf(id, sizeof(id), "%s", exec_id(e));
	box_channel()->exit.user_us = UINT64_MAX;
	box_channel()->exit.max_rss_kib = UINT64_C(1) << 63;
	fake_started(agent, box_channel());
	fake_exit(agent, box_channel(), EXIT_CODE, 0);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	box_restart();
	e = exec_find(box, id);
	CHECK(e != NULL);
	CHECK(strstr(rig_exec_json(e), "\"user_us\":9223372036854775807") != NULL);
	rig_stop(&rig);
}
