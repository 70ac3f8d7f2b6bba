// SPDX-License-Identifier: Apache-2.0
#include "cli/eval/eval_wire.h"

#include "cli/frame/command.h"
#include "cli/session/script_language.h"

#include <string.h>

#define TOOL "run_code"
#define TOOL_ABOUT                                                                                 \
	"Runs a program in a sandbox and gives its exit code, stdout and stderr. Files stay from " \
	"call to call, variables do not: print what you want to see."
#define CALLS_MAX 32 /* of one turn */

static json_t *tool_schema(void)
{
	return json_pack("{s:s, s:{s:{s:s, s:[sss]}, s:{s:s}}, s:[ss]}", "type", "object",
	                 "properties", "language", "type", "string", "enum", "python", "javascript",
	                 "bash", "code", "type", "string", "required", "language", "code");
}

void eval_wire_add_call(struct chat_turn *turn, const char *id, const char *name,
                        const json_t *arguments)
{
	const char *language = json_string_value(json_object_get(arguments, "language"));
	const char *code = json_string_value(json_object_get(arguments, "code"));
	bool is_good = strcmp(name, TOOL) == 0 && code && (!language || language_by_name(language));

	if (turn->n_calls == CALLS_MAX)
		return;
	turn->calls = xrealloc(turn->calls, (turn->n_calls + 1) * sizeof(*turn->calls));
	turn->calls[turn->n_calls++] = (struct chat_call){
		.id = xstrdup(id),
		.language = is_good ? xstrdup(language ? language : language_default->name) : NULL,
		.code = is_good ? xstrdup(code) : NULL,
	};
}

static int misread(struct err *err, const char *what)
{
	return err_set(err, ERR_UNAVAILABLE, 0, "the model's answer has no %s", what);
}

/* OpenAI: POST /chat/completions */

static json_t *openai_begin(const char *instructions, json_t *messages)
{
	if (instructions)
		(void)json_array_insert_new(
			messages, 0,
			json_pack("{s:s, s:s}", "role", "system", "content", instructions));
	return json_pack("{s:[{s:s, s:{s:s, s:s, s:o}}]}", "tools", "type", "function", "function",
	                 "name", TOOL, "description", TOOL_ABOUT, "parameters", tool_schema());
}

static void openai_read_call(const json_t *call, struct chat_turn *turn)
{
	const json_t *function = json_object_get(call, "function");
	const char *text = command_text(function, "arguments");
	auto_json json_t *arguments = NULL;

	if (json_parse(text, strlen(text), &arguments, NULL) < 0)
		arguments = NULL; /* the model is told that it made no sense */
	eval_wire_add_call(turn, command_text(call, "id"), command_text(function, "name"),
	                   arguments);
}

static int openai_read(const json_t *reply, json_t *messages, struct chat_turn *turn,
                       struct chat_tokens *tokens, struct err *err)
{
	const json_t *choice = json_array_get(json_object_get(reply, "choices"), 0);
	const json_t *message = json_object_get(choice, "message");
	json_t *calls = json_object_get(message, "tool_calls");
	const json_t *usage = json_object_get(reply, "usage");
	json_t *said, *call;
	size_t i;

	if (!json_is_object(message))
		return misread(err, "choices[0].message");
	turn->text = xstrdup(command_text(message, "content"));
	json_array_foreach(calls, i, call)
	{
		openai_read_call(call, turn);
	}
	tokens->input += command_number(usage, "prompt_tokens");
	tokens->output += command_number(usage, "completion_tokens");
	said = json_pack("{s:s, s:s}", "role", "assistant", "content", turn->text);
	if (turn->n_calls > 0)
		(void)json_object_set(said, "tool_calls", calls);
	(void)json_array_append_new(messages, said);
	return 0;
}

static void openai_answer(json_t *messages, const char *id, const char *text)
{
	(void)json_array_append_new(messages, json_pack("{s:s, s:s, s:s}", "role", "tool",
	                                                "tool_call_id", id, "content", text));
}

/* Anthropic: POST /v1/messages */

static json_t *anthropic_begin(const char *instructions, json_t *messages)
{
	json_t *body = json_pack("{s:[{s:s, s:s, s:o}]}", "tools", "name", TOOL, "description",
	                         TOOL_ABOUT, "input_schema", tool_schema());

	(void)messages;
	if (instructions)
		(void)json_object_set_new(body, "system", json_string(instructions));
	return body;
}

static int anthropic_read(const json_t *reply, json_t *messages, struct chat_turn *turn,
                          struct chat_tokens *tokens, struct err *err)
{
	json_t *content = json_object_get(reply, "content");
	const json_t *usage = json_object_get(reply, "usage");
	struct buf text = BUF_INIT(SCRIPT_MAX);
	json_t *block;
	size_t i;
	int r = 0;

	if (!json_is_array(content))
		return misread(err, "content");
	json_array_foreach(content, i, block)
	{
		if (strcmp(command_text(block, "type"), "text") == 0 && r == 0)
			r = buf_append_str(&text, command_text(block, "text"));
		else if (strcmp(command_text(block, "type"), "tool_use") == 0)
			eval_wire_add_call(turn, command_text(block, "id"),
			                   command_text(block, "name"),
			                   json_object_get(block, "input"));
	}
	turn->text = xstrdup(buf_str(&text));
	buf_done(&text);
	tokens->input += command_number(usage, "input_tokens");
	tokens->output += command_number(usage, "output_tokens");
	(void)json_array_append_new(
		messages, json_pack("{s:s, s:O}", "role", "assistant", "content", content));
	return 0;
}

/* The results of one turn's calls are one message. */
static void anthropic_answer(json_t *messages, const char *id, const char *text)
{
	const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
	json_t *results = json_object_get(last, "content");

	if (strcmp(command_text(last, "role"), "user") != 0) {
		results = json_array();
		(void)json_array_append_new(
			messages, json_pack("{s:s, s:o}", "role", "user", "content", results));
	}
	(void)json_array_append_new(results, json_pack("{s:s, s:s, s:s}", "type", "tool_result",
	                                               "tool_use_id", id, "content", text));
}

static const struct eval_wire wires[] = {
	{
		.api = "openai",
		.url = "https://api.openai.com/v1",
		.path = "/chat/completions",
		.key_env = "OPENAI_API_KEY",
		.key_field = "Authorization",
		.key_prefix = "Bearer ",
		.begin = openai_begin,
		.read = openai_read,
		.answer = openai_answer,
	},
	{
		.api = "anthropic",
		.url = "https://api.anthropic.com",
		.path = "/v1/messages",
		.key_env = "ANTHROPIC_API_KEY",
		.key_field = "x-api-key",
		.key_prefix = "",
		.more = {"anthropic-version", "2023-06-01"},
		.max_tokens = 4096,
		.begin = anthropic_begin,
		.read = anthropic_read,
		.answer = anthropic_answer,
	},
};

const struct eval_wire *eval_wire_find(const char *api)
{
	for (size_t i = 0; i < ARRAY_SIZE(wires); i++)
		if (strcmp(wires[i].api, api) == 0)
			return &wires[i];
	return NULL;
}
