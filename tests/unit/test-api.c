// SPDX-License-Identifier: Apache-2.0
/* Bodies become specs, or an error that names the field; text is never cut; cursors are what we
 * made. */
#include "api/frame/body.h"
#include "api/frame/cursor.h"
#include "api/frame/text_carry.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static json_t *parse(const char *text)
{
	json_t *value = NULL;
	struct err err;

	if (json_parse(text, strlen(text), &value, &err) < 0)
		CHECK_STR(err.message, "");
	return value;
}

/* How a reader judges a body: "" or "FIELD: …" or the message. */
static const char *judge_create(const char *text)
{
	static struct err err;
	auto_json json_t *body = parse(text);
	struct sandbox_spec spec;
	struct port_numbers ports;
	bool is_get;

	err = (struct err){};
	return body_read_create(body, &spec, &is_get, &ports, &err) < 0
	               ? (*err.field ? err.field : err.message)
	               : "";
}

static const char *judge_patch(const char *text)
{
	static struct err err;
	auto_json json_t *body = parse(text);
	struct sandbox_patch patch;

	err = (struct err){};
	return body_read_patch(body, &patch, &err) < 0 ? (*err.field ? err.field : err.message)
	                                               : "";
}

static const char *judge_exec(const char *text)
{
	static struct err err;
	auto_json json_t *body = parse(text);
	auto_call(exec_body_done) struct exec_body exec = {};

	err = (struct err){};
	return body_read_exec(body, &exec, &err) < 0 ? (*err.field ? err.field : err.message) : "";
}

static const char *judge_run(const char *text)
{
	static struct err err;
	auto_json json_t *body = parse(text);
	auto_call(run_body_done) struct run_body run = {};

	err = (struct err){};
	return body_read_run(body, &run, &err) < 0 ? (*err.field ? err.field : err.message) : "";
}

TEST(a_create_without_a_body_takes_all_defaults)
{
	struct sandbox_spec spec;
	struct port_numbers ports;
	bool is_get;
	struct err err;

	CHECK_INT(body_read_create(NULL, &spec, &is_get, &ports, &err), 0);
	CHECK(!spec.template);
	CHECK_STR(spec.engine, "auto");
	CHECK(!spec.name && !spec.tags && !spec.env && !spec.min_grade);
	CHECK_INT(spec.timeout_ms, 0);
	CHECK_INT(spec.limits.memory_bytes, 0);
}

TEST(a_create_body_becomes_a_spec)
{
	auto_json json_t *body = parse(
		"{\"name\": \"n\", \"template\": \"host\", \"tags\": {\"a\": \"b\"}, \"env\": "
		"{\"X\": \"1\"},"
		"\"limits\": {\"vcpus\": 0.5, \"memory_mib\": 64, \"disk_mib\": 100, \"inodes\": "
		"1000,"
		"\"pids\": 32, \"open_files\": 128}, \"timeout_ms\": 5000, \"engine\": \"jail\","
		"\"min_grade\": \"process\"}");
	struct sandbox_spec spec;
	struct port_numbers ports;
	bool is_get;
	struct err err;

	CHECK_INT(body_read_create(body, &spec, &is_get, &ports, &err), 0);
	CHECK_STR(spec.name, "n");
	CHECK_INT(json_object_size(spec.tags), 1);
	CHECK_INT(json_object_size(spec.env), 1);
	CHECK_INT(spec.limits.cpu_milli, 500);
	CHECK_INT(spec.limits.memory_bytes, 64 << 20);
	CHECK_INT(spec.limits.disk_bytes, 100 << 20);
	CHECK_INT(spec.limits.inodes, 1000);
	CHECK_INT(spec.limits.pids, 32);
	CHECK_INT(spec.limits.open_files, 128);
	CHECK_INT(spec.timeout_ms, 5000);
	CHECK_STR(spec.engine, "jail");
	CHECK_STR(spec.min_grade, "process");
}

