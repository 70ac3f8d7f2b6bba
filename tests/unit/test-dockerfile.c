// SPDX-License-Identifier: Apache-2.0
/* What a Dockerfile becomes: instructions, words, stages and parts; and what is refused, with its
 * line. */
#include "build/dockerfile/dockerfile_lines.h"
#include "build/dockerfile/dockerfile_plan.h"
#include "test.h"

#include <string.h>

static int find(const char *reference, struct docker_base *ret, void *arg, struct err *err)
{
	if (strncmp(reference, "open/", 5) == 0) {
		*ret = (struct docker_base){.is_open = true, .name = reference};
		return 0;
	}
	if (strcmp(reference, "base") != 0)
		return err_field(err, "dockerfile", "there is no template '%s'", reference);
	memset(ret->image.bytes, 7, sizeof(ret->image.bytes));
	ret->name = "base";
	ret->manifest = arg;
	return 0;
}

/* The recipe of a text over a base that has said this of itself; args and manifest are taken. */
static int plan_with(const char *text, json_t *manifest, json_t *args, const char *target,
                     json_t **ret, struct err *err)
{
	const struct docker_request request = {.text = text,
	                                       .len = strlen(text),
	                                       .target = target,
	                                       .build_args = args,
	                                       .arch = "amd64",
	                                       .find = find,
	                                       .arg = manifest};
	json_t *recipe = json_object();
	int r = docker_plan(&request, recipe, err);

	json_decref(manifest);
	json_decref(args);
	*ret = recipe;
	return r;
}

static json_t *plan(const char *text)
{
	struct err err = {0};
	json_t *recipe;

	if (plan_with(text, json_object(), NULL, NULL, &recipe, &err) < 0)
		CHECK_STR(err.message, "");
	return recipe;
}

static void check_refused(const char *text, const char *message)
{
	auto_json json_t *recipe = NULL;
	struct err err = {0};

	CHECK(plan_with(text, json_object(), NULL, NULL, &recipe, &err) < 0);
	CHECK_STR(err.message, message);
}

static const char *text_at(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "(nothing)";
}

static const char *env_of(const json_t *recipe, const char *name)
{
	return text_at(json_object_get(recipe, "env"), name);
}

static const json_t *parts_of(const json_t *recipe)
{
	return json_object_get(json_object_get(recipe, "dockerfile"), "parts");
}

/* The script of one instruction, by its place in a part. */
static const char *script(const json_t *recipe, size_t part, size_t i)
{
	const json_t *one = json_array_get(parts_of(recipe), part);
	const char *path =
		json_string_value(json_array_get(json_object_get(one, "run"), 2 * i + 1));

	return path ? text_at(json_object_get(one, "files"), path) : "(no step)";
}

static void check_script(const json_t *recipe, size_t part, size_t i, const char *wanted)
{
	if (!strstr(script(recipe, part, i), wanted))
		CHECK_STR(script(recipe, part, i), wanted);
}

TEST(lines_are_continued_and_comments_between_them_do_not_count)
{
	static const char text[] = "\xef\xbb\xbf# syntax=docker/dockerfile:1\r\n"
				   "\r\n"
				   "from base\r\n"
				   "RUN a \\\r\n"
				   "  # not this\r\n"
				   "\r\n"
				   "  b # but this\r\n";
	struct dockerfile d;
	struct err err;

	CHECK_INT(dockerfile_parse(text, strlen(text), &d, &err), 0);
	CHECK_INT(d.n, 2);
	CHECK_INT(d.items[0].kind, DOCKER_FROM);
	CHECK_INT(d.items[1].line, 4);
	CHECK_STR(d.items[1].text, "a   b # but this");
	dockerfile_done(&d);
}

TEST(the_escape_may_be_a_backtick)
{
	auto_json json_t *r = plan("# escape=`\nFROM base\nENV A=C:\\dir `\n B=x\n");

	CHECK_STR(env_of(r, "A"), "C:\\dir");
	CHECK_STR(env_of(r, "B"), "x");
}

TEST(variables_are_expanded_as_docker_does)
{
	auto_json json_t *r = plan("FROM base\n"
	                           "ENV A=a\n"
	                           "ENV B=\"$A b\" C='$A' D=\\$A E=${A:-x} F=${Z:-x} G=${A:+y} "
	                           "H=${Z:+y}\n"
	                           "ENV I=${Z-${A}}$ J=\"a\\\"b\" K=\n"
	                           "ENV OLD  of the old form $A\n"
	                           "ENV L=${K:-empty} M=${K-unset}\n");

	CHECK_STR(env_of(r, "B"), "a b");
	CHECK_STR(env_of(r, "C"), "$A");
	CHECK_STR(env_of(r, "D"), "$A");
	CHECK_STR(env_of(r, "E"), "a");
	CHECK_STR(env_of(r, "F"), "x");
	CHECK_STR(env_of(r, "G"), "y");
	CHECK_STR(env_of(r, "H"), "");
	CHECK_STR(env_of(r, "I"), "a$");
	CHECK_STR(env_of(r, "J"), "a\"b");
	CHECK_STR(env_of(r, "OLD"), "of the old form a");
	CHECK_STR(env_of(r, "L"), "empty");
	CHECK_STR(env_of(r, "M"), "");
}

