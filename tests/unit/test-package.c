// SPDX-License-Identifier: Apache-2.0
/* What creates may ask for as packages, and how it is spelt from then on. */
#include "build/recipe/package.h"
#include "test.h"

#include <string.h>

static int read_one(const char *word, enum package_kind bare, char *ret, size_t size,
                    struct err *err)
{
	auto_json json_t *list = json_pack("[s]", word), *words = NULL;
	int r = package_read(list, bare, &words, err);

	if (r == 0)
		(void)snprintf(ret, size, "%s", json_string_value(json_array_get(words, 0)));
	return r;
}

static void check_word(const char *word, enum package_kind bare, const char *wanted)
{
	char got[256] = "";
	struct err err;

	CHECK_INT(read_one(word, bare, got, sizeof(got), &err), 0);
	CHECK_STR(got, wanted);
}

static void check_refused(const char *word)
{
	char got[256], wanted[96];
	struct err err;

	CHECK(read_one(word, PACKAGE_PIP, got, sizeof(got), &err) < 0);
	(void)snprintf(wanted, sizeof(wanted), "packages: item 0: '%.64s' is not ", word);
	CHECK_INT(strncmp(err.message, wanted, strlen(wanted)), 0);
	CHECK_STR(err.field, "packages");
}

TEST(a_word_is_of_its_kind_or_of_the_bare_one)
{
	check_word("pandas", PACKAGE_PIP, "pip:pandas");
	check_word("zod", PACKAGE_NPM, "npm:zod");
	check_word("jq", PACKAGE_APT, "apt:jq");
	check_word("npm:@scope/name@^3.1", PACKAGE_PIP, "npm:@scope/name@^3.1");
	check_word("apt:git=1:2.47.3-0+deb13u1", PACKAGE_NPM, "apt:git=1:2.47.3-0+deb13u1");
	check_word("npm:npm", PACKAGE_PIP, "npm:npm");
}

TEST(names_of_pip_have_one_spelling)
{
	check_word("Foo_Bar.baz[Extra_1]>=2.0,<3", PACKAGE_PIP, "pip:foo-bar-baz[Extra_1]>=2.0,<3");
	check_word("numpy==2.*", PACKAGE_PIP, "pip:numpy==2.*");
}

TEST(a_list_is_in_order_and_has_nothing_twice)
{
	auto_json json_t *list = json_pack("[ssss]", "b", "npm:z", "A", "pip:b"), *words = NULL;
	auto_json json_t *pip = NULL, *apt = NULL;
	auto_free char *text = NULL, *names = NULL;

	CHECK_INT(package_read(list, PACKAGE_PIP, &words, NULL), 0);
	text = json_dumps(words, JSON_COMPACT);
	CHECK_STR(text, "[\"npm:z\",\"pip:a\",\"pip:b\"]");
	pip = package_select(words, PACKAGE_PIP);
	apt = package_select(words, PACKAGE_APT);
	names = json_dumps(pip, JSON_COMPACT);
	CHECK_STR(names, "[\"a\",\"b\"]");
	CHECK_INT(json_array_size(apt), 0);
}

TEST(what_a_program_could_take_for_anything_else_is_refused)
{
	static const char *const words[] = {
		"",          "-r",
		"--user",    "a b",
		"a;b",       "./a",
		"/a",        "a/b",
		"a@b",       "git+https:a",
		"npm:",      "npm:-a",
		"npm:a b",   "npm:.a",
		"npm:/a",    "npm:a/",
		"npm:@a",    "npm:@/a",
		"npm:@a/b/", "npm:A",
		"npm:a@",    "npm:a.tgz",
		"npm:a@-1",  "npm:a@npm:b",
		"npm:a@/b",  "npm:@a/b.tar.gz",
		"apt:",      "apt:-a",
		"apt:a-",    "apt:a/b",
		"apt:A",     "apt:a=",
		"apt:?a",    "npm:a@1 2",
		"deb:jq",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		check_refused(words[i]);
}

TEST(a_long_word_and_a_long_list_are_refused)
{
	auto_json json_t *list = json_array(), *words = NULL;
	char word[PACKAGE_LEN_MAX + 2];

	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	check_refused(word);
	for (size_t i = 0; i <= PACKAGES_MAX; i++)
		json_array_append_new(list, json_string("a"));
	CHECK(package_read(list, PACKAGE_PIP, &words, NULL) < 0);
	json_array_remove(list, 0);
	CHECK_INT(package_read(list, PACKAGE_PIP, &words, NULL), 0);
}

TEST(a_bare_name_goes_by_the_language_then_by_the_template)
{
	auto_json json_t *both = json_pack("{ssss}", "python", "3", "javascript", "24");
	auto_json json_t *node = json_pack("{ssss}", "javascript", "24", "bash", "5");
	auto_json json_t *bash = json_pack("{ss}", "bash", "5");

	CHECK_INT(package_kind_of("typescript", both), PACKAGE_NPM);
	CHECK_INT(package_kind_of("python", node), PACKAGE_PIP);
	CHECK_INT(package_kind_of("bash", both), PACKAGE_APT);
	CHECK_INT(package_kind_of(NULL, both), PACKAGE_PIP);
	CHECK_INT(package_kind_of(NULL, node), PACKAGE_NPM);
	CHECK_INT(package_kind_of(NULL, bash), PACKAGE_APT);
	CHECK_INT(package_kind_of(NULL, NULL), PACKAGE_PIP);
}