TEST(a_wrong_create_names_the_field)
{
	/* clang-format off */
	static const char *const rows[][2] = {
		{"{\"nme\": 1}",                              "nme"},
		{"{\"name\": 7}",                             "name"},
		{"{\"name\": \"\"}",                          "name"},
		{"{\"template\": []}",                        "template"},
		{"{\"tags\": []}",                            "tags"},
		{"{\"env\": {\"\": \"x\"}}",                  "env."},
		{"{\"env\": {\"A=B\": \"x\"}}",               "env.A=B"},
		{"{\"env\": {\"A\": 1}}",                     "env.A"},
		{"{\"limits\": 1}",                           "limits"},
		{"{\"limits\": {\"cpu\": 1}}",                "limits.cpu"},
		{"{\"limits\": {\"memory_mib\": 1.5}}",       "limits.memory_mib"},
		{"{\"limits\": {\"disk_mib\": \"1\"}}",       "limits.disk_mib"},
		{"{\"limits\": {\"open_files\": true}}",      "limits.open_files"},
		{"{\"timeout_ms\": 0}",                       "timeout_ms"},
		{"{\"timeout_ms\": 9223372036854775807}",     "timeout_ms"},
		{"{\"engine\": \"docker\"}",                  "engine"},
		{"{\"min_grade\": \"best\"}",                 "min_grade"},
		{"[]",                                        "the body must be a JSON object"},
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(judge_create(rows[i][0]), rows[i][1]);
}

TEST(null_counts_as_absent)
{
	CHECK_STR(judge_create("{\"name\": null, \"limits\": null}"), "");
	CHECK_STR(judge_exec("{\"shell\": \"x\", \"argv\": null, \"pty\": null}"), "");
}

/* The range is told by the fleet, which knows it: here no number may become another by overflow. */
TEST(a_limit_out_of_range_stays_out_of_range)
{
	static const char *const texts[] = {"0", "-1", "9223372036854775807", "4294967296"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_free char *text =
			xasprintf("{\"limits\": {\"vcpus\": %s, \"memory_mib\": %s, \"pids\": %s}}",
		                  texts[i], texts[i], texts[i]);
		auto_json json_t *body = parse(text);
		struct sandbox_spec spec;
		struct port_numbers ports;
		bool is_get;
		uint64_t most = i < 2 ? 1 : UINT64_MAX, least = i < 2 ? 1 : UINT32_MAX / 5;

		CHECK_INT(body_read_create(body, &spec, &is_get, &ports, NULL), 0);
		CHECK(spec.limits.memory_bytes >= least && spec.limits.memory_bytes <= most);
		CHECK(spec.limits.pids >= least && spec.limits.pids <= most);
		CHECK(spec.limits.cpu_milli >= least && spec.limits.cpu_milli <= most);
	}
}

TEST(a_patch_must_change_something)
{
	CHECK_STR(judge_patch("{}"), "nothing to change");
	CHECK_STR(judge_patch("{\"engine\": \"jail\"}"), "engine");
	CHECK_STR(judge_patch("{\"name\": \"x\"}"), "");
	CHECK_STR(judge_patch("{\"limits\": {\"pids\": true}}"), "limits.pids");
	CHECK_STR(judge_patch("{\"timeout_ms\": 0}"), "timeout_ms");
	CHECK_STR(judge_patch("{\"tags\": {}}"), "");
}

TEST(an_exec_body_becomes_a_spec)
{
	auto_json json_t *body =
		parse("{\"argv\": [\"a\", \"b\"], \"cwd\": \"/tmp\", \"env\": {\"X\": \"1\"}, "
	              "\"user\": \"root\","
	              "\"stdin_base64\": \"AAEC\", \"pty\": {\"cols\": 100}, \"timeout_ms\": 7,"
	              "\"kill_on_disconnect\": true}");
	auto_call(exec_body_done) struct exec_body b = {};
	struct err err;

	CHECK_INT(body_read_exec(body, &b, &err), 0);
	CHECK_INT(json_array_size(b.spec.argv), 2);
	CHECK_STR(b.spec.cwd, "/tmp");
	CHECK_STR(b.spec.user, "root");
	CHECK_MEM(b.input, b.input_len, "\0\1\2", 3);
	CHECK(b.spec.has_pty && b.spec.has_stdin && b.closes_stdin && b.spec.ends_with_caller);
	CHECK_INT(b.spec.rows, 24);
	CHECK_INT(b.spec.cols, 100);
	CHECK_INT(b.spec.timeout_ms, 7);
}

TEST(stdin_is_open_only_when_there_is_a_use_for_it)
{
	static const struct {
		const char *body;
		bool has_stdin, closes;
	} rows[] = {
		{"{\"shell\": \"x\"}", false, false},
		{"{\"shell\": \"x\", \"stdin\": \"\"}", true, true},
		{"{\"shell\": \"x\", \"open_stdin\": true}", true, false},
		{"{\"shell\": \"x\", \"stdin\": \"a\", \"open_stdin\": true}", true, false},
		{"{\"shell\": \"x\", \"pty\": {}}", true, false},
		{"{\"shell\": \"x\", \"pty\": {}, \"stdin\": \"a\"}", true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *body = parse(rows[i].body);
		auto_call(exec_body_done) struct exec_body b = {};
		struct err err;

		CHECK_INT(body_read_exec(body, &b, &err), 0);
		CHECK_INT(b.spec.has_stdin, rows[i].has_stdin);
		CHECK_INT(b.closes_stdin, rows[i].closes);
	}
}

TEST(a_wrong_exec_names_the_field)
{
	/* clang-format off */
	static const char *const rows[][2] = {
		{"{}",                                                       "argv"},
		{"{\"argv\": [\"a\"], \"shell\": \"b\"}",                    "shell"},
		{"{\"argv\": []}",                                           "argv"},
		{"{\"argv\": [\"\"]}",                                       "argv"},
		{"{\"argv\": [\"a\", 1]}",                                   "argv"},
		{"{\"argv\": \"a\"}",                                        "argv"},
		{"{\"shell\": \"\"}",                                        "shell"},
		{"{\"shell\": \"x\", \"cwd\": \"\"}",                        "cwd"},
		{"{\"shell\": \"x\", \"env\": {\"A\": null}}",               "env.A"},
		{"{\"shell\": \"x\", \"user\": \"\"}",                       "user"},
		{"{\"shell\": \"x\", \"user\": \"a:b\"}",                    "user"},
		{"{\"shell\": \"x\", \"user\": \"-1\"}",                     "user"},
		{"{\"shell\": \"x\", \"user\": \"65535\"}",                  "user"},
		{"{\"shell\": \"x\", \"stdin\": 1}",                         "stdin"},
		{"{\"shell\": \"x\", \"stdin\": \"a\", \"stdin_base64\": \"\"}", "stdin_base64"},
		{"{\"shell\": \"x\", \"stdin_base64\": \"a\"}",              "stdin_base64"},
		{"{\"shell\": \"x\", \"open_stdin\": 1}",                    "open_stdin"},
		{"{\"shell\": \"x\", \"pty\": true}",                        "pty"},
		{"{\"shell\": \"x\", \"pty\": {\"rows\": 0}}",               "pty.rows"},
		{"{\"shell\": \"x\", \"pty\": {\"cols\": 1001}}",            "pty.cols"},
		{"{\"shell\": \"x\", \"pty\": {\"x\": 1}}",                  "pty.x"},
		{"{\"shell\": \"x\", \"timeout_ms\": -1}",                   "timeout_ms"},
		{"{\"shell\": \"x\", \"timeout_ms\": 31536000001}",          "timeout_ms"},
		{"{\"shell\": \"x\", \"detached\": \"yes\"}",                "detached"},
		{"{\"shell\": \"x\", \"detached\": true, \"kill_on_disconnect\": true}", "kill_on_disconnect"},
		{"{\"shell\": \"x\", \"command\": \"y\"}",                   "command"},
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(judge_exec(rows[i][0]), rows[i][1]);
}

TEST(too_many_bytes_of_words_are_refused_with_the_figures)
{
	auto_json json_t *body = json_object();
	auto_free char *word = xcalloc(1, ARGV_BYTES_MAX + 1);
	auto_call(exec_body_done) struct exec_body b = {};
	struct err err;

	memset(word, 'a', ARGV_BYTES_MAX);
	CHECK_INT(json_object_set_new(body, "argv", json_pack("[s]", word)), 0);
	CHECK_INT(body_read_exec(body, &b, &err), -EINVAL);
	CHECK_STR(err.message, "argv: has 131073 bytes, 131072 are allowed");
	word[ARGV_BYTES_MAX - 1] = '\0';
	CHECK_INT(json_object_set_new(body, "argv", json_pack("[s]", word)), 0);
	CHECK_INT(body_read_exec(body, &b, &err), 0);
}

TEST(code_of_a_run_is_a_call_and_not_an_exec)
{
	auto_json json_t *body =
		parse("{\"code\": \"1\", \"language\": \"bash\", \"cwd\": \"/tmp\","
	              "\"user\": \"root\", \"timeout_ms\": 5}");
	auto_call(run_body_done) struct run_body b = {};
	struct err err;

	CHECK_INT(body_read_run(body, &b, &err), 0);
	CHECK(!b.exec.spec.argv && !b.exec.spec.shell);
	CHECK_STR(b.code.code, "1");
	CHECK_STR(b.code.language, "bash");
	CHECK_STR(b.code.cwd, "/tmp");
	CHECK_STR(b.code.user, "root");
	CHECK_INT(b.code.timeout_ms, 5);
}

TEST(files_of_a_run_become_bytes_with_their_mode)
{
	auto_json json_t *body =
		parse("{\"command\": \"x\", \"files\": [{\"path\": \"a\", \"text\": \"é\"},"
	              "{\"path\": \"b\", \"base64\": \"/w==\", \"mode\": \"0755\"}]}");
	auto_call(run_body_done) struct run_body b = {};
	struct err err;

	CHECK_INT(body_read_run(body, &b, &err), 0);
	CHECK_INT(b.n_files, 2);
	CHECK_MEM(b.files[0].data, b.files[0].len, "é", 2);
	CHECK(!b.files[0].has_mode);
	CHECK_MEM(b.files[1].data, b.files[1].len, "\xff", 1);
	CHECK_INT(b.files[1].mode, 0755);
}

TEST(a_wrong_run_names_the_field)
{
	/* clang-format off */
	static const char *const rows[][2] = {
		{"{}",                                                         "command"},
		{"{\"command\": \"a\", \"code\": \"b\"}",                      "code"},
		{"{\"command\": \"a\", \"argv\": [\"b\"]}",                    "command"},
		{"{\"command\": \"a\", \"language\": \"python\"}",             "language"},
		{"{\"command\": \"a\", \"args\": []}",                         "args"},
		{"{\"code\": \"a\", \"language\": \"perl\"}",                  "language"},
		{"{\"code\": \"a\", \"stdin\": \"x\"}",                      "stdin"},
		{"{\"argv\": [\"\"]}",                                         "argv"},
		{"{\"command\": \"a\", \"files\": {}}",                        "files"},
		{"{\"command\": \"a\", \"files\": [1]}",                       "files[0]"},
		{"{\"command\": \"a\", \"files\": [{\"text\": \"\"}]}",        "files[0].path"},
		{"{\"command\": \"a\", \"files\": [{\"path\": \"x\"}]}",       "files[0].base64"},
		{"{\"command\": \"a\", \"files\": [{\"path\": \"x\", \"text\": \"\", \"base64\": \"\"}]}", "files[0].base64"},
		{"{\"command\": \"a\", \"files\": [{\"path\": \"x\", \"text\": \"\", \"mode\": \"9\"}]}", "files[0].mode"},
		{"{\"command\": \"a\", \"limits\": {\"pids\": null, \"no\": 0}}", "limits.no"},
		{"{\"command\": \"a\", \"stdin_base64\": \"!\"}",              "stdin_base64"},
		{"{\"command\": \"a\", \"pty\": {}}",                          "pty"},
		{"{\"command\": \"a\", \"detached\": true}",                   "detached"},
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_STR(judge_run(rows[i][0]), rows[i][1]);
}

TEST(a_signal_is_a_name_or_a_number)
{
	static const struct {
		const char *body;
		int signo;
	} rows[] = {
		{"{\"signal\": \"INT\"}", SIGINT},
		{"{\"signal\": \"SIGTERM\"}", SIGTERM},
		{"{\"signal\": \"sigkill\"}", SIGKILL},
		{"{\"signal\": 64}", 64},
		{"{\"signal\": 0}", -EINVAL},
		{"{\"signal\": 65}", -EINVAL},
		{"{\"signal\": \"\"}", -EINVAL},
		{"{\"signal\": \"SIG\"}", -EINVAL},
		{"{\"signal\": 1.5}", -EINVAL},
		{"{}", -EINVAL},
		{"{\"signal\": 9, \"all\": true}", -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *body = parse(rows[i].body);
		struct err err;
		bool tree;
		int signo;
		int r = body_read_signal(body, &signo, &tree, &err);

		CHECK_INT(r < 0 ? r : signo, rows[i].signo);
	}
}

TEST(a_file_mode_is_three_or_four_octal_digits)
{
	static const struct {
		const char *text;
		int mode;
	} rows[] = {
		{"644", 0644},      {"0644", 0644},      {"1777", 01777},  {"01777", 01777},
		{"", -EINVAL},      {"64", -EINVAL},     {"888", -EINVAL}, {"+644", -EINVAL},
		{"0x1ff", -EINVAL}, {"000644", -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err;
		uint32_t mode = 0;
		int r = body_file_mode(rows[i].text, "mode", &mode, &err);

		CHECK_INT(r < 0 ? r : (int)mode, rows[i].mode);
	}
}

TEST(a_character_is_held_until_it_is_whole)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	struct text_carry held = {};
	struct buf all = BUF_INIT(64);

	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		struct buf one = BUF_INIT(16);

		CHECK_INT(text_take(&held, text + i, 1, &one), 0);
		CHECK(one.len != 0 || held.len > 0);
		CHECK_INT(buf_append(&all, buf_str(&one), one.len), 0);
		buf_done(&one);
	}
	CHECK_MEM(all.data, all.len, text, sizeof(text) - 1);
	CHECK_INT(held.len, 0);
	buf_done(&all);
}

TEST(bytes_that_begin_no_character_are_not_held)
{
	static const char *const ends[] = {"\xff",      "\xc0",     "\x80",
	                                   "a\xe2\x28", "\xf5\x80", "\xed\xa0"};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct text_carry held = {};
		struct buf out = BUF_INIT(16);

		CHECK_INT(text_take(&held, ends[i], strlen(ends[i]), &out), 0);
		CHECK_INT(held.len, 0);
		buf_done(&out);
	}
}

TEST(a_cursor_leads_back_to_its_id)
{
	char id[ID_SIZE], back[ID_SIZE], cursor[CURSOR_SIZE];
	struct err err;

	for (int i = 0; i < 50; i++) {
		id_make(id, "sb");
		cursor_make(id, cursor);
		CHECK_INT(strcspn(cursor, "+/="), strlen(cursor));
		CHECK_INT(cursor_parse(cursor, "sb", back, &err), 0);
		CHECK_STR(back, id);
	}
}

TEST(a_cursor_that_we_did_not_make_is_refused)
{
	char id[ID_SIZE], foreign[CURSOR_SIZE], back[ID_SIZE];
	struct err err;

	id_make(id, "ex");
	cursor_make(id, foreign);
	CHECK_INT(cursor_parse(foreign, "sb", back, &err), -EINVAL);
	CHECK_STR(err.field, "cursor");
	CHECK_INT(cursor_parse("", "sb", back, &err), -EINVAL);
	CHECK_INT(cursor_parse("sb", "sb", back, &err), -EINVAL);
	CHECK_INT(cursor_parse("c2JfJyBPUiAx", "sb", back, &err), -EINVAL);
	CHECK_INT(
		cursor_parse(
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			"sb", back, &err),
		-EINVAL);
}
