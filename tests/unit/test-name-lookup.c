// SPDX-License-Identifier: Apache-2.0
/* Who is asked which node has a name, and what is believed: without a member, whose answers the
 * test gives. */
#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "node/node.h"

#include <stdio.h>
#include <string.h>

#define CALLS_MAX 4096
#define HOLDER    "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct {
	struct loop *loop;
	struct node *node;
	struct {
		node_answer_fn fn;
		void *arg;
		char name[64], project[40];
	} calls[CALLS_MAX];
	size_t n_calls, n_answered;
	size_t n_told;
	uint32_t told; /* the last one */
	enum err_code failed;
} rig;

static void on_call(const json_t *call, node_answer_fn fn, void *arg, void *link)
{
	(void)link;
	if (strcmp(json_string_value(json_object_get(call, "call")), "named") != 0)
		return; /* of records: they wait for ever */
	CHECK(rig.n_calls < CALLS_MAX);
	rig.calls[rig.n_calls].fn = fn;
	rig.calls[rig.n_calls].arg = arg;
	(void)snprintf(rig.calls[rig.n_calls].name, sizeof(rig.calls[0].name), "%s",
	               json_string_value(json_object_get(call, "name")));
	(void)snprintf(rig.calls[rig.n_calls++].project, sizeof(rig.calls[0].project), "%s",
	               json_string_value(json_object_get(call, "project_id")));
}

