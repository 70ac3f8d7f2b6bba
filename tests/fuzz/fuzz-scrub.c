// SPDX-License-Identifier: Apache-2.0
/*
 * A credential, a newline, and a reply. However the reply is cut, what is told is as long, differs
 * from it only by stars, and is what the plainest search would have made of the whole.
 */
#include "net/policy/scrub.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 2048

/* A policy's rule by hand: a credential may have any bytes here. */
static struct scrub *make(char *value)
{
	struct hostname name;
	struct policy_header header = {.name = value, .value = value, .is_scrubbed = true};
	struct hostname_pattern domain;
	struct policy_rule rule = {.match = {.domains = &domain, .n_domains = 1},
	                           .action = ACTION_TRANSFORM,
	                           .headers = &header,
	                           .n_headers = 1};
	const struct policy policy = {.rules = &rule, .n_rules = 1};

	if (hostname_parse("a.test", 6, &name, NULL) < 0 ||
	    hostname_pattern_parse("a.test", 6, &domain, NULL) < 0)
		return NULL;
	return scrub_new(&policy, &name, 443);
}

static void search(const char *word, const char *text, size_t len, char *ret)
{
	size_t n = strlen(word);

	memcpy(ret, text, len);
	for (size_t i = 0; i + n <= len; i++)
		if (memcmp(text + i, word, n) == 0)
			memset(ret + i, '*', n);
}

static void check(struct scrub *s, const char *text, size_t len, size_t piece, const char *wanted)
{
	size_t at = 0;

	for (size_t i = 0; i < len; i += piece) {
		const struct buf *told = scrub_feed(s, text + i, MIN(piece, len - i));

		assert(told->len == 0 || memcmp(told->data, wanted + at, told->len) == 0);
		at += told->len;
		assert(at + scrub_held(s) == MIN(i + piece, len));
	}
	at += scrub_end(s)->len;
	assert(at == len && scrub_held(s) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char value[INPUT_MAX + 1], wanted[INPUT_MAX + 1], whole[INPUT_MAX + 1];
	const char *text;
	struct scrub *s;
	size_t len;

	if (size > INPUT_MAX || !memchr(data, '\n', size) || memchr(data, '\0', size))
		return 0;
	memcpy(value, data, size);
	value[size] = '\0';
	*strchr(value, '\n') = '\0';
	text = value + strlen(value) + 1;
	len = size - (size_t)(text - value);
	s = make(value);
	if (!s)
		return 0;
	if (strncasecmp(value, "basic ", 6) != 0) { /* which has more than one word to look for */
		search(scrub_credential(value), text, len, wanted);
		for (size_t piece = 1; piece <= MIN(len, (size_t)20); piece++)
			check(s, text, len, piece, wanted);
		memcpy(whole, text, len);
		scrub_text(s, whole, len);
		assert(memcmp(whole, wanted, len) == 0);
	}
	scrub_free(s);
	return 0;
}
