// SPDX-License-Identifier: Apache-2.0
/* What a node may run of the sandboxes that outlive it, and what it believes of the database:
 * without a member, whose answers the test gives. */
#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "node/owned.h"
#include "node/sealed_records.h"

#include <stdio.h>
#include <string.h>

#define OWN     "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER   "sb_bbbbbbbbbbbbbbbbbbbbbbbbbb"
#define PROJECT "prj_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define THIEF   "prj_bbbbbbbbbbbbbbbbbbbbbbbbbb"
#define FIRST   "sn_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SECOND  "sn_bbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct {
	struct loop *loop;
	struct node *node;
	node_answer_fn fn; /* of the call under way; NULL: none */
	void *arg;
	char name[32], id[40];
	char *sealed; /* of the last own */
	bool has_own; /* the node has a sandbox */
	uint64_t term;
	size_t n_changed, n_ended, n_taken;
	enum owned_fate fate;
	char taken[64], record[64];
} rig;

static const char *text_of(const json_t *call, const char *field)
{
	const char *text = json_string_value(json_object_get(call, field));

	return text ? text : "";
}

static void on_call(const json_t *call, node_answer_fn fn, void *arg, void *link)
{
	static const char *const ours[] = {"take_over", "owned_rows", "owner_of",
	                                   "owned_row", "moved_rows", "own"};
	const char *name = text_of(call, "call");

	(void)link;
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++) {
		if (strcmp(name, ours[i]) != 0)
			continue;
		CHECK(!rig.fn);
		rig.fn = fn;
		rig.arg = arg;
		(void)snprintf(rig.name, sizeof(rig.name), "%s", name);
		(void)snprintf(rig.id, sizeof(rig.id), "%s", text_of(call, "sandbox_id"));
		if (strcmp(name, "own") == 0) {
			free(rig.sealed);
			rig.sealed = xstrdup(text_of(call, "sealed"));
		}
	}
}

