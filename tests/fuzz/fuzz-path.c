// SPDX-License-Identifier: Apache-2.0
/*
 * Paths and patterns. The input is a path, or a pattern and a text divided by a newline. A path in
 * its one form stays as it is and has no dots to resolve; the automaton agrees with a matcher that
 * simply tries everything.
 */
#include "net/match/glob.h"
#include "net/match/path.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 20 /* trying everything takes its time */

static void try_path(const char *text, size_t len)
{
	struct path once, twice;

	if (path_parse(text, len, &once, NULL) < 0)
		return;
	assert(once.text[0] == '/' && strlen(once.text) <= len);
	for (const char *p = once.loose ? once.loose : once.text; (p = strchr(p, '/')); p++) {
		size_t n = strcspn(p + 1, "/");

		assert(!(n == 1 && p[1] == '.') && !(n == 2 && p[1] == '.' && p[2] == '.'));
		assert(n > 0 || p[1] == '\0');
	}
	assert(path_parse(once.text, strlen(once.text), &twice, NULL) == 0);
	assert(strcmp(once.text, twice.text) == 0);
	assert(!once.loose == !twice.loose);
	path_done(&once);
	path_done(&twice);
}

static bool try_everything(const char *pattern, const char *text)
{
	size_t stars = strspn(pattern, "*");

	if (stars > 0)
		return try_everything(pattern + stars, text) ||
		       (*text && (stars == 2 || *text != '/') && try_everything(pattern, text + 1));
	if (*pattern == '\0' || *text == '\0')
		return *pattern == *text;
	return (*pattern == '?' ? *text != '/' : *pattern == *text) &&
	       try_everything(pattern + 1, text + 1);
}

static void try_glob(const char *pattern, const char *text)
{
	/* The same behind so many bytes that the places fall into several words. */
	static const char pad[] = "0123456789012345678901234567890123456789012345678901234567";
	auto_free char *far_pattern = xasprintf("%s%s%s", pad, pad, pattern);
	auto_free char *far_text = xasprintf("%s%s%s", pad, pad, text);

	if (strlen(pattern) > TEXT_MAX || strlen(text) > TEXT_MAX || glob_check(pattern, NULL) < 0)
		return;
	assert(glob_matches(pattern, text, '/') == try_everything(pattern, text));
	assert(glob_matches(far_pattern, far_text, '/') == try_everything(pattern, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = NULL;
	char *line;

	if (size == 0 || size > 4096)
		return 0;
	text = xcalloc(size + 1, 1);
	memcpy(text, data, size);
	line = memchr(text, '\n', size);
	if (!line) {
		try_path((const char *)data, size);
		return 0;
	}
	*line = '\0';
	try_glob(text, line + 1);
	return 0;
}
