// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "base/id.h"
#include "base/json/json.h"
#include "base/list.h"
#include "base/parse.h"
#include "base/process/spawn.h"
#include "base/text/wall_time.h"
#include "test.h"

#include <fcntl.h>
#include <sys/socket.h>

TEST(a_buf_refuses_what_passes_its_cap_and_stays_as_it_was)
{
	struct buf b = BUF_INIT(4);

	CHECK_INT(buf_append(&b, "abc", 3), 0);
	CHECK_INT(buf_append(&b, "de", 2), -E2BIG);
	CHECK_STR(buf_str(&b), "abc");
	buf_consume(&b, 2);
	CHECK_INT(buf_append(&b, "xyz", 3), 0);
	CHECK_STR(buf_str(&b), "cxyz");
	buf_done(&b);
}

TEST(a_buf_keeps_its_bytes_through_any_mix_of_appends_and_consumes)
{
	struct buf b = BUF_INIT(1 << 20);
	unsigned put = 0, taken = 0;

	for (int round = 0; round < 3000; round++) {
		for (int i = 0; i < round % 37; i++, put++) {
			unsigned char c = (unsigned char)(put * 7);

			CHECK_INT(buf_append(&b, &c, 1), 0);
		}
		for (int i = 0; i < round % 29 && b.len > 0; i++, taken++) {
			CHECK_INT((unsigned char)b.data[0], (unsigned char)(taken * 7));
			buf_consume(&b, 1);
		}
	}
	CHECK_INT(b.len, put - taken);
	buf_done(&b);
}

TEST(an_err_carries_code_field_errno_and_sentence)
{
	struct err err;

	CHECK_INT(err_set(&err, ERR_NOT_FOUND, ENOENT, "no '%s'", "x"), -ENOENT);
	CHECK_STR(err.message, "no 'x': No such file or directory");
	CHECK_INT(err_prefix(&err, "sandbox %d", 7), -ENOENT);
	CHECK_STR(err.message, "sandbox 7: no 'x': No such file or directory");
	CHECK_INT(err_field(&err, "limits.pids", "must be a number"), -EINVAL);
	CHECK_STR(err.message, "limits.pids: must be a number");
	CHECK_STR(err.field, "limits.pids");
	for (int c = 0; c < ERR_CODE_COUNT; c++)
		CHECK(err_code_name((enum err_code)c) && err_code_status((enum err_code)c) >= 200);
}

TEST(numbers_are_all_of_the_text_or_refused)
{
	static const char *const bad[] = {
		"", "+1", "-1", " 1", "1 ", "01", "0x1", "1e3", "18446744073709551616", "1_0"};
	uint64_t v = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(parse_u64(bad[i], UINT64_MAX, &v) < 0);
	CHECK_INT(v, 7);
	CHECK_INT(parse_u64("18446744073709551615", UINT64_MAX, &v), 0);
	CHECK(v == UINT64_MAX);
	CHECK_INT(parse_u64("11", 10, &v), -ERANGE);
}

TEST(utf8_is_checked_as_rfc_3629_has_it)
{
	static const char *const good[] = {
		"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"\x80",         "\xc0\xaf",         "\xe0\x80\xaf",
	                                  "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
	                                  "a\xc3"};
	bool cut;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(utf8_is_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!utf8_is_valid(bad[i], strlen(bad[i])));
	CHECK_INT(utf8_valid_prefix("a\xe2\x82", 3, &cut), 1);
	CHECK(cut);
	CHECK_INT(utf8_valid_prefix("a\xff\x82", 3, &cut), 1);
	CHECK(!cut);
}