TEST(variables_of_one_line_are_those_before_it)
{
	auto_json json_t *r = plan("FROM base\nENV A=1\nENV A=2 B=$A\n");

	CHECK_STR(env_of(r, "B"), "1");
}

TEST(arguments_have_the_scope_of_their_stage)
{
	struct err err = {0};
	auto_json json_t *r = NULL, *none = NULL;
	static const char text[] =
		"ARG WHICH=other\nARG V=1\nFROM $WHICH\nARG V\nARG W=w\n"
		"ENV A=$V B=$W C=$TARGETARCH\nARG TARGETARCH\nENV D=$TARGETARCH\n";

	CHECK_INT(plan_with(text, json_object(), json_pack("{ssss}", "WHICH", "base", "W", "given"),
	                    NULL, &r, &err),
	          0);
	CHECK_STR(env_of(r, "A"), "1");
	CHECK_STR(env_of(r, "B"), "given");
	CHECK_STR(env_of(r, "C"), "");
	CHECK_STR(env_of(r, "D"), "amd64");
	CHECK(plan_with("FROM base\n", json_object(), json_pack("{ss}", "X", "1"), NULL, &none,
	                &err) < 0);
	CHECK_STR(err.message, "build_args: the Dockerfile has no ARG X");
}

TEST(what_a_run_gets_is_quoted)
{
	auto_json json_t *r = plan("FROM base\nENV Q=\"it's\"\nARG X=1\nWORKDIR /w\nUSER bob\n"
	                           "RUN echo 'a b'\nRUN [\"/bin/x\", \"y z\"]\n"
	                           "SHELL [\"/bin/bash\", \"-c\"]\nRUN c\n");

	CHECK_INT(json_array_size(parts_of(r)), 3);
	check_script(r, 0, 1, "cd '/w' || exit\n");
	check_script(r, 0, 1, " 'X=1' 'Q=it'\\''s' /opt/cloche/bin/sudo -E -u 'bob' --");
	check_script(r, 0, 1, " '/bin/sh' '-c' 'echo '\\''a b'\\'''\n");
	check_script(r, 1, 0, " '/bin/x' 'y z'\n");
	check_script(r, 2, 0, " '/bin/bash' '-c' 'c'\n");
}

TEST(a_here_document_is_a_script_a_files_content_or_the_shells)
{
	auto_json json_t *r = plan("FROM base\nENV N=1\n"
	                           "COPY <<EOF <<-\"RAW\" /etc/\nhas $N\nEOF\n\thas $N\n\tRAW\n"
	                           "RUN <<EOF\nset -e\necho $N\nEOF\n"
	                           "RUN cat <<EOF > /x\nhello\nEOF\n");
	const json_t *files = json_object_get(json_array_get(parts_of(r), 0), "files");

	CHECK_STR(text_at(files, DOCKER_STEPS "/1.EOF"), "has 1\n");
	CHECK_STR(text_at(files, DOCKER_STEPS "/1.RAW"), "has $N\n");
	check_script(r, 0, 1, " '/bin/sh' '-c' 'set -e\necho $N\n'");
	check_script(r, 1, 0, " '/bin/sh' '-c' 'cat <<EOF > /x\nhello\nEOF\n'");
}

TEST(a_part_ends_with_its_run)
{
	auto_json json_t *r = plan("FROM base\nCOPY a b /d/\nWORKDIR /d\nRUN x\nRUN y\nCOPY . .\n");
	const json_t *copies = json_object_get(json_object_get(r, "dockerfile"), "copies");

	CHECK_INT(json_array_size(parts_of(r)), 3);
	CHECK_INT(json_array_size(copies), 3); /* a, b and . */
	CHECK_STR(json_string_value(json_array_get(json_array_get(copies, 2), 0)), ".");
	CHECK_STR(json_string_value(json_array_get(
			  json_object_get(json_array_get(parts_of(r), 1), "run"), 0)),
	          "line 5: RUN y");
}

TEST(the_base_has_set_what_the_dockerfile_does_not)
{
	struct err err = {0};
	auto_json json_t *r = NULL;
	json_t *manifest =
		json_pack("{s{ss}sssss[s]s[s]s{s[s]}}", "env", "A", "a", "user", "u", "cwd", "/c",
	                  "entrypoint", "e", "cmd", "old", "config", "onbuild", "ENV B=$A");

	CHECK_INT(plan_with("FROM base\nENTRYPOINT x $A\n", manifest, NULL, NULL, &r, &err), 0);
	CHECK_STR(env_of(r, "A"), "a");
	CHECK_STR(env_of(r, "B"), "a");
	CHECK_STR(text_at(r, "user"), "u");
	CHECK_STR(text_at(r, "cwd"), "/c");
	CHECK(!json_object_get(r, "cmd")); /* it was the old entrypoint's */
	CHECK_STR(json_string_value(json_array_get(json_object_get(r, "entrypoint"), 2)), "x $A");
	CHECK(!json_object_get(json_object_get(r, "config"), "onbuild"));
}

