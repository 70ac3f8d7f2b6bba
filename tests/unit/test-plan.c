// SPDX-License-Identifier: Apache-2.0
/* What the steps of a build are, without running them. */
#include "build/plan.h"
#include "build/recipe/recipe.h"
#include "daemon/probe/registries.h"
#include "daemon/probe/sources.h"
#include "test.h"

#include <string.h>

static char *lines[] = {(char[]){"[] http://a.example/debian bookworm main"},
                        (char[]){"[] http://a.example/debian bookworm-updates main"},
                        (char[]){"[trusted=yes] https://s.example:8443/x bookworm-security main"},
                        (char[]){"[] http://b.example/backports bookworm-backports main"},
                        (char[]){"[] http://10.0.0.7/y sid main"},
                        NULL};
static struct builds builds = {.config = {.sources = lines,
                                          .codename = "bookworm",
                                          .npm_registry = "https://npm.example/"}};
static struct build build;

static void start(const char *text)
{
	struct err err;

	json_decref(build.recipe);
	build = (struct build){.owner = &builds};
	CHECK_INT(recipe_parse("r", text, strlen(text), &build.recipe, &err), 0);
	if (recipe_suite(build.recipe))
		(void)snprintf(build.suite, sizeof(build.suite), "%s", recipe_suite(build.recipe));
}

static void check_policy(enum step step, const char *wanted)
{
	auto_json json_t *policy = plan_network(&build, step);
	auto_free char *text = json_dumps(policy, JSON_COMPACT | JSON_ENCODE_ANY);

	CHECK_STR(text, wanted);
}

TEST(archives_of_the_hosts_release_serve_any_suite_and_backports_none)
{
	auto_free char *trixie = plan_sources(&builds.config, "trixie");
	auto_free char *sid = plan_sources(&builds.config, "sid");

	CHECK_STR(trixie, "[] http://a.example/debian trixie main\n"
	                  "[] http://a.example/debian trixie-updates main\n"
	                  "[trusted=yes] https://s.example:8443/x trixie-security main");
	CHECK_STR(sid, "[] http://10.0.0.7/y sid main");
}

TEST(a_recipe_has_the_steps_that_it_needs)
{
	start("name = 'a'\nfrom = 'debian:trixie'\npackages = ['git']");
	CHECK(plan_has(&build, STEP_STATE) && plan_has(&build, STEP_BOOTSTRAP));
	CHECK(plan_has(&build, STEP_PACKAGES) && plan_is_last(&build, STEP_PACKAGES));
	CHECK(!plan_has(&build, STEP_EXTRAS) && !plan_has(&build, STEP_CHECKS));
	start("name = 'a'\nfrom = 'b'\nrun = ['true']\nchecks = ['true']");
	CHECK(!plan_has(&build, STEP_STATE) && !plan_has(&build, STEP_BOOTSTRAP));
	CHECK(!plan_has(&build, STEP_PACKAGES));
	CHECK(plan_is_last(&build, STEP_EXTRAS) && plan_has(&build, STEP_CHECKS));
}

TEST(a_kernel_is_fetched_and_nothing_is_installed)
{
	start("name = 'kernel'\nfrom = 'debian:trixie'\nkernel = ['linux-image-cloud']");
	CHECK(plan_has(&build, STEP_STATE) && plan_has(&build, STEP_KERNEL));
	CHECK(plan_is_last(&build, STEP_KERNEL) && plan_is_sealed(STEP_KERNEL));
	CHECK(!plan_has(&build, STEP_BOOTSTRAP) && !plan_has(&build, STEP_PACKAGES));
	CHECK(!plan_has(&build, STEP_EXTRAS) && !plan_has(&build, STEP_CHECKS));
	start("name = 'a'\nfrom = 'debian:trixie'");
	CHECK(!plan_has(&build, STEP_KERNEL));
}

TEST(a_key_is_the_same_for_the_same_and_another_for_anything_else)
{
	static const char *const texts[] = {
		"name = 'a'\nfrom = 'debian:trixie'\npackages = ['git']",
		"name = 'other'\nfrom = 'debian:trixie'\npackages = ['git']\n[env]\nA = 'b'",
		"name = 'a'\nfrom = 'debian:trixie'\npackages = ['git', 'jq']",
		"name = 'a'\nfrom = 'debian:trixie'\npackages = ['git']\nrun = ['true']",
	};
	char keys[6][PLAN_KEY_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		start(texts[i]);
		plan_key(&build, STEP_PACKAGES, keys[i]);
	}
	CHECK_STR(keys[0], keys[1]); /* a name and variables are not in the image */
	start(texts[0]);
	build.archive_state[0] = '1';
	plan_key(&build, STEP_PACKAGES, keys[4]);
	build.archive_state[0] = '\0';
	build.image.bytes[0] = 1;
	plan_key(&build, STEP_PACKAGES, keys[5]);
	for (size_t i = 1; i < ARRAY_SIZE(keys); i++)
		for (size_t k = i + 1; k < ARRAY_SIZE(keys); k++)
			CHECK(strcmp(keys[i], keys[k]) != 0);
}