TEST(base64_goes_there_and_back_and_refuses_the_rest)
{
	static const char *const bad[] = {"A",    "AB",       "A===", "AB=C",
	                                  "A?==", "AB==CD==", "AAB=", "AR=="};
	unsigned char raw[300], back[400];
	char text[base64_size(300)];

	random_bytes(raw, sizeof(raw));
	for (size_t n = 0; n < sizeof(raw); n++) {
		size_t len = base64_encode(raw, n, text);

		CHECK_INT(base64_decode(text, len, back), n);
		CHECK_MEM(back, n, raw, n);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(base64_decode(bad[i], strlen(bad[i]), back), -EINVAL);
}

TEST(ids_are_of_their_kind_and_not_alike)
{
	char a[ID_SIZE], b[ID_SIZE];

	id_make(a, "sb");
	id_make(b, "sb");
	CHECK(id_is_valid(a, "sb") && id_is_valid(b, "sb") && strcmp(a, b) != 0);
	CHECK(!id_is_valid(a, "ex") && !id_is_valid("sb_../../etc", "sb") &&
	      !id_is_valid("sb_", "sb"));
}

static int parse(const char *text, struct err *err)
{
	auto_json json_t *value = NULL;

	return json_parse(text, strlen(text), &value, err);
}

TEST(json_outside_the_strict_rules_is_refused)
{
	static const char *const bad[] = {"",
	                                  "{",
	                                  "{\"a\":1,\"a\":2}",
	                                  "{\"a\":1}x",

	                                  "{\"a\":NaN}",
	                                  "\"text\"",
	                                  "{\"a\":01}",
	                                  "{\"a\":1.}",
	                                  "{\"a\":-}",
	                                  "{\"a\":1e}",
	                                  "{\"a\":+1}",
	                                  "{\"a\":tru}",
	                                  "{\"a\"}",
	                                  "{\"a\":1,}",
	                                  "{,}",
	                                  "[1 2]",
	                                  "[1,]",
	                                  "[1}",
	                                  "[",
	                                  "[\"",
	                                  "[\"\\",
	                                  "[\"a",
	                                  "[\"a\nb\"]",
	                                  "[\"\\x\"]",
	                                  "[\"\\u12\"]",
	                                  "[\"\\u12g4\"]",
	                                  "[\"\\udc00\"]",
	                                  "[\"\\ud800\\u0041\"]",
	                                  "[\"\\ud800\\",
	                                  "   ",
	                                  "\xef\xbb\xbf{}",
	                                  "{\"a\":\"\xff\"}",
	                                  "{\"a\":\"\\ud800\"}",
	                                  "{'a':1}"};
	char deep[200];
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(parse(bad[i], &err) < 0 && err.code == ERR_BAD_REQUEST);
	memset(deep, '[', 99);
	memset(deep + 99, ']', 99);
	deep[198] = '\0';
	CHECK(parse(deep, &err) < 0);
	CHECK_STR(err.message, "the JSON is nested deeper than 32 levels");
	CHECK_INT(parse("{\"a\":[1,{\"b\":null}]}", &err), 0);
}

TEST(malformed_json_is_refused_with_its_line_and_column)
{
	struct err err;

	CHECK(parse("{\n \"a\": 1,\n \"b\": ?}", &err) < 0);
	CHECK_STR(err.message, "the JSON is malformed at line 3, column 7: a value was expected");
	CHECK(json_parse("{}\0", 3, &(json_t *){NULL}, &err) < 0);
	CHECK_STR(err.message,
	          "the JSON is malformed at line 1, column 3: something follows the JSON");
}

TEST(a_text_from_outside_is_read_up_to_its_bound_of_values)
{
	auto_json json_t *value = NULL;
	struct err err;

	CHECK_INT(json_parse_up_to("[{\"a\":1},[]]", 12, 4, &value, &err), 0);
	CHECK(json_parse_up_to("[{\"a\":1},[0]]", 13, 4, &value, &err) < 0);
	CHECK_INT(err.code, ERR_TOO_LARGE);
	CHECK_STR(err.message, "the JSON may have up to 4 values");
}

/* What ours reads, and how, is held against jansson's own parser, which is slow. */
TEST(json_is_read_as_jansson_reads_it)
{
	static const char *const good[] = {
		" \t\r\n[ ] ",
		"{\"\":{},\"a\":[],\"b\":[[{}]]}",
		"[0,-0,1,-1,9223372036854775807,-9223372036854775808]",
		"[0.5,-0.0,1e3,1E+3,1.25e-3,5e-324,1.7976931348623157e308,1e-999]",
		"[true,false,null]",
		"{\"\\u00e9\\n\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
		"[\"\\u0041\\u00E9\\u65e5\\ud83c\\udf89 \\uffff\"]",
		"[\"many plain words, \\n and \xc3\xa9\xe6\x97\xa5\xf0\x9f\x8e\x89\x7f\"]",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		auto_json json_t *ours = NULL, *theirs = json_loads(good[i], 0, NULL);
		auto_call(buf_done) struct buf text = BUF_INIT(4096);
		auto_json json_t *again = NULL;
		struct json_writer w;
		struct err err = {0};

		CHECK(theirs);
		CHECK_INT(json_parse(good[i], strlen(good[i]), &ours, &err), 0);
		CHECK(json_equal(ours, theirs));
		json_writer_init(&w, &text);
		json_put_value(&w, NULL, ours);
		CHECK_INT(json_writer_end(&w), 0);
		again = json_loadb(text.data, text.len, 0, NULL);
		CHECK(json_equal(again, theirs));
	}
}

TEST(a_value_that_no_field_can_hold_is_refused_by_its_path)
{
	struct err err;

	CHECK(parse("{\"a\":{\"b\":[\"x\",\"y\\u0000\"]}}", &err) < 0);
	CHECK_STR(err.field, "a.b[1]");
	CHECK(parse("{\"n\":1,\"limits\":{\"pids\":9223372036854775808}}", &err) < 0);
	CHECK_STR(err.message, "limits.pids: is too large a number");
	CHECK(parse("[{},[1,{\"x\":1e999}]]", &err) < 0);
	CHECK_STR(err.message, "[1][1].x: is too large a number");
	CHECK(parse("{\"na\\u0000me\":1}", &err) < 0 && err.code == ERR_BAD_REQUEST);
}

TEST(a_body_is_read_by_its_table_and_each_mistake_names_its_field)
{
	static const struct {
		const char *text, *field;
	} bad[] = {{"{\"colour\":1}", "x.colour"},
	           {"{\"name\":\"a\",\"count\":-1}", "x.count"},
	           {"{\"name\":\"a\",\"count\":1.5}", "x.count"},
	           {"{\"name\":\"a\",\"count\":101}", "x.count"},
	           {"{\"name\":7}", "x.name"},
	           {"{}", "x.name"},
	           {"{\"name\":null}", "x.name"},
	           {"{\"name\":\"a\",\"on\":0}", "x.on"},
	           {"{\"name\":\"\"}", "x.name"}};
	const char *name = NULL;
	uint64_t count = 5;
	bool on = false, given;
	const struct json_field fields[] = {
		{"name", JSON_FIELD_STRING, &name, .required = true, .min = 1},
		{"count", JSON_FIELD_U64, &count, .max = 100, .ret_given = &given},
		{"on", JSON_FIELD_BOOL, &on}};
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		auto_json json_t *value = NULL;

		CHECK_INT(json_parse(bad[i].text, strlen(bad[i].text), &value, &err), 0);
		CHECK_INT(json_read(value, "x.", fields, ARRAY_SIZE(fields), &err), -EINVAL);
		CHECK_STR(err.field, bad[i].field);
	}
	{
		auto_json json_t *value = NULL;
		const char *text = "{\"name\":\"n\",\"on\":true,\"count\":null}";

		CHECK_INT(json_parse(text, strlen(text), &value, &err), 0);
		CHECK_INT(json_read(value, "", fields, ARRAY_SIZE(fields), &err), 0);
		CHECK_STR(name, "n");
		CHECK(on && !given && count == 5);
	}
}

