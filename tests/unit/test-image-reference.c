// SPDX-License-Identifier: Apache-2.0
/* What people write as an image's name, and what the settings say of registries. */
#include "build/image/image_reference.h"
#include "build/image/registries.h"
#include "test.h"

#include <string.h>

#define SHA "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(a_name_is_spelt_with_its_host_and_its_tag_or_digest)
{
	static const struct {
		const char *text, *place, *spelt;
	} rows[] = {
		{"registry.example.com/team/app:1.2", NULL, "registry.example.com/team/app:1.2"},
		{"Registry.Example.com:5000/app", NULL, "registry.example.com:5000/app:latest"},
		{"localhost/app", NULL, "localhost/app:latest"},
		{"127.0.0.1:5000/a/b__c.d---e", NULL, "127.0.0.1:5000/a/b__c.d---e:latest"},
		{"[::1]:5000/app", NULL, "[::1]:5000/app:latest"},
		{"a.test/app:1@" SHA, NULL, "a.test/app@" SHA},
		{"python:3.12-slim", "a.test/library", "a.test/library/python:3.12-slim"},
		{"team/app", "a.test/library", "a.test/team/app:latest"},
		{"app", "a.test:5000", "a.test:5000/app:latest"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct image_reference ref;
		char spelt[IMAGE_REF_MAX];
		struct err err;

		CHECK_INT(image_reference_parse(rows[i].text, rows[i].place, "ref", &ref, &err), 0);
		image_reference_format(&ref, spelt);
		CHECK_STR(spelt, rows[i].spelt);
	}
}

TEST(what_is_no_name_is_refused_with_the_field)
{
	static const char *const texts[] = {
		"",           "/",         "a.test/",       "a.test//app",         "a.test/app/",
		"a.test/App", "a.test/.",  "a.test/../app", "a.test/app:",         "a.test/app:.x",
		"a.test/a b", "-a/app",    "a.test/app@",   "a.test/app@sha1:",    "a.test:0/app",
		"a.test/_a",  "a.test/a_", "a.test/a___b",  "a.test/app@" SHA "0", "app",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct image_reference ref;
		struct err err = {0};

		CHECK(image_reference_parse(texts[i], NULL, "ref", &ref, &err) < 0);
		CHECK_STR(err.field, "ref");
	}
}

TEST(settings_of_registries_are_checked_and_found)
{
	char *mirrors[] = {unconst("a.test=https://one.test/"),
	                   unconst("b.test=http://127.0.0.1:5000/x"),
	                   unconst("a.test:443=https://two.test/"), NULL};
	char *credentials[] = {unconst("a.test=bot:NAME"), NULL};
	const struct registries_config c = {"a.test/library", mirrors, credentials};
	static const char *const bad_mirrors[] = {"a.test", "a.test=http://one.test/",
	                                          "=https://one.test/",
	                                          "a.test=https://one.test/?x"};
	static const char *const bad_credentials[] = {"a.test=bot", "a.test=:NAME",
	                                              "a.test=bot:", "bot:NAME"};
	const char *why;
	struct host a, one;
	struct err err;

	CHECK_INT(registries_check(&c, &err), 0);
	CHECK_INT(host_parse("a.test", 6, &a, &why), 0);
	CHECK_INT(host_parse("one.test", 8, &one, &why), 0);
	CHECK_STR(registries_mirror(&c, &a, 0, 0), "https://one.test/");
	CHECK_STR(registries_mirror(&c, &a, 443, 1), "https://two.test/");
	CHECK(!registries_mirror(&c, &a, 0, 2) && !registries_mirror(&c, &a, 5000, 0));
	CHECK_STR(registries_credentials(&c, &a, 0), "bot:NAME");
	CHECK(registries_has(&c, &a) && registries_has(&c, &one));
	for (size_t i = 0; i < ARRAY_SIZE(bad_mirrors); i++) {
		char *rows[] = {unconst(bad_mirrors[i]), NULL};

		CHECK(registries_check(&(struct registries_config){.mirrors = rows}, &err) < 0);
		CHECK_STR(err.field, "registries.mirrors");
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad_credentials); i++) {
		char *rows[] = {unconst(bad_credentials[i]), NULL};

		CHECK(registries_check(&(struct registries_config){.credentials = rows}, &err) < 0);
		CHECK_STR(err.field, "registries.credentials");
	}
}
