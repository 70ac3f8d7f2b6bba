// SPDX-License-Identifier: Apache-2.0
/* What interpreters tell, taken apart. */
#include "sandbox/code/driver_message.h"
#include "test.h"

#include <string.h>

static int get(const char *text, struct driver_message *ret)
{
	static struct buf in = BUF_INIT(DRIVER_MESSAGE_MAX);

	buf_truncate(&in, 0);
	CHECK_INT(buf_append(&in, text, strlen(text)), 0);
	return driver_message_get(&in, ret);
}

TEST(a_message_is_its_head_and_so_many_bytes)
{
	struct driver_message m;

	CHECK_INT(get("result 7 2\n{}rest", &m), 1);
	CHECK_INT(m.verb, DRIVER_MESSAGE_RESULT);
	CHECK_INT(m.call, 7);
	CHECK_MEM(m.payload, m.len, "{}", 2);
	CHECK_INT(m.size, 13);
	CHECK_INT(get("ready 0 0\n", &m), 1);
	CHECK_INT(m.len, 0);
}

TEST(a_message_that_is_not_whole_is_waited_for)
{
	static const char *const parts[] = {"",         "d",          "done",
	                                    "done 1 2", "done 1 2\n", "done 1 2\n{"};
	struct driver_message m;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		CHECK_INT(get(parts[i], &m), 0);
}

TEST(a_head_of_any_other_form_is_refused)
{
	static const char *const heads[] = {
		"\n",
		" done 1 2\n",
		"Done 1 2\n",
		"doner 1 2\n",
		"done  1 2\n",
		"done 1  2\n",
		"done 1 2 \n",
		"done 1 2\r\n",
		"done -1 2\n",
		"done +1 2\n",
		"done 01 2\n",
		"done 1 02\n",
		"done 1 0x2\n",
		"done 1\n",
		"done\n",
		"done 4294967296 2\n",
		"done 99999999999999999999 2\n",
		"done 1 16777217\n",
		"done 1 18446744073709551616\n",
		"run 1 2\n",
		"renew 1 2\n",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	struct driver_message m;

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		CHECK_INT(get(heads[i], &m), -EPROTO);
}

static const char *shown(json_t *value)
{
	static char *text;

	free(text);
	text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(value);
	return text;
}

static struct driver_message payload(const char *text)
{
	return (struct driver_message){.payload = text, .len = strlen(text)};
}

TEST(a_bundle_is_reduced_to_what_is_known)
{
	struct driver_message m =
		payload("{\"data\":{\"text/plain\":\"1\"},\"metadata\":{\"a\":{}},"
	                "\"truncated\":true,\"other\":1}");

	CHECK_STR(shown(driver_message_bundle(&m)), "{\"data\":{\"text/plain\":\"1\"},"
	                                            "\"metadata\":{\"a\":{}},\"truncated\":true}");
}

TEST(a_payload_that_cannot_be_read_costs_that_message_only)
{
	static const char *const bad[] = {"",
	                                  "x",
	                                  "[]",
	                                  "{}",
	                                  "{\"data\":1}",
	                                  "{\"data\":{}}",
	                                  "{\"data\":{\"a\":\"\xff\"}}"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct driver_message m = payload(bad[i]);

		CHECK(strstr(shown(driver_message_bundle(&m)), "cannot be shown") != NULL);
		CHECK(strstr(shown(driver_message_error(&m)), "cannot be shown") != NULL);
	}
}

TEST(a_payload_of_too_many_values_is_not_even_parsed)
{
	auto_call(buf_done) struct buf text = BUF_INIT(DRIVER_MESSAGE_MAX);
	struct driver_message m;

	CHECK_INT(buf_append_str(&text, "{\"data\":{\"a\":[0"), 0);
	for (int i = 0; i < 500000; i++)
		CHECK_INT(buf_append_str(&text, ",0"), 0);
	CHECK_INT(buf_append_str(&text, "]}}"), 0);
	m = payload(buf_str(&text));
	CHECK(strstr(shown(driver_message_bundle(&m)), "cannot be shown") != NULL);
	m = payload("{\"data\":{\"a\":\",,,\\\"[[[{{{\"}}"); /* text does not count */
	CHECK(strstr(shown(driver_message_bundle(&m)), "[[[") != NULL);
}

TEST(an_error_has_name_message_and_lines)
{
	struct driver_message m =
		payload("{\"name\":\"E\",\"message\":\"m\",\"traceback\":[\"l\"]}");

	CHECK_STR(shown(driver_message_error(&m)),
	          "{\"message\":\"m\",\"name\":\"E\",\"traceback\":[\"l\"]}");
	m = payload("{\"name\":\"E\",\"message\":3,\"traceback\":[1]}");
	CHECK_STR(shown(driver_message_error(&m)),
	          "{\"message\":\"\",\"name\":\"E\",\"traceback\":[]}");
}

TEST(a_done_tells_status_count_and_exit_code)
{
	static const char *const bad[] = {"{}", "{\"status\":\"fine\",\"count\":1}",
	                                  "{\"status\":\"ok\",\"count\":-1}", "[\"ok\"]"};
	struct driver_message m = payload("{\"status\":\"exit\",\"count\":4,\"exit_code\":259}");
	struct driver_message_done done;

	CHECK_INT(driver_message_done(&m, &done), 0);
	CHECK_INT(done.status, DONE_EXIT);
	CHECK_INT(done.count, 4);
	CHECK_INT(done.exit_code, 3);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		m = payload(bad[i]);
		CHECK_INT(driver_message_done(&m, &done), -EPROTO);
	}
}