static void on_turn(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void turn_for(uint64_t us)
{
	struct loop_timer *t = loop_timer_new(rig.loop, on_turn, NULL);

	loop_timer_set_in(t, us);
	CHECK_INT(loop_run(rig.loop), 0);
	loop_timer_free(t);
}

/* Answers the call under way, which must be that. */
static void answer(const char *name, const char *json)
{
	auto_json json_t *value = json_loads(json, 0, NULL);
	const node_answer_fn fn = rig.fn;

	CHECK_STR(fn ? rig.name : "none", name);
	rig.fn = NULL;
	fn(value, NULL, rig.arg);
}

static void say(enum fence_state state, uint64_t epoch, uint64_t right_us)
{
	node_told(rig.node, &(struct cluster_word){.state = state,
	                                           .node = 1,
	                                           .epoch = epoch,
	                                           .right_us = right_us,
	                                           .lost_us = right_us + 100 * SECOND_US});
}

static uint64_t in_a_minute(void)
{
	return clock_steady_us() + 60 * SECOND_US;
}

static bool may_take(void *arg)
{
	(void)arg;
	return true;
}

static bool has(const char *id, void *arg)
{
	(void)arg;
	return rig.has_own && strcmp(id, OWN) == 0;
}

static void each(void (*fn)(const char *id, uint64_t term, void *fn_arg), void *fn_arg, void *arg)
{
	(void)arg;
	if (rig.has_own)
		fn(OWN, rig.term, fn_arg);
}

static void learn(const char *id, uint64_t term, const char *generation, void *arg)
{
	(void)id;
	(void)generation;
	(void)arg;
	rig.term = term;
}

static void end_one(const char *id, enum owned_fate fate, void *arg)
{
	(void)arg;
	CHECK_STR(id, OWN);
	rig.n_ended++;
	rig.fate = fate;
}

static int take(const struct node_owned *what, struct err *err, void *arg)
{
	(void)err;
	(void)arg;
	rig.n_taken++;
	(void)snprintf(rig.taken, sizeof(rig.taken), "%s", what->id);
	(void)snprintf(rig.record, sizeof(rig.record), "%s", what->record);
	return 0;
}

static void on_changed(void *arg)
{
	(void)arg;
	rig.n_changed++;
}

static void begin(bool has_own, uint64_t term)
{
	static const struct node_owners owners = {may_take, has,  each,      learn,
	                                          end_one,  take, on_changed};
	static const uint8_t key[32] = {7};
	struct err err;

	log_init("test", LOG_ERROR + 1);
	memset(&rig, 0, sizeof(rig));
	rig.has_own = has_own;
	rig.term = term;
	CHECK_INT(loop_new(&rig.loop, &err), 0);
	rig.node = node_new(&(struct node_config){.loop = rig.loop, .call = on_call});
	node_take_key(rig.node, key);
	say(FENCE_HELD, 1, in_a_minute());
	node_has_owned(rig.node, &owners, NULL);
	turn_for(2000);
}

static void end(void)
{
	struct err err = {.code = ERR_CLUSTER};

	node_told(rig.node, NULL);
	if (rig.fn)
		rig.fn(NULL, &err, rig.arg);
	node_free(rig.node);
	loop_free(rig.loop);
	free(rig.sealed);
}

TEST(a_node_runs_nothing_of_it_before_it_has_compared_in_this_epoch)
{
	begin(true, 1);
	CHECK(!node_owns(rig.node));
	answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
	CHECK(!node_owns(rig.node));
	answer("owned_rows",
	       "{\"rows\": [{\"id\": \"" OWN "\", \"term\": 1, \"generation\": \"" FIRST "\"}]}");
	CHECK(node_owns(rig.node));
	CHECK_INT(rig.n_ended, 0);
	answer("moved_rows", "{\"rows\": []}");
	say(FENCE_HELD, 2, in_a_minute()); /* it has joined anew */
	CHECK(!node_owns(rig.node));
	answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
	answer("owned_rows",
	       "{\"rows\": [{\"id\": \"" OWN "\", \"term\": 1, \"generation\": \"" FIRST "\"}]}");
	CHECK(node_owns(rig.node));
	say(FENCE_FENCED, 2, 0);
	CHECK(!node_owns(rig.node));
	end();
}

TEST(the_right_ends_by_the_clock_without_a_word_of_the_member)
{
	size_t before;

	begin(false, 0);
	answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
	answer("owned_rows", "{\"rows\": []}");
	CHECK(node_owns(rig.node));
	say(FENCE_HELD, 1, clock_steady_us() + 50 * MILLISECOND_US);
	before = rig.n_changed;
	for (unsigned i = 0; i < 500 && node_owns(rig.node); i++)
		turn_for(20 * MILLISECOND_US);
	CHECK(!node_owns(rig.node));
	CHECK(rig.n_changed > before);
	end();
}

TEST(what_another_node_has_or_this_one_in_another_term_is_ended)
{
	static const struct {
		const char *rows, *fate;
		enum owned_fate wanted;
		size_t n_ended;
	} cases[] = {
		{"{\"rows\": [{\"id\": \"" OWN "\", \"term\": 3}]}", NULL, OWNED_MOVED, 1},
		{"{\"rows\": []}", "{\"node\": 2, \"term\": 2, \"is_gone\": false}", OWNED_MOVED,
	         1},
		{"{\"rows\": []}", "{\"node\": 1, \"term\": 1, \"is_gone\": true}", OWNED_GONE, 1},
		{"{\"rows\": []}", "{\"node\": null, \"term\": 0, \"is_gone\": false}",
	         OWNED_UNKNOWN, 1},
		{"{\"rows\": [{\"id\": \"" OWN "\", \"term\": 1}]}", NULL, OWNED_MOVED,
	         0}, /* the control */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin(true, 1);
		answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
		answer("owned_rows", cases[i].rows);
		if (cases[i].fate) {
			CHECK(!node_owns(rig.node)); /* it is not known yet what became of it */
			answer("owner_of", cases[i].fate);
		}
		CHECK(node_owns(rig.node));
		CHECK_INT(rig.n_ended, cases[i].n_ended);
		CHECK(rig.n_ended == 0 || rig.fate == cases[i].wanted);
		end();
	}
}

static void on_owned(enum owned_result result, uint64_t term, const struct err *err, void *arg)
{
	(void)term;
	(void)err;
	*(enum owned_result *)arg = result;
}

/* What this node would tell of that. */
static void seal(const char *project, const char *id, const char *generation)
{
	enum owned_result result = OWNED_REFUSED;

	CHECK_INT(node_own(rig.node,
	                   &(struct node_owned){.id = id,
	                                        .project_id = project,
	                                        .generation = generation,
	                                        .record = "{\"name\": \"mine\"}"},
	                   0, on_owned, &result),
	          0);
	answer("own", "{\"result\": \"ok\", \"term\": 1}");
	CHECK_INT(result, OWNED_OK);
}

TEST(a_row_is_believed_if_it_was_sealed_as_that_sandbox_project_and_generation)
{
	static const struct {
		const char *project, *id, *generation; /* as which it was sealed */
		size_t n_taken;
	} cases[] = {
		{THIEF, OTHER, FIRST, 0},
		{PROJECT, OWN, FIRST, 0},
		{PROJECT, OTHER, SECOND, 0},
		{PROJECT, OTHER, FIRST, 1}, /* the control */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *row = NULL;

		begin(false, 0);
		answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
		answer("owned_rows", "{\"rows\": []}");
		answer("moved_rows", "{\"rows\": []}");
		seal(cases[i].project, cases[i].id, cases[i].generation);
		row = xasprintf("{\"row\": {\"project_id\": \"" PROJECT
		                "\", \"term\": 2, \"generation\": \"" FIRST
		                "\", \"lost_ms\": 5, \"from\": \"a\", \"sealed\": \"%s\"}}",
		                rig.sealed);
		node_compare_owned(rig.node);
		turn_for(2000);
		answer("take_over", "{\"result\": \"ok\", \"n\": 1}");
		answer("owned_rows", "{\"rows\": [{\"id\": \"" OTHER
		                     "\", \"term\": 2, \"generation\": \"" FIRST "\"}]}");
		CHECK_STR(rig.id, OTHER);
		answer("owned_row", row);
		CHECK_INT(rig.n_taken, cases[i].n_taken);
		if (rig.n_taken > 0) {
			CHECK_STR(rig.taken, OTHER);
			CHECK_STR(rig.record, "{\"name\": \"mine\"}");
		}
		answer("moved_rows", "{\"rows\": []}");
		end();
	}
}

TEST(answers_of_another_shape_or_without_end_do_no_harm)
{
	static const char *const rows[] = {
		"{}",
		"{\"rows\": 7}",
		"{\"rows\": [7, {}, {\"id\": 5}, {\"id\": \"sn_x\"}, {\"id\": \"" OTHER
		"\", \"term\": -1}]}",
		"[]",
	};
	static const char *const one[] = {
		"{}",
		"{\"row\": 5}",
		"{\"row\": {\"project_id\": \"x\", \"term\": 1, \"generation\": \"" FIRST
		"\", \"sealed\": \"x\"}}",
		"{\"row\": {\"project_id\": \"" PROJECT "\", \"term\": 0, \"generation\": \"" FIRST
		"\", \"sealed\": \"x\"}}",
		"{\"row\": {\"project_id\": \"" PROJECT "\", \"term\": 1, \"generation\": \"" FIRST
		"\", \"sealed\": \"sealed:a:b:c\"}}",
	};
	auto_json json_t *page = json_pack("{s[]}", "rows");
	auto_free char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(false, 0);
		answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
		answer("owned_rows", rows[i]);
		if (strcmp(rig.name, "owned_row") == 0 && rig.fn)
			answer("owned_row", one[i]);
		answer("moved_rows", rows[i]);
		CHECK_INT(rig.n_taken, 0);
		end();
	}
	for (size_t i = 0; i < ARRAY_SIZE(one); i++) {
		begin(false, 0);
		answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
		answer("owned_rows", "{\"rows\": [{\"id\": \"" OTHER
		                     "\", \"term\": 1, \"generation\": \"" FIRST "\"}]}");
		answer("owned_row", one[i]);
		CHECK_INT(rig.n_taken, 0);
		end();
	}
	/* A full page that names nothing new is the last. */
	for (size_t i = 0; i < 400; i++)
		(void)json_array_append_new(
			json_object_get(page, "rows"),
			json_pack("{ss sI}", "id", OTHER, "term", (json_int_t)1));
	text = json_dumps(page, 0);
	begin(false, 0);
	answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
	answer("owned_rows", text);
	answer("owned_rows", text);
	answer("owned_row", "{\"row\": null}");
	end();
}

TEST(a_call_leads_to_the_node_that_has_it)
{
	begin(false, 0);
	answer("take_over", "{\"result\": \"ok\", \"n\": 0}");
	answer("owned_rows", "{\"rows\": []}");
	CHECK_INT(node_forward(rig.node, OTHER), 0);
	answer("moved_rows", "{\"rows\": [{\"id\": \"" OTHER "\", \"node\": 3}, {\"id\": \"" OWN
	                     "\", \"node\": -3}]}");
	CHECK_INT(node_forward(rig.node, OTHER), 3);
	CHECK_INT(node_forward(rig.node, OWN), 0);
	CHECK_INT(node_forward(NULL, OTHER), 0);
	end();
}
