// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What differs between providers: where and how a conversation is sent, and how a turn is read. */
#include "cli/eval/eval_chat.h"
#include "http/client.h"

struct eval_wire {
	const char *api;
	const char *url;  /* of the provider itself */
	const char *path; /* behind the URL */
	const char *key_env;
	const char *key_field, *key_prefix; /* the header that has the key */
	struct http_field more;             /* another header, or {NULL} */
	uint64_t max_tokens;                /* where it must be said */
	/* The request's body, without messages. */
	json_t *(*begin)(const char *instructions, json_t *messages);
	/* Reads a reply: what the model said goes into messages, and to *turn. */
	int (*read)(const json_t *reply, json_t *messages, struct chat_turn *turn,
	            struct chat_tokens *tokens, struct err *err);
	void (*answer)(json_t *messages, const char *id, const char *text);
};

const struct eval_wire *eval_wire_find(const char *api); /* NULL: no such */
/* Adds a call to a turn; arguments: what the model gave for the tool `name`. */
void eval_wire_add_call(struct chat_turn *turn, const char *id, const char *name,
                        const json_t *arguments);
