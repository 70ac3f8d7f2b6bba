// SPDX-License-Identifier: Apache-2.0
#include "build/recipe/recipe.h"
#include "build/recipe/word.h"
#include "test.h"

#include <string.h>

static struct err err;

static json_t *parse(const char *text)
{
	json_t *recipe = NULL;

	err = (struct err){0};
	(void)!recipe_parse("r.toml", text, strlen(text), &recipe, &err);
	return recipe;
}

TEST(a_recipe_is_read_into_an_object_of_the_same_names)
{
	auto_json json_t *got = parse("# x\n"
	                              "name = 'x.y-1'\n"
	                              "from = \"debian:trixie\"\n"
	                              "packages = [\"git\", 'g++=4:14.2.0-1',\n 'libc6-dev' ]\n"
	                              "cwd = '/srv'\n"
	                              "[env]\nA_B = 'c'\n"
	                              "[files]\n\"/etc/motd\" = \"hello\\n\"\n");
	auto_free char *text = NULL;

	CHECK_STR(err.message, "");
	text = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
	CHECK_STR(text, "{\"cwd\":\"/srv\",\"env\":{\"A_B\":\"c\"},\"files\":{\"/etc/"
	                "motd\":\"hello\\n\"},\"from\":\"debian:trixie\",\"name\":\"x.y-1\","
	                "\"packages\":[\"git\",\"g++=4:14.2.0-1\",\"libc6-dev\"]}");
	CHECK_STR(recipe_suite(got), "trixie");
}

TEST(a_mistake_in_a_recipe_is_told_with_line_and_field)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"from = 'debian:trixie'", "name: is missing in r.toml"},
		{"name = 'a'", "from: is missing in r.toml"},
		{"name = 'host'\nfrom = 'b'",
	         "name: 'host' is the host's own programs, which need no recipe"},
		{"name = 'kernel'\nfrom = 'debian:sid'",
	         "name: 'kernel' is the name of the kernel of vms"},
		{"name = 'a'\nfrom = 'debian:sid'\nkernel = ['b']",
	         "name: 'kernel' is the name of the kernel of vms"},
		{"name = 'kernel'\nfrom = 'a'\nkernel = ['b']",
	         "from: a kernel comes from a suite: \"debian:SUITE\""},
		{"name = 'kernel'\nfrom = 'debian:sid'\nkernel = ['b']\nrun = ['c']",
	         "kernel: a recipe with a kernel has nothing else"},
		{"name = 'a'\nname = 'b'", "r.toml:2: name: given twice"},
		{"colour = 'a'", "r.toml:1: colour: recipes have no such field"},
		{"[nom]\na = 'b'", "r.toml:1: nom: recipes have no such section"},
		{"name = 'A b'", "r.toml:1: name: must be a name of a-z, 0-9, '.' and '-'"},
		{"packages = 'git'", "r.toml:1: packages: must be an array of strings"},
		{"packages = ['-o']", "r.toml:1: packages: '-o' is not Debian's name of a package, "
	                              "or NAME=VERSION"},
		{"pip = ['--index-url']", "r.toml:1: pip: '--index-url' is not a requirement such "
	                                  "as \"numpy==2.3.4\""},
		{"[env]\n'a b' = 'c'", "r.toml:2: env: 'a b' is not the name of a variable"},
		{"[env]\na = 1", "r.toml:2: env: 'a' must be a string in quotes"},
		{"[env]\na = '1'\na = '2'", "r.toml:3: env: 'a' is given twice"},
		{"[npm]\n'npm@1.0.0' = 'sha1-x'",
	         "r.toml:2: npm: 'npm@1.0.0' must be \"sha512-…\""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *got = parse(rows[i].text);

		CHECK(!got);
		CHECK_STR(err.message, rows[i].message);
	}
}

TEST(a_near_miss_is_told_with_the_field_that_was_meant)
{
	static const char *const rows[][2] = {{"nme = 'a'", "did you mean 'name'?"},
	                                      {"package = ['git']", "did you mean 'packages'?"},
	                                      {"[envs]\na = 'b'", "did you mean 'env'?"},
	                                      {"colour = 'a'", ""}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *got = parse(rows[i][0]);

		CHECK(!got);
		CHECK_STR(err.hint, rows[i][1]);
	}
}