static void on_turn(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void turn(void)
{
	struct loop_timer *t = loop_timer_new(rig.loop, on_turn, NULL);

	loop_timer_set_in(t, 2000);
	CHECK_INT(loop_run(rig.loop), 0);
	loop_timer_free(t);
}

static void say(enum fence_state state)
{
	node_told(rig.node, &(struct cluster_word){.state = state, .node = 1, .epoch = 1});
}

static void begin(void)
{
	struct err err;

	log_init("test", LOG_ERROR + 1);
	memset(&rig, 0, sizeof(rig));
	CHECK_INT(loop_new(&rig.loop, &err), 0);
	rig.node = node_new(&(struct node_config){.loop = rig.loop, .call = on_call});
	say(FENCE_HELD);
}

/* Whose answer has not come when the member goes is told so. */
static void answer_rest(void)
{
	struct err err = {.code = ERR_CLUSTER};

	while (rig.n_answered < rig.n_calls) {
		rig.n_answered++;
		rig.calls[rig.n_answered - 1].fn(NULL, &err, rig.calls[rig.n_answered - 1].arg);
	}
}

static void end(void)
{
	node_told(rig.node, NULL);
	answer_rest();
	node_free(rig.node);
	loop_free(rig.loop);
}

static void on_found(uint32_t node, const struct err *err, void *arg)
{
	(void)arg;
	rig.n_told++;
	rig.told = node;
	rig.failed = err ? err->code : ERR_NONE;
}

static int ask_for(const char *project, const char *name, uint64_t since_us, uint32_t *ret)
{
	struct err err = {0};
	int r = node_find_name(
		rig.node,
		&(struct node_name){.project_id = project, .name = name, .since_us = since_us}, ret,
		on_found, NULL, &err);

	rig.failed = r < 0 ? err.code : ERR_NONE;
	return r;
}

static int ask(const char *name, uint32_t *ret)
{
	return ask_for("prj_a", name, clock_steady_us(), ret);
}

static void answer(json_t *value)
{
	CHECK(rig.n_answered < rig.n_calls);
	rig.n_answered++;
	rig.calls[rig.n_answered - 1].fn(value, NULL, rig.calls[rig.n_answered - 1].arg);
	json_decref(value);
}

static json_t *has(int node)
{
	return json_pack("{ss si}", "holder", HOLDER, "node", node);
}

static json_t *nobody(void)
{
	return json_pack("{sn sn}", "holder", "node");
}

TEST(all_who_want_a_name_share_a_question_and_its_answer)
{
	uint32_t node;

	begin();
	for (int i = 0; i < 100; i++)
		CHECK_INT(ask("desk", &node), 0);
	turn();
	CHECK_INT(rig.n_calls, 1);
	CHECK_STR(rig.calls[0].name, "desk");
	CHECK_STR(rig.calls[0].project, "prj_a");
	answer(has(2));
	CHECK_INT(rig.n_told, 100);
	CHECK_INT(rig.told, 2);
	CHECK_INT(ask("desk", &node), 1);
	CHECK_INT(node, 2);
	CHECK_INT(ask_for("prj_b", "desk", 0, &node), 0); /* another project's */
	turn();
	CHECK_INT(rig.n_calls, 2);
	answer(nobody());
	CHECK_INT(rig.told, 0);
	CHECK_INT(ask("desk", &node), 1);
	end();
}

TEST(what_is_not_there_any_more_is_asked_for_again)
{
	uint32_t node;

	begin();
	CHECK_INT(ask("desk", &node), 0);
	turn();
	answer(has(2));
	node_forget_name(rig.node, "prj_a", "desk");
	node_forget_name(rig.node, "prj_a", "never-heard-of");
	CHECK_INT(ask("desk", &node), 0);
	turn();
	CHECK_INT(rig.n_calls, 2);
	answer(has(3));
	CHECK_INT(rig.told, 3);
	end();
}

TEST(that_nobody_has_a_name_is_told_to_those_alone_who_came_before_the_question)
{
	const uint64_t before = clock_steady_us();
	uint32_t node;

	begin();
	CHECK_INT(ask("desk", &node), 0);
	turn();
	CHECK_INT(rig.n_calls, 1);
	turn(); /* so that the next one comes later */
	CHECK_INT(ask("desk", &node), 0);
	answer(nobody());
	CHECK_INT(rig.n_told, 1);
	turn();
	CHECK_INT(rig.n_calls, 2); /* the second one's own */
	answer(has(2));
	CHECK_INT(rig.n_told, 2);
	CHECK_INT(rig.told, 2);
	node_forget_name(rig.node, "prj_a", "desk");
	CHECK_INT(ask("desk", &node), 0);
	turn();
	answer(nobody());
	CHECK_INT(ask_for("prj_a", "desk", before, &node), 1); /* a request that looks again */
	CHECK_INT(node, 0);
	turn();
	CHECK_INT(ask("desk", &node), 0); /* a later one */
	end();
}

TEST(a_flood_of_unknown_names_asks_little_and_holds_up_no_other_project)
{
	const uint64_t begun = clock_steady_us();
	unsigned n_refused = 0, n_waiting = 0;
	char name[32];
	uint32_t node;

	begin();
	for (int i = 0; i < 3000; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		if (ask(name, &node) < 0) {
			CHECK_INT(rig.failed, ERR_LIMIT);
			n_refused++;
		} else {
			n_waiting++;
		}
	}
	CHECK(n_refused > 2000);
	CHECK(n_waiting > 100); /* the control: some are let in */
	CHECK_INT(ask_for("prj_b", "desk", clock_steady_us(), &node), 0);
	for (int i = 0; i < 50; i++) {
		turn();
		while (rig.n_answered < rig.n_calls)
			answer(strcmp(rig.calls[rig.n_answered].project, "prj_b") == 0 ? has(2)
			                                                               : nobody());
	}
	CHECK(rig.n_calls > 30);
	CHECK(rig.n_calls < 45 + (clock_steady_us() - begun) / 50000);
	CHECK_INT(ask_for("prj_b", "desk", clock_steady_us(), &node), 1);
	CHECK_INT(node, 2);
	end();
}

TEST(names_that_somebody_has_cost_nothing)
{
	char name[32];
	uint32_t node;

	begin();
	for (int i = 0; i < 900; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		CHECK_INT(ask(name, &node), 0);
		turn();
		CHECK_INT(rig.n_calls, (size_t)i + 1);
		answer(has(2));
	}
	for (int i = 0; i < 3000; i++) { /* more than are kept */
		(void)snprintf(name, sizeof(name), "m%d", i);
		CHECK_INT(ask(name, &node), 0);
		turn();
		answer(has(3));
	}
	CHECK_INT(rig.told, 3);
	end();
}

TEST(a_lying_database_names_no_node)
{
	static const char *const lies[] = {
		"[]",
		"{}",
		"{\"holder\": null}",
		"{\"holder\": null, \"node\": 2}",
		"{\"holder\": \"" HOLDER "\", \"node\": null}",
		"{\"holder\": \"" HOLDER "\", \"node\": 0}",
		"{\"holder\": \"" HOLDER "\", \"node\": -1}",
		"{\"holder\": \"" HOLDER "\", \"node\": 9000000000}",
		"{\"holder\": \"" HOLDER "\", \"node\": 2.5}",
		"{\"holder\": \"" HOLDER "\", \"node\": \"2\"}",
		"{\"holder\": \"sb_../../etc\", \"node\": 2}",
		"{\"holder\": 7, \"node\": 2}",
		"{\"holder\": \"vo_aaaaaaaaaaaaaaaaaaaaaaaaaa\", \"node\": 2}",
	};
	uint32_t node;

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		json_t *lie = NULL;
		struct err err;

		CHECK_INT(json_parse(lies[i], strlen(lies[i]), &lie, &err), 0);
		CHECK_INT(ask("desk", &node), 0);
		turn();
		answer(lie);
		CHECK_INT(rig.n_told, i + 1);
		CHECK_INT(rig.failed, ERR_CLUSTER);
	}
	CHECK_INT(ask("desk", &node), 0);
	turn();
	answer(has(2)); /* the control */
	CHECK_INT(rig.told, 2);
	end();
}

TEST(without_the_database_what_was_known_is_believed_and_nothing_else)
{
	uint32_t node;

	begin();
	CHECK_INT(ask("desk", &node), 0);
	turn();
	answer(has(2));
	CHECK_INT(ask("slow", &node), 0);
	say(FENCE_FENCED);
	CHECK_INT(rig.n_told, 2); /* it was not sent yet */
	CHECK_INT(rig.failed, ERR_CLUSTER);
	CHECK_INT(ask("desk", &node), 1);
	CHECK_INT(node, 2);
	CHECK(ask("other", &node) < 0);
	CHECK_INT(rig.failed, ERR_CLUSTER);
	say(FENCE_HELD);
	CHECK_INT(ask("other", &node), 0);
	turn();
	answer_rest(); /* the member dies */
	CHECK_INT(rig.failed, ERR_CLUSTER);
	end();
}