/* Also a matter of time: it was once quadratic, and a sandbox's output held the gateway up. */
TEST(a_long_text_that_changes_its_script_with_each_letter_is_written_whole)
{
	static const char unit[] = "\xc3\xa9 \n\xe6\x97\xa5\xf0\x9f\x8e\x89x";
	const size_t unit_len = sizeof(unit) - 1, n = 300000;
	auto_call(buf_done) struct buf text = BUF_INIT(8 << 20), out = BUF_INIT(16 << 20);
	auto_json json_t *value = NULL;
	struct json_writer w;
	struct err err = {0};

	for (size_t i = 0; i < n; i++)
		CHECK_INT(buf_append(&text, unit, unit_len), 0);
	json_writer_init(&w, &out);
	json_open_array(&w, NULL);
	json_put_strn(&w, NULL, text.data, text.len);
	json_close_array(&w);
	CHECK_INT(json_writer_end(&w), 0);
	CHECK_INT(json_parse(out.data, out.len, &value, &err), 0);
	CHECK_INT(json_string_length(json_array_get(value, 0)), text.len);
	CHECK_MEM(json_string_value(json_array_get(value, 0)), text.len, text.data, text.len);
}

TEST(written_json_is_valid_whatever_the_bytes)
{
	struct buf b = BUF_INIT(1 << 16);
	struct json_writer w;
	struct err err;
	char all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	json_writer_init(&w, &b);
	json_open_object(&w, NULL);
	json_put_strn(&w, "bytes", all, sizeof(all));
	json_put_str(&w, "text", "\xc3\xa9\"\\\n");
	json_put_double(&w, "half", 0.5);
	json_put_i64(&w, "n", -3);
	json_open_array(&w, "list");
	json_put_bool(&w, NULL, true);
	json_put_null(&w, NULL);
	json_put_base64(&w, NULL, "\xff", 1);
	json_close_array(&w);
	json_close_object(&w);
	CHECK_INT(json_writer_end(&w), 0);
	{
		auto_json json_t *value = NULL;

		/* NUL is written as an escape, which our own strict reader refuses: read it with
		 * jansson's flag */
		value = json_loadb(b.data, b.len, JSON_ALLOW_NUL, NULL);
		CHECK(value);
		CHECK_STR(json_string_value(json_object_get(value, "text")), "\xc3\xa9\"\\\n");
		CHECK_STR(json_string_value(json_array_get(json_object_get(value, "list"), 2)),
		          "/w==");
	}
	(void)err;
	buf_done(&b);
}

