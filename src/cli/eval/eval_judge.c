// SPDX-License-Identifier: Apache-2.0
#include "cli/eval/eval_judge.h"

#include "base/parse.h"
#include "base/text/decimal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_MAX 160 /* of a text in a sentence */

/* The length without the line ends behind it: nobody means those. */
static size_t trimmed(const char *text)
{
	size_t len = strlen(text);

	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	return len;
}

void eval_reason(struct eval_result *r, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	bool is_cut;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)json_array_append_new(
		r->reasons, json_stringn(text, utf8_valid_prefix(text, trimmed(text), &is_cut)));
}

static bool holds(const struct eval_claim *claim, const char *text)
{
	switch (claim->relation) {
	case EVAL_EQUALS:
		return trimmed(text) == trimmed(claim->value) &&
		       memcmp(text, claim->value, trimmed(text)) == 0;
	case EVAL_CONTAINS:
		return strstr(text, claim->value) != NULL;
	case EVAL_LACKS:
		return strstr(text, claim->value) == NULL;
	case EVAL_MATCHES:
		return regex_matches(claim->regex, text);
	case EVAL_RELATION_COUNT:
		break;
	}
	return false;
}

static const char *verb(enum eval_relation relation)
{
	static const char *const verbs[] = {
		[EVAL_EQUALS] = "is not",
		[EVAL_CONTAINS] = "does not contain",
		[EVAL_LACKS] = "contains",
		[EVAL_MATCHES] = "does not match",
	};

	static_assert(ARRAY_SIZE(verbs) == EVAL_RELATION_COUNT, "a relation has no verb");
	return verbs[relation];
}

/* The end of a long text: that is where errors stand. */
static const char *shown(const char *text)
{
	size_t len = trimmed(text);

	if (len <= SHOWN_MAX)
		return text;
	text += len - SHOWN_MAX;
	while ((*text & 0xc0) == 0x80) /* not in the middle of a character */
		text++;
	return text;
}

void eval_judge_claim(const struct eval_claim *claim, const char *text, struct eval_result *r)
{
	const char *subject = claim->path ? claim->path : eval_subject_name(claim->subject);
	const char *tail = text ? shown(text) : "";

	if (!text) {
		eval_reason(r, "there is no file '%s'", subject);
		return;
	}
	if (!holds(claim, text))
		eval_reason(r, "%s %s \"%.*s\": %s\"%.*s\"", subject, verb(claim->relation),
		            SHOWN_MAX, claim->value, tail > text ? "…" : "", (int)trimmed(tail),
		            tail);
}

static void judge_exit_code(const struct eval_case *c, struct eval_result *r)
{
	if (c->prompt && !c->has_exit_code)
		return;
	if (!r->has_exit_code && c->prompt && r->calls == 0)
		eval_reason(r, "the model ran no code, exit code %" PRIu64 " was expected",
		            c->exit_code);
	else if (!r->has_exit_code)
		eval_reason(r, "it did not end by itself, exit code %" PRIu64 " was expected",
		            c->exit_code);
	else if ((uint64_t)r->exit_code != c->exit_code)
		eval_reason(r, "exit code %d, %" PRIu64 " was expected", r->exit_code,
		            c->exit_code);
	else
		return;
	if (*r->err)
		eval_reason(r, "stderr: %s", shown(r->err));
}

static void judge_bounds(const struct eval_case *c, struct eval_result *r)
{
	if (r->time_ms > c->max_time_ms)
		eval_reason(r, "it took %" PRIu64 " ms, %" PRIu64 " are allowed", r->time_ms,
		            c->max_time_ms);
	if (r->calls > c->max_calls)
		eval_reason(r, "the model ran code %" PRIu64 " times, %" PRIu64 " are allowed",
		            r->calls, c->max_calls);
	if (r->cost_nano > c->max_cost_nano) {
		char cost[DECIMAL_SIZE], most[DECIMAL_SIZE];

		decimal_format(r->cost_nano, cost);
		decimal_format(c->max_cost_nano, most);
		eval_reason(r, "it cost %s, %s are allowed", cost, most);
	}
}

void eval_judge(const struct eval_case *c, struct eval_result *r)
{
	const char *const texts[] = {
		[EVAL_OUTPUT] = r->output, [EVAL_STDOUT] = r->out, [EVAL_STDERR] = r->err};

	judge_exit_code(c, r);
	for (size_t i = 0; i < c->n_claims; i++)
		if (c->claims[i].subject != EVAL_FILE)
			eval_judge_claim(&c->claims[i], texts[c->claims[i].subject], r);
	judge_bounds(c, r);
}