TEST(no_word_of_a_recipe_can_be_an_option_a_pattern_or_a_way_out)
{
	static const struct {
		bool (*is_right)(const char *s);
		const char *good[6], *bad[12];
	} rows[] = {
		{word_is_name,
	         {"a", "python3.13", "a-b"},
	         {"", "-a", "a-", ".", "A", "a/b", "a b"}},
		{word_is_suite,
	         {"trixie"},
	         {"", "a b", "A", "../x", "x main\n[trusted=yes]", "a-b"}},
		{word_is_npm_wish,
	         {"zod", "zod@^3", "@a/b@latest", "a@>=1.0"},
	         {"", "-a", "A", "a/b", "@a", "a@", "a@-1", "a@file:b", "a.tgz", "../a", "a b"}},
		{word_is_from, {"debian:sid", "base"}, {"debian:", "debian:../x", "ubuntu:x", ""}},
		{word_is_package,
	         {"git", "libstdc++6", "g++", "a=1:2~x+y-z"},
	         {"", "-y", "git-", "git=", "./x.deb", "a b", "a=-", "git*", "A", "a/sid", "=1"}},
		{word_is_requirement,
	         {"numpy", "numpy==2.3.4", "a[b,c]>=1,<2", "x~=1.0", "x!=1.*"},
	         {"", "-r", "a b", "a @ file:x", "a[b", "./a", "a;b", "git+https:x"}},
		{word_is_npm,
	         {"npm@11.6.2", "@oven/bun@1.0.0", "a@1.0.0-rc.1+x"},
	         {"npm", "@npm", "a/b@1", "@a@1", "npm@", "npm@latest", "../x@1", "@/a@1",
	          "a@1/b"}},
		{word_is_path,
	         {"/etc/motd", "/a", "/etc/..x", "/home/user/.rc"},
	         {"", "a", "/", "/a/", "//a", "/a/../b", "/./a", "/tmp/x", "/proc/x",
	          "/opt/cloche/x", "/a\nb"}},
		{word_is_variable, {"A", "_a1"}, {"", "1a", "a-b", "A=B"}},
		{word_is_user, {"user", "vercel-sandbox"}, {"", "-x", "a:b", "Root", "0"}},
		{word_is_module, {"numpy", "matplotlib.pyplot"}, {"", "a b", "1", "a;b", "-a"}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t k = 0; rows[i].good[k]; k++)
			CHECK_STR(rows[i].is_right(rows[i].good[k]) ? rows[i].good[k] : "refused",
			          rows[i].good[k]);
		for (size_t k = 0; rows[i].bad[k]; k++)
			CHECK_STR(rows[i].is_right(rows[i].bad[k]) ? rows[i].bad[k] : "refused",
			          "refused");
	}
}

TEST(every_recipe_that_comes_along_can_be_read_and_bears_its_name)
{
	size_t n = 0;

	for (const char *name; (name = recipe_shipped_name(n)); n++) {
		const char *text = recipe_shipped(name);
		auto_json json_t *got = NULL;

		CHECK_INT(recipe_parse(name, text, strlen(text), &got, &err), 0);
		CHECK_STR(json_string_value(json_object_get(got, "name")), name);
		CHECK(recipe_suite(got) ||
		      recipe_shipped(json_string_value(json_object_get(got, "from"))));
	}
	CHECK_INT(n, 15);
	CHECK(!recipe_shipped("nothing"));
}

TEST(an_architecture_has_its_own_packages_of_npm_beside_those_of_all)
{
	static const char text[] = "name = 'a'\nfrom = 'b'\n"
				   "[npm]\n'a@1' = 'sha512-" /* 86 digits and the padding */
				   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				   "aaaaaaaaaaaaaaaaaaaaaaa=="
				   "'\n"
				   "[npm-arm64]\n'b@2' = 'sha512-"
				   "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
				   "bbbbbbbbbbbbbbbbbbbbbbb=="
				   "'\n";
	auto_json json_t *recipe = parse(text);
	auto_json json_t *amd64 = NULL, *arm64 = NULL;

	CHECK_STR(err.message, "");
	amd64 = recipe_npm(recipe, "amd64");
	arm64 = recipe_npm(recipe, "arm64");
	CHECK_INT(json_object_size(amd64), 1);
	CHECK_INT(json_object_size(arm64), 2);
}