TEST(fds_pass_over_a_socket_and_cut_messages_are_refused)
{
	int pair[2], fds[FD_PASS_MAX];
	size_t n;
	char text[8];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_INT(fd_send(pair[0], "hi", 2, pair, 2), 2);
	CHECK_INT(fd_recv(pair[1], text, sizeof(text), fds, &n), 2);
	CHECK_INT(n, 2);
	(void)close(fds[0]);
	(void)close(fds[1]);
	CHECK_INT(fd_send(pair[0], "0123456789", 10, pair, 1), 10);
	CHECK_INT(fd_recv(pair[1], text, sizeof(text), fds, &n), -EPROTO);
	CHECK_INT(n, 0);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

TEST(a_directory_that_cannot_be_read_does_not_look_like_an_empty_one)
{
	auto_dir struct dir_reader dir = {.fd = -1};
	auto_fd int file_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	CHECK_INT(dir_open(&dir, AT_FDCWD, "/proc/self/ns"), 0);
	while (dir_next(&dir))
		n++;
	CHECK(n > 3);
	CHECK_INT(dir.error, 0);
	dir_close(&dir);
	CHECK_INT(dir_begin(&dir, file_fd), 0);
	CHECK(dir_next(&dir) == NULL);
	CHECK_INT(dir.error, -ENOTDIR);
	CHECK_INT(dir_open(&dir, AT_FDCWD, "/nowhere"), -ENOENT);
	CHECK(dir_next(&dir) == NULL);
	CHECK_INT(dir.error, -ENOENT);
}

TEST(a_program_that_fails_is_reported_with_its_last_words)
{
	struct err err;

	CHECK_INT(spawn_run((const char *const[]){"true", NULL}, &err), 0);
	CHECK(spawn_run(
		      (const char *const[]){"sh", "-c", "echo one >&2; echo two >&2; exit 3", NULL},
		      &err) < 0);
	CHECK_STR(err.message, "'sh' exited with 3: two");
	CHECK(spawn_run((const char *const[]){"no-such-program-here", NULL}, &err) < 0);
}

TEST(a_list_entry_may_leave_while_the_list_is_walked)
{
	struct item {
		struct list link;
		int value;
	} items[5];
	struct list head = LIST_INIT(head);
	int sum = 0;

	for (int i = 0; i < 5; i++) {
		items[i].value = i;
		list_append(&head, &items[i].link);
	}
	list_for_each (&head, struct item, it, link) {
		sum = sum * 10 + it->value;
		if (it->value % 2)
			list_remove(&it->link);
	}
	CHECK_INT(sum, 1234);
	sum = 0;
	list_for_each (&head, struct item, it, link)
		sum = sum * 10 + it->value;
	CHECK_INT(sum, 24);
}

TEST(codes_of_errors_keep_the_numbers_that_programs_of_older_releases_say)
{
	CHECK_INT(ERR_NONE, 0);
	CHECK_INT(ERR_CONFLICT, 8);
	CHECK_INT(ERR_UNSUPPORTED, 17);
	CHECK_INT(ERR_INTERNAL, 26);
	CHECK_INT(ERR_FILE_CHANGED, 30);
}

TEST(a_time_of_rfc_3339_is_read_whole_or_not_at_all)
{
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {
		{"1970-01-01T00:00:00Z", 0},
		{"2023-11-14T22:13:20z", UINT64_C(1700000000000000)},
		{"2023-11-14t23:13:20.5+01:00", UINT64_C(1700000000500000)},
		{"2023-11-14T17:43:20.1234567-04:30", UINT64_C(1700000000123456)},
		{"2024-02-29T00:00:00Z", UINT64_C(1709164800000000)},
	};
	static const char *const bad[] = {
		"",
		"2023-11-14",
		"2023-11-14T22:13:20",
		"2023-11-14T22:13:20.Z",
		"2023-11-14T22:13:20Zx",
		"2023-11-14T22:13:20 01:00",
		"2023-11-14T22:13:20+1:00",
		"2023-11-14T22:13:20+24:00",
		"2023-02-29T00:00:00Z",
		"2023-13-01T00:00:00Z",
		"2023-01-00T00:00:00Z",
		"2023-01-01T24:00:00Z",
		" 2023-01-01T00:00:00Z",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+00:01",
	};
	uint64_t us;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		CHECK_INT(wall_time_parse(good[i].text, &us), 0);
		CHECK_INT(us, good[i].us);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(wall_time_parse(bad[i], &us), -EINVAL);
}