TEST(a_step_reaches_the_archives_and_only_extras_the_public_internet)
{
#define PRIVATE                                                                                    \
	"\"cidrs\":[\"10.0.0.0/8\",\"172.16.0.0/12\",\"192.168.0.0/16\",\"100.64.0.0/10\","        \
	"\"192.0.2.0/24\",\"198.18.0.0/15\",\"198.51.100.0/24\",\"203.0.113.0/24\",\"fc00::/7\","  \
	"\"2001:db8::/32\"]"
	start("name = 'a'\nfrom = 'debian:sid'\nrun = ['true']\nchecks = ['true']");
	check_policy(STEP_PACKAGES, "{\"rules\":[{\"match\":{\"cidrs\":[\"10.0.0.7\"]},"
	                            "\"action\":\"allow\"}]}");
	check_policy(STEP_EXTRAS,
	             "{\"rules\":[{\"match\":{\"domains\":[\"npm.example\"]," PRIVATE
	             "},\"action\":\"allow\"},{\"match\":{\"domains\":[\"npm.example\"]},"
	             "\"action\":\"allow\"},{\"match\":{\"cidrs\":[\"10.0.0.7\"]},"
	             "\"action\":\"allow\"},{\"match\":{},\"action\":\"allow\"}]}");
	check_policy(STEP_CHECKS, "\"deny-all\"");
}

TEST(words_of_a_recipe_come_to_a_script_as_they_are)
{
	auto_json json_t *env = NULL, *argv = NULL;

	start("name = 'a'\nfrom = 'b'\nrun = ['echo \"$x\"', 'b']\n[files]\n'/a b' = 'c'\n"
	      "'/d' = ''\n");
	env = plan_env(&build, STEP_EXTRAS);
	argv = plan_argv(&build, STEP_EXTRAS);
	CHECK_STR(json_string_value(json_object_get(env, "FILES")), "Yw== /a b\n= /d");
	CHECK_INT(json_array_size(argv), 6);
	CHECK_STR(json_string_value(json_array_get(argv, 4)), "echo \"$x\"");
}

TEST(both_forms_of_apts_sources_are_read)
{
	struct sources s = {0};

	sources_parse(
		&s,
		"# no\ndeb http://a/debian  sid main contrib # x\ndeb-src http://a/debian sid "
		"main\n"
		"deb [arch=amd64 signed-by=/k.gpg] https://b/ sid\tmain\n"
		"deb [trusted=yes] http://c/ sid main\ndeb http://d/ sid contrib\ndeb "
		"file:/e sid main\ndeb [x http://f sid main\ndeb\n",
		/* is_paragraphs= */ false);
	sources_parse(&s,
	              "Types: deb deb-src\nURIs: http://g/ http://h/\nSuites: sid sid-updates\n"
	              "Components: main\nSigned-By: /l.gpg\n\n"
	              "Types: deb\nURIs: http://i/\nSuites: sid\nComponents: main\nEnabled: no\n\n"
	              "types: deb\nuris: http://j/\nsuites: sid\ncomponents: main\nTrusted: yes\n"
	              "Signed-By:\n -----BEGIN\n",
	              /* is_paragraphs= */ true);
	{
		static const char *const wanted[] = {
			"[] http://a/debian sid main",
			"[signed-by=/k.gpg] https://b/ sid main",
			"[trusted=yes] http://c/ sid main",
			"[signed-by=/l.gpg] http://g/ sid main",
			"[signed-by=/l.gpg] http://g/ sid-updates main",
			"[signed-by=/l.gpg] http://h/ sid main",
			"[signed-by=/l.gpg] http://h/ sid-updates main",
			"[trusted=yes] http://j/ sid main",
		};

		for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
			CHECK_STR(s.lines[i], wanted[i]);
		CHECK(!s.lines[ARRAY_SIZE(wanted)]);
	}
	sources_done(&s);
}

TEST(the_hosts_own_registries_are_read_as_npm_and_pip_do)
{
	static const char npmrc[] = "# registry=http://a\n@own:registry=http://b\n"
				    "registry-x=http://c\nregistry = \"http://d/\" \nfund=false";
	static const char pip_conf[] = "[global]\nindex-url=https://e/simple\r\n"
				       "extra-index-url = https://f\n";
	auto_free char *npm = registries_find(npmrc, "registry");
	auto_free char *pip = registries_find(pip_conf, "index-url");
	auto_free char *none = registries_find("cert = /x", "index-url");

	CHECK_STR(npm, "http://d/");
	CHECK_STR(pip, "https://e/simple");
	CHECK(!none);
}

TEST(registries_that_nobody_has_told_are_asked_for_and_reached)
{
	start("name = 'a'\nfrom = 'debian:trixie'\npip = ['six']\nnpm_packages = ['zod']");
	CHECK(plan_has(&build, STEP_REGISTRIES)); /* npm's is known, pip's is not */
	builds.learnt = (struct registries){.pip = "https://pip.example/simple",
	                                    .pip_files = "files.example"};
	CHECK(!plan_has(&build, STEP_REGISTRIES));
	{
		auto_json json_t *policy = plan_network(&build, STEP_EXTRAS);
		auto_free char *text = json_dumps(policy, JSON_COMPACT);

		CHECK(strstr(text, "\"npm.example\",\"pip.example\",\"files.example\""));
	}
	builds.learnt = (struct registries){0};
}
