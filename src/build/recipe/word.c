// SPDX-License-Identifier: Apache-2.0
#include "build/recipe/word.h"

#include <stddef.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define ALNUM  LOWER UPPER DIGITS

/* Whether it has at most max characters, all of chars and the first one of first. */
static bool is_made_of(const char *s, size_t len, const char *first, const char *chars, size_t max)
{
	return len > 0 && len <= max && strspn(s, chars) >= len && strchr(first, s[0]);
}

static bool is_all(const char *s, const char *first, const char *chars, size_t max)
{
	return is_made_of(s, strlen(s), first, chars, max);
}

bool word_is_name(const char *s)
{
	return is_all(s, LOWER DIGITS, LOWER DIGITS ".-", 63) &&
	       strchr(LOWER DIGITS, s[strlen(s) - 1]);
}

bool word_is_suite(const char *s)
{
	return is_all(s, LOWER, LOWER, 32);
}

bool word_is_from(const char *s)
{
	static const char debian[] = "debian:";
	size_t len = sizeof(debian) - 1;

	return strncmp(s, debian, len) == 0 ? word_is_suite(s + len) : word_is_name(s);
}

/* To apt-get a '-' at the end of a name means "remove it". */
bool word_is_package(const char *s)
{
	size_t len = strcspn(s, "=");

	if (!is_made_of(s, len, LOWER DIGITS, LOWER DIGITS "+.-", 128) || s[len - 1] == '-')
		return false;
	return s[len] == '\0' || is_all(s + len + 1, ALNUM, ALNUM ".+:~-", 128);
}

bool word_is_requirement(const char *s)
{
	size_t len = strspn(s, ALNUM "._-");

	if (!is_made_of(s, len, ALNUM, ALNUM "._-", 128))
		return false;
	if (s[len] == '[') {
		size_t extras = strspn(s + len + 1, ALNUM "._-,");

		if (s[len + 1 + extras] != ']')
			return false;
		len += extras + 2;
	}
	return s[len] == '\0' || is_all(s + len, "=<>!~", ALNUM "=<>!~.,*+-", 128);
}

bool word_is_npm(const char *s)
{
	const char *name = s[0] == '@' ? s + 1 : s;
	const char *at = strchr(name, '@');
	const char *slash = strchr(name, '/');
	size_t scope = slash ? (size_t)(slash - name) : 0;

	if (!at || (slash != NULL) != (s[0] == '@') || slash > at)
		return false;
	if (slash && !is_made_of(name, scope, LOWER DIGITS, LOWER DIGITS "._-", 64))
		return false;
	if (slash)
		name = slash + 1;
	return is_made_of(name, (size_t)(at - name), LOWER DIGITS, LOWER DIGITS "._-", 128) &&
	       is_all(at + 1, DIGITS, ALNUM ".+-", 64);
}

/* Whether npm would take the name for a package file, by its ending. */
static bool is_npm_file(const char *name, size_t len)
{
	static const char *const ends[] = {".tgz", ".tar", ".tar.gz"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t n = strlen(ends[i]);

		if (len >= n && strncmp(name + len - n, ends[i], n) == 0)
			return true;
	}
	return false;
}

bool word_is_npm_wish(const char *s)
{
	const char *name = s[0] == '@' ? s + 1 : s;
	size_t len = strcspn(name, "@/");

	if (!is_made_of(name, len, LOWER DIGITS, LOWER DIGITS "._-", 128))
		return false;
	if ((name[len] == '/') != (s[0] == '@'))
		return false;
	if (name[len] == '/') {
		name += len + 1;
		len = strcspn(name, "@/");
		if (!is_made_of(name, len, LOWER DIGITS, LOWER DIGITS "._-", 128))
			return false;
	}
	if (is_npm_file(name, len) || name[len] == '/')
		return false;
	return name[len] == '\0' || is_all(name + len + 1, ALNUM "^~<>=*", ALNUM ".+-^~<>=*", 64);
}

bool word_is_integrity(const char *s)
{
	static const char sha512[] = "sha512-";
	size_t len = sizeof(sha512) - 1;

	return strncmp(s, sha512, len) == 0 && strlen(s) == len + 88 &&
	       strspn(s + len, ALNUM "+/") == 86 && strcmp(s + len + 86, "==") == 0;
}

/* Not a place that a sandbox mounts something on, or that a seal leaves out. */
static bool is_kept_place(const char *s)
{
	static const char *const elsewhere[] = {"/dev/", "/proc/", "/sys/",
	                                        "/tmp/", "/run/",  "/opt/cloche/"};

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (strncmp(s, elsewhere[i], strlen(elsewhere[i])) == 0)
			return false;
	return true;
}

bool word_is_path(const char *s)
{
	if (s[0] != '/' || strlen(s) > 1024 || strpbrk(s, "\n\t"))
		return false;
	for (const char *p = s; *p; p += 1 + strcspn(p + 1, "/")) {
		size_t len = strcspn(p + 1, "/");

		if (len == 0 || (len <= 2 && strncmp(p + 1, "..", len) == 0))
			return false;
	}
	return is_kept_place(s);
}

bool word_is_variable(const char *s)
{
	return is_all(s, LOWER UPPER "_", ALNUM "_", 128);
}

bool word_is_user(const char *s)
{
	return is_all(s, LOWER "_", LOWER DIGITS "_-", 32);
}

bool word_is_module(const char *s)
{
	return is_all(s, LOWER UPPER "_", ALNUM "_.", 128);
}

bool word_is_text(const char *s)
{
	return s[0] != '\0';
}

bool word_is_any(const char *s)
{
	(void)s;
	return true;
}
