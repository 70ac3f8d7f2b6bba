// SPDX-License-Identifier: Apache-2.0
/* Input that an agent has not taken yet. */
#include "sandbox/agentlink/sent_input.h"
#include "test.h"

#include <string.h>

struct text {
	char *data;
	size_t len;
};

static int gather(const char *data, size_t len, void *arg)
{
	struct text *t = arg;

	memcpy(t->data + t->len, data, len);
	t->len += len;
	return 0;
}

static int stop(const char *data, size_t len, void *arg)
{
	(void)data;
	(void)len;
	++*(int *)arg;
	return -ENOTCONN;
}

TEST(what_is_left_is_what_was_appended_and_not_consumed)
{
	static const size_t steps[] = {1, 32767, 2, 70000, 99, 150000};
	auto_free char *all = malloc(2 * SENT_INPUT_MAX);
	struct text left = {.data = malloc(SENT_INPUT_MAX)};
	struct sent_input u = {0};
	size_t from = 0, to = 0;

	for (size_t i = 0; i < 2 * SENT_INPUT_MAX; i++)
		all[i] = (char)(i * 13 + i / 256);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		const size_t n = steps[i];

		sent_input_append(&u, all + to, n);
		to += n;
		sent_input_consume(&u, n / 2);
		from += n / 2;
		CHECK_INT(u.len, to - from);
		CHECK_INT(sent_input_room(&u), SENT_INPUT_MAX - (to - from));
		left.len = 0;
		CHECK_INT(sent_input_each(&u, gather, &left), 0);
		CHECK_MEM(left.data, left.len, all + from, to - from);
	}
	sent_input_consume(&u, u.len);
	CHECK(u.len == 0 && !u.first && !u.last); /* one that is idle holds no memory */
	free(left.data);
}

TEST(it_is_full_at_a_window_and_may_be_used_after_it_was_dropped)
{
	auto_free char *block = calloc(1, SENT_INPUT_MAX);
	struct sent_input u = {0};
	int calls = 0;

	sent_input_append(&u, block, SENT_INPUT_MAX);
	CHECK_INT(sent_input_room(&u), 0);
	CHECK_INT(sent_input_each(&u, stop, &calls), -ENOTCONN);
	CHECK_INT(calls, 1);
	sent_input_done(&u);
	CHECK_INT(sent_input_room(&u), SENT_INPUT_MAX);
	sent_input_append(&u, "x", 1);
	CHECK_INT(u.len, 1);
	sent_input_done(&u);
}