TEST(only_stages_that_the_target_needs_have_parts)
{
	static const char text[] = "FROM base AS One\nRUN a\nFROM one AS two\nRUN b\n"
				   "FROM base AS unused\nRUN c\nFROM scratch\nCOPY x /\n";
	struct err err = {0};
	auto_json json_t *last = plan(text), *two = NULL, *wrong = NULL;

	CHECK_INT(json_array_size(parts_of(last)), 1);
	CHECK(json_object_get(json_array_get(parts_of(last), 0), "tree"));
	CHECK_INT(plan_with(text, json_object(), NULL, "TWO", &two, &err), 0);
	CHECK_INT(json_array_size(parts_of(two)), 2);
	CHECK(plan_with(text, json_object(), NULL, "five", &wrong, &err) < 0);
	CHECK_STR(err.message, "target: the Dockerfile has no stage 'five'");
}

TEST(images_that_are_open_and_needed_are_named_once)
{
	auto_json json_t *recipe = plan("FROM open/unused AS unused\nRUN x\n"
	                                "FROM open/a:1 AS a\nRUN x\n"
	                                "FROM open/a:1\nCOPY --from=open/b /x /\n"
	                                "COPY --from=a /y /\n");
	auto_free char *pulls = json_dumps(json_object_get(recipe, "pulls"), JSON_COMPACT);

	CHECK_STR(pulls, "[\"open/a:1\",\"open/b\"]");
}

TEST(what_is_not_known_is_refused_with_its_line)
{
	check_refused("FROM base\n\nRUNN x\n",
	              "dockerfile: line 3: there is no instruction 'RUNN'");
	check_refused("RUN x\n", "dockerfile: line 1: RUN before the first FROM");
	check_refused("# only\n", "dockerfile: has no instruction");
	check_refused("ARG A\n", "dockerfile: has no FROM");
	check_refused("FROM nobody\n", "line 1: dockerfile: there is no template 'nobody'");
	check_refused("FROM --platform=linux/s390x base\n",
	              "dockerfile: line 1: FROM --platform=linux/s390x: this host builds for "
	              "linux/amd64 only");
	check_refused("FROM base\nRUN --mount=type=secret,id=x y\n",
	              "dockerfile: line 2: RUN --mount=type=secret is not supported: a build is "
	              "given no secret");
	check_refused("FROM base\nRUN --security=insecure x\n",
	              "dockerfile: line 2: RUN --security=insecure is not supported");
	check_refused("FROM base\nCOPY https://example.com/x /\n",
	              "dockerfile: line 2: COPY of 'https://example.com/x' is not supported: ADD "
	              "takes http and https");
	check_refused(
		"FROM base\nADD ftp://example.com/x /\n",
		"dockerfile: line 2: ADD of 'ftp://example.com/x' is not supported: ADD takes "
		"http and https");
	check_refused("FROM base\nADD https://example.com/x.git#main /x\n",
	              "dockerfile: line 2: ADD of the git repository "
	              "'https://example.com/x.git#main' is not supported: clone it into the "
	              "context, or with RUN");
	check_refused("FROM base\nADD git@example.com:x/y /x\n",
	              "dockerfile: line 2: ADD of the git repository 'git@example.com:x/y' is not "
	              "supported: clone it into the context, or with RUN");
	check_refused(
		"FROM base\nADD https://example.com/?x /\n",
		"dockerfile: line 2: ADD of 'https://example.com/?x' needs a target that names "
		"a file: the URL names none");
	check_refused(
		"FROM base\nADD --checksum=sha256:12 https://example.com/x /\n",
		"dockerfile: line 2: ADD --checksum: 'sha256:12' is not sha256: and 64 digits");
	check_refused("FROM base\nADD --checksum=sha256:12 x /\n",
	              "dockerfile: line 2: ADD --checksum is for URLs");
	check_refused("FROM base\nCOPY ../x /\n",
	              "dockerfile: line 2: COPY: '../x' leads out of what can be copied");
	check_refused("FROM base\nCOPY a b /c\n", "dockerfile: line 2: COPY of several sources "
	                                          "needs a target that ends with '/'");
	check_refused("FROM base\nCOPY --parents a /c\n",
	              "dockerfile: line 2: COPY --parents is not supported");
	check_refused("FROM base\nRUN <<EOF\nx\n",
	              "dockerfile: line 2: the here-document 'EOF' has no end");
	check_refused("FROM base\nENV A=${B:?is needed}\n", "dockerfile: line 2: B: is needed");
	check_refused(
		"FROM base\nENV A=${B%x}\n",
		"dockerfile: line 2: ${B%…}: of these, only :-, -, :+, +, :? and ? are known");
	check_refused("FROM base\nENV A='x\n", "dockerfile: line 2: a ' has no end");
	check_refused("FROM base\nEXPOSE 99999\n",
	              "dockerfile: line 2: EXPOSE: '99999' is no port such as 80 or 53/udp");
	check_refused("FROM base\nONBUILD FROM x\n",
	              "dockerfile: line 2: ONBUILD cannot have FROM");
}
