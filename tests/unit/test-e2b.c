// SPDX-License-Identifier: Apache-2.0
/* What E2B's wire reads, as text and bytes. */
#include "test.h"

#include "compat/e2b/code/code.h"
#include "compat/e2b/control/network.h"
#include "compat/e2b/control/steps.h"
#include "compat/e2b/control/workload_token.h"
#include "compat/e2b/envd/multipart.h"
#include "compat/e2b/envd/rpc.h"
#include "compat/e2b/envd/sign.h"
#include "compat/e2b/frame/body.h"

#include <string.h>

TEST(a_signature_is_good_for_one_path_operation_user_and_time)
{
	struct signature s = {.path = "hello.txt",
	                      .op = "read",
	                      .username = "user",
	                      .text = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"};
	const char *token = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";

	CHECK(signature_is_by(&s, token));
	CHECK(!signature_is_by(&s, "another"));
	s.op = "write";
	CHECK(!signature_is_by(&s, token));
	s.op = "read";
	s.path = "hello.txt2";
	CHECK(!signature_is_by(&s, token));
	s.path = "hello.txt";
	s.expiration = "99999999999";
	CHECK(!signature_is_by(&s, token));
	CHECK(!signature_has_expired(&s, 1));
	s.expiration = "1";
	CHECK(signature_has_expired(&s, 2));
	s.expiration = "soon";
	CHECK(signature_has_expired(&s, 2));
}

TEST(an_envelope_is_one_whole_message_without_flags)
{
	static const struct {
		const char *data;
		size_t len;
		int result; /* -1: refused */
	} rows[] = {
		{"\0\0\0\0\2{}", 7, 1},   {"\0\0\0\0\0", 5, 1},
		{"\0\0\0\0\2{", 6, 0},    {"\0\0\0", 3, 0},
		{"\1\0\0\0\2{}", 7, -1},  {"\2\0\0\0\2{}", 7, -1},
		{"\0\0\0\0\2{}x", 8, -1}, {"\0\xff\xff\xff\xff{}", 7, -1},
		{"\0\0\0\0\2{]", 7, -1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *message = NULL;
		struct err err = {0};
		int r = rpc_envelope_read(rows[i].data, rows[i].len, &message, &err);

		CHECK_INT(r < 0 ? -1 : r, rows[i].result);
		json_decref(message);
	}
}

/* What the steps say of a form that comes in stretches of so many bytes. */
static void read_form(const char *text, size_t stretch, char *ret, size_t size)
{
	auto_call(buf_done) struct buf in = BUF_INIT(64 * 1024);
	auto_call(buf_done) struct buf out = BUF_INIT(64 * 1024);
	struct multipart m;
	size_t at = 0;
	int r;

	CHECK_INT(multipart_init(&m, "multipart/form-data; boundary=\"xx\"", NULL), 0);
	do {
		const char *data = NULL;
		size_t len = 0;

		r = multipart_next(&m, &in, &data, &len, NULL);
		if (r == MULTIPART_PART)
			CHECK_INT(buf_printf(&out, "[%s|%s:", m.name, m.filename), 0);
		if (r == MULTIPART_DATA) {
			CHECK_INT(buf_append(&out, data, len), 0);
			buf_consume(&in, len);
		}
		if (r == MULTIPART_PART_END)
			CHECK_INT(buf_append_str(&out, "]"), 0);
		if (r == MULTIPART_MORE && at < strlen(text)) {
			size_t n = MIN(stretch, strlen(text) - at);

			CHECK_INT(buf_append(&in, text + at, n), 0);
			at += n;
			r = MULTIPART_PART;
		}
	} while (r >= 0 && r != MULTIPART_END && r != MULTIPART_MORE);
	CHECK((size_t)snprintf(ret, size, "%s%s", buf_str(&out),
	                       r == MULTIPART_END    ? " end"
	                       : r == MULTIPART_MORE ? " more"
	                                             : " bad") < size);
}

TEST(a_form_is_read_the_same_however_it_is_cut)
{
	static const char form[] =
		"--xx\r\nContent-Disposition: form-data; name=\"file\"; "
		"filename=\"/a/b%22.txt\"\r\n"
		"Content-Type: text/plain\r\n\r\none\r\n--x\r\n--\r\n"
		"\r\n--xx\r\nContent-Disposition: form-data; name=note\r\n\r\n\r\n--xx--\r\n";
	char got[256];

	for (size_t stretch = 1; stretch <= sizeof(form); stretch++) {
		read_form(form, stretch, got, sizeof(got));
		CHECK_STR(got, "[file|/a/b\".txt:one\r\n--x\r\n--\r\n][note|:] end");
	}
}

TEST(what_is_no_form_is_refused)
{
	static const char *const rows[][2] = {
		{"", " more"},
		{"--yy\r\n", " bad"},
		{"--xxjunk\r\n", " bad"},
		{"--xx\r\nContent-Disposition: form-data; name=\"file\r\n\r\n", " bad"},
		{"--xx\r\n\r\nno end", "[|:n more"},
	};
	char got[256];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		read_form(rows[i][0], 1000, got, sizeof(got));
		CHECK_STR(got, rows[i][1]);
	}
}

TEST(what_is_outside_ascii_is_escaped)
{
	auto_call(buf_done) struct buf out = BUF_INIT(100);

	CHECK_INT(ascii_escape("\"a\xc3\xb6\xf0\x9f\x98\x80\"", 9, &out), 0);
	CHECK_STR(buf_str(&out), "\"a\\u00f6\\ud83d\\ude00\"");
	CHECK(ascii_escape("\xff", 1, &out) < 0);
}

TEST(variables_of_a_run_are_words_of_its_language)
{
	auto_json json_t *env = json_pack("{s:s}", "A", "it's"), *old = json_object();
	static const char *const rows[][3] = {
		{"python", "__import__('os').environ.__setitem__(\"A\", \"it's\")\n",
	         "__import__('os').environ.pop(\"A\", None)\n"},
		{"typescript", "process.env[\"A\"] = \"it's\";\n", "delete process.env[\"A\"];\n"},
		{"bash", "export A='it'\\''s'\n", "unset -v A\n"},
		{"r", "Sys.setenv(\"A\" = \"it's\")\n", "Sys.unsetenv(\"A\")\n"},
		{"java", "System.setProperty(\"A\", \"it's\");\n",
	         "System.clearProperty(\"A\");\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_free char *set = run_env_set(rows[i][0], env);
		auto_free char *unset = run_env_unset(rows[i][0], env, old);

		CHECK_STR(set, rows[i][1]);
		CHECK_STR(unset, rows[i][2]);
	}
	CHECK(!run_env_set("cobol", env));
}

static void check_policy_with(const json_t *tokens, const char *options, bool has_internet,
                              const char *wanted)
{
	auto_json json_t *value = json_loads(options, 0, NULL), *policy = NULL;
	struct err err = {0};
	char *text;

	if (e2b_policy(&(struct e2b_network){value, has_internet, tokens}, &policy, &err) < 0) {
		CHECK_STR(err.message, wanted);
		return;
	}
	text = json_dumps(policy, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	CHECK_STR(text, wanted);
	free(text);
}

static void check_policy(const char *options, bool has_internet, const char *wanted)
{
	check_policy_with(NULL, options, has_internet, wanted);
}

static void check_header(const json_t *tokens, const char *given, const char *wanted)
{
	auto_free char *options =
		xasprintf("{\"rules\":{\"h.example\":[{\"transform\":{\"headers\":"
	                  "{\"A\":\"%s\"}}}]}}",
	                  given);
	auto_free char *policy = xasprintf(
		"{\"refusals\":\"reset\",\"rules\":[{\"action\":{\"transform\":{\"headers\":{"
		"\"A\":\"%s\"}}},\"match\":{\"domains\":[\"h.example\"]}},"
		"{\"action\":\"allow\"}]}",
		wanted);

	check_policy_with(tokens, options, true, policy);
}

TEST(secrets_and_tokens_in_headers_are_references_of_ours)
{
	auto_json json_t *tokens = json_pack("{s:s, s:s}", "aws", "sts.amazonaws.com", "a b",
	                                     "https://vault.example.com");

	check_header(tokens, "plain $ ${e2b", "plain $ ${e2b");
	check_header(tokens, "Bearer ${e2b.secrets.key}", "Bearer secret://key");
	check_header(tokens, "${e2b.secrets.a}:${e2b.secrets.b}", "secret://a:secret://b");
	check_header(tokens, "Bearer ${e2b.identity.tokens.aws}",
	             "Bearer identity://sts.amazonaws.com");
	check_header(tokens, "${e2b.identity.tokens.a b}", "identity://https://vault.example.com");
	check_policy_with(
		tokens,
		"{\"rules\":{\"h\":[{\"transform\":{\"headers\":{\"A\":"
		"\"${e2b.identity.tokens.gcp}\"}}}]}}",
		true,
		"network.rules: a header names the token 'gcp', which the sandbox does not have");
}

static void check_tokens(const char *text, const char *wanted)
{
	auto_json json_t *body = json_loads(text, 0, NULL), *tokens = NULL;
	auto_free char *got = NULL;
	struct err err = {0};

	if (workload_token_read(body, &tokens, &err) < 0) {
		CHECK_STR(err.field, wanted);
		return;
	}
	got = tokens ? json_dumps(tokens, JSON_COMPACT | JSON_SORT_KEYS) : xstrdup("none");
	CHECK_STR(got, wanted);
}

TEST(tokens_of_a_create_are_named_with_their_audiences)
{
	check_tokens("{}", "none");
	check_tokens("{\"iam\":{\"tokens\":{}}}", "none");
	check_tokens(
		"{\"iam\":{\"tokens\":{\"aws\":{\"audience\":\"a\",\"tokenType\":\"JWT-SVID\"},"
		"\"b\":{\"audience\":\"c\",\"tokenType\":\"JWT\"}}}}",
		"{\"aws\":\"a\",\"b\":\"c\"}");
	check_tokens("{\"iam\":[]}", "iam");
	check_tokens("{\"iam\":{\"tokens\":{\"a}\":{\"audience\":\"a\",\"tokenType\":\"JWT\"}}}}",
	             "iam.tokens");
	check_tokens("{\"iam\":{\"tokens\":{\"a\":{\"audience\":\"a b\",\"tokenType\":\"JWT\"}}}}",
	             "iam.tokens.a");
	check_tokens("{\"iam\":{\"tokens\":{\"a\":{\"audience\":\"a\",\"tokenType\":\"X509\"}}}}",
	             "iam.tokens.a");
	check_tokens("{\"iam\":{\"tokens\":{\"a\":{\"tokenType\":\"JWT\"}}}}", "iam.tokens.a");
	check_tokens("{\"iam\":{\"tokens\":{\"a\":{\"audience\":7,\"tokenType\":\"JWT\"}}}}",
	             "audience");
	check_tokens(
		"{\"iam\":{\"tokens\":{\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,"
		"\"8\":0,\"9\":0}}}",
		"iam.tokens");
}

TEST(what_is_allowed_wins_over_what_is_denied)
{
	check_policy("{}", true, "\"allow-all\"");
	check_policy("{}", false, "\"deny-all\"");
	check_policy("{\"denyOut\":[\"0.0.0.0/0\"]}", true, "\"deny-all\"");
	check_policy("{\"allowOut\":[\"1.1.1.1\"],\"denyOut\":[\"0.0.0.0/0\"]}", true,
	             "{\"refusals\":\"reset\",\"rules\":[{\"action\":\"allow\",\"match\":{"
	             "\"cidrs\":[\"1.1.1.1\"]}}]}");
	check_policy("{\"denyOut\":[\"8.8.8.8\"]}", true,
	             "{\"refusals\":\"reset\",\"rules\":[{\"action\":\"deny\",\"match\":{\"cidrs\":"
	             "[\"8.8.8.8\"]}},"
	             "{\"action\":\"allow\"}]}");
	check_policy("{\"denyOut\":[\"x\"]}", true, "invalid denied CIDR x");
	check_policy("{\"allowOut\":[\"a.example\"]}", true,
	             "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' "
	             "in deny out to block all other traffic.");
}

TEST(fields_that_nobody_knows_are_ignored_and_wrong_ones_named)
{
	auto_json json_t *body = json_loads(
		"{\"a\":1,\"n\":\"7\",\"watcher_id\":\"w\",\"t\":5,\"z\":null}", 0, NULL);
	const char *text = "old";
	struct err err = {0};
	int64_t number = 0;

	CHECK_INT(body_text(body, "watcherId", &text, &err), 0);
	CHECK_STR(text, "w");
	CHECK_INT(body_int(body, "n", &number, NULL, &err), 0);
	CHECK_INT(number, 7);
	CHECK_INT(body_text(body, "z", &text, &err), 0);
	CHECK_STR(text, "w");
	CHECK(body_text(body, "t", &text, &err) < 0);
	CHECK_STR(err.field, "t");
}

TEST(base64_comes_in_both_alphabets_with_or_without_padding)
{
	static const char *const rows[] = {"/+8=", "_-8=", "_-8", "/+8"};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_free char *data = NULL;
		struct err err;
		size_t len = 0;

		CHECK_INT(body_base64(rows[i], "input", &data, &len, &err), 0);
		CHECK_INT(len, 2);
		CHECK(memcmp(data, "\xff\xef", 2) == 0);
	}
}

/* The recipe of some steps; NULL with err where they are refused. */
static json_t *recipe_of(const char *steps, struct err *err)
{
	auto_json json_t *body = json_loads(steps, 0, NULL);
	json_t *recipe = json_pack("{s{}}", "e2b");
	const struct steps_start start = {.cwd = "/home/user"};

	CHECK(body != NULL);
	if (steps_read(body, &start, recipe, err) == 0)
		return recipe;
	json_decref(recipe);
	return NULL;
}

static const char *script_of(const json_t *recipe, const char *path)
{
	return json_string_value(json_object_get(json_object_get(recipe, "files"), path));
}

TEST(steps_of_a_build_become_scripts_that_quote_what_a_client_said)
{
	static const char steps[] = "{\"steps\": [{\"type\": \"ENV\", \"args\": [\"A\", \"it's\", "
				    "\"B\", \"${A}-$NONE$\"]},"
				    "{\"type\": \"USER\", \"args\": [\"root\"]}, {\"type\": "
				    "\"WORKDIR\", \"args\": [\"w\"]},"
				    "{\"type\": \"RUN\", \"args\": [\"echo 'x'\", null]}]}";
	struct err err = {0};
	auto_json json_t *recipe = recipe_of(steps, &err);

	CHECK(recipe != NULL);
	CHECK_STR(json_string_value(json_object_get(json_object_get(recipe, "env"), "B")),
	          "it's-$");
	CHECK_STR(json_string_value(json_object_get(recipe, "user")), "root");
	CHECK_STR(json_string_value(json_object_get(recipe, "cwd")), "/home/user/w");
	CHECK(strstr(script_of(recipe, STEPS_DIR "/4"), "export A='it'\\''s'\n") != NULL);
	CHECK(strstr(script_of(recipe, STEPS_DIR "/4"), "-c 'echo '\\''x'\\'''") != NULL);
	CHECK(!script_of(recipe, STEPS_DIR "/1"));
	CHECK_INT(json_array_size(json_object_get(recipe, "run")),
	          4); /* the first makes the user */
}

TEST(steps_that_cannot_be_built_are_refused_by_their_number)
{
	static const char *const rows[] = {
		"{\"steps\": [{\"type\": \"RUN\", \"args\": []}]}",
		"{\"steps\": [{\"type\": \"FROM\", \"args\": [\"x\"]}]}",
		"{\"steps\": [{\"type\": \"COPY\", \"args\": [\"a\", \"b\"]}]}",
		"{\"steps\":[{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],\"filesHash\":\"../\"}]}",
		"{\"steps\": [{\"type\": \"ENV\", \"args\": [\"A B\", \"x\"]}]}",
		"{\"steps\": [{\"type\": \"ENV\", \"args\": [\"A\"]}]}",
		"{\"steps\": [{\"type\": \"USER\", \"args\": [\"-x; id\"]}]}",
		"{\"steps\": [7]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = {0};
		auto_json json_t *recipe = recipe_of(rows[i], &err);

		CHECK(!recipe);
		CHECK_STR(err.field, "steps[0]");
	}
}

TEST(a_line_that_names_a_step_s_script_is_known_by_its_number)
{
	static const struct {
		const char *line;
		unsigned number;
	} rows[] = {
		{"+ sh " STEPS_DIR "/12", 12},
		{"+ sh " STEPS_DIR "/99999999999", 0},
		{"+ sh " STEPS_DIR "/", 0},
		{"echo", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_INT(steps_find(rows[i].line, strlen(rows[i].line)), rows[i].number);
}
