// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A conversation with a model that has one tool, run_code, over the API of OpenAI's chat
 * completions or of Anthropic's Messages: any server with one of them will do. Its answers are not
 * trusted: they are bounded and parsed strictly.
 *
 *	open --> next --> (answer each of its calls) --> next … until a turn has no calls
 *
 * The key is read from the environment and sent only to base_url.
 */
#include "cli/eval/eval_suite.h"

struct chat;

struct chat_call {
	char *id;
	char *language, *code; /* NULL where the model has not asked for code of a known language */
};

struct chat_turn {
	char *text; /* what the model says, perhaps "" */
	struct chat_call *calls;
	size_t n_calls;
};
void chat_turn_done(struct chat_turn *turn);

struct chat_tokens {
	uint64_t input, output;
};

/* Fails where a key is needed and the environment has none: the providers need one, and so does a
 * model whose key_env is said. */
must_check int chat_check_key(const struct eval_model *model, struct err *err);
/* Connects. deadline_us is of the steady clock: no answer is awaited past it. */
must_check int chat_open(const struct eval_model *model, const char *instructions,
                         const char *prompt, uint64_t deadline_us, struct chat **ret,
                         struct err *err);
void chat_close(struct chat *c); /* NULL is fine */
DEFINE_FREEP(struct chat, chat_close)

must_check int chat_next(struct chat *c, struct chat_turn *ret, struct err *err);
/* What a call gave, as the model is to read it. */
void chat_answer(struct chat *c, const char *id, const char *text);
struct chat_tokens chat_tokens(const struct chat *c);
