// SPDX-License-Identifier: Apache-2.0
/* What a model answers, over both wires, and a file of evals. What is accepted can be used: a call
 * has code and its language or neither, a case one thing to run. */
#include "cli/eval/eval_file.h"
#include "cli/eval/eval_wire.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_wire(const char *api, const json_t *reply)
{
	auto_json json_t *messages = json_array();
	struct chat_turn turn = {0};
	struct chat_tokens tokens = {0};
	struct err err = {0};

	if (eval_wire_find(api)->read(reply, messages, &turn, &tokens, &err) == 0) {
		assert(turn.text && json_array_size(messages) == 1);
		for (size_t i = 0; i < turn.n_calls; i++)
			assert(turn.calls[i].id && !turn.calls[i].code == !turn.calls[i].language);
	} else {
		assert(err.message[0] != '\0');
	}
	chat_turn_done(&turn);
}

static void try_file(const char *name, const char *text, size_t size)
{
	const struct eval_overrides nothing = {.threshold = -1};
	auto_call(eval_suite_freep) struct eval_suite *s = NULL;
	struct err err = {0};
	json_t *tree = NULL;

	if (eval_file_parse(name, text, size, &tree, &err) < 0 ||
	    eval_suite_new(name, tree, &nothing, &s, &err) < 0) {
		assert(err.message[0] != '\0');
		return;
	}
	assert(s->n_cases > 0);
	for (size_t i = 0; i < s->n_cases; i++)
		assert(!!s->cases[i].prompt + !!s->cases[i].code + !!s->cases[i].command == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *reply = NULL;

	try_file("fuzz.toml", (const char *)data, size);
	try_file("fuzz.json", (const char *)data, size);
	if (json_parse((const char *)data, size, &reply, NULL) < 0)
		return 0;
	try_wire("openai", reply);
	try_wire("anthropic", reply);
	return 0;
}
