// SPDX-License-Identifier: Apache-2.0
/*
 *	held + piece = stretch:	told, with '*' for what was found | held for the next time
 *
 * Each word is a Knuth-Morris-Pratt automaton. Its state is the number of the word's bytes that
 * came last. So each byte costs the same for all words and texts. The bytes held back are as many
 * as the largest state, so a word that is found is still held as a whole. The automata see the
 * original bytes, so no word hides another that overlaps it.
 */
#include "net/policy/scrub.h"

#include "base/parse.h"

#include <string.h>
#include <strings.h>

#define BASIC "Basic"

struct word {
	char *text;
	size_t len;
	size_t *shorter; /* for each state, the next shorter one that could match */
	size_t state;
};

struct scrub {
	struct word *words;
	size_t n_words;
	struct buf stretch; /* the bytes held back between two calls */
	struct buf told;
};

const char *scrub_credential(const char *value)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-";
	size_t scheme = strspn(value, letters);
	size_t spaces = strspn(value + scheme, " ");

	return scheme > 0 && spaces > 0 && value[scheme + spaces] ? value + scheme + spaces : value;
}

static size_t step(const struct word *w, size_t state, char c)
{
	while (state > 0 && w->text[state] != c)
		state = w->shorter[state];
	return w->text[state] == c ? state + 1 : 0;
}

static void add_word(struct scrub *s, const char *text, size_t len)
{
	struct word *w;

	if (len < SCRUB_MIN)
		return;
	s->words = xrealloc(s->words, (s->n_words + 1) * sizeof(*s->words));
	w = &s->words[s->n_words++];
	*w = (struct word){.text = xcalloc(1, len), .len = len, .shorter = xnew0n(size_t, len + 1)};
	memcpy(w->text, text, len);
	for (size_t i = 1; i < len; i++)
		w->shorter[i + 1] = step(w, w->shorter[i], text[i]);
}

static void add_basic(struct scrub *s, const char *encoded)
{
	size_t len = strlen(encoded);
	auto_free char *plain = xcalloc(1, len + 1);
	ssize_t n = base64_decode(encoded, len, plain);
	const char *colon = n > 0 ? memchr(plain, ':', (size_t)n) : NULL;

	if (colon) {
		add_word(s, plain, (size_t)n);
		add_word(s, colon + 1, (size_t)(plain + n - colon) - 1);
	}
	explicit_bzero(plain, len);
}

static void add_value(struct scrub *s, const char *value)
{
	const char *credential = scrub_credential(value);

	add_word(s, credential, strlen(credential));
	if (credential > value && strncasecmp(value, BASIC " ", sizeof(BASIC)) == 0)
		add_basic(s, credential);
}

struct scrub *scrub_new(const struct policy *p, const struct hostname *name, uint16_t port)
{
	struct scrub *s = xnew0(struct scrub);

	buf_init(&s->stretch, SIZE_MAX / 2); /* a caller's piece and less than one word */
	buf_init(&s->told, SIZE_MAX / 2);
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct policy_rule *rule = &p->rules[i];

		if (!policy_rule_is_about(rule, name, port))
			continue;
		for (size_t k = 0; k < rule->n_headers; k++)
			if (rule->headers[k].is_scrubbed)
				add_value(s, rule->headers[k].value);
	}
	if (s->n_words > 0)
		return s;
	scrub_free(s);
	return NULL;
}

void scrub_free(struct scrub *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_words; i++) {
		explicit_bzero(s->words[i].text, s->words[i].len);
		free(s->words[i].text);
		free(s->words[i].shorter);
	}
	free(s->words);
	buf_done(&s->stretch);
	buf_done(&s->told);
	free(s);
}

/* Overwrites the word with stars in told where it occurs in data; data is told from `at` on.
 * Returns the state after data. */
static size_t hide(const struct word *w, size_t state, const char *data, size_t len, char *told,
                   size_t at)
{
	size_t starred = 0;

	for (size_t i = 0; i < len; i++) {
		size_t end = at + i + 1, first;

		state = step(w, state, data[i]);
		if (state < w->len)
			continue;
		first = MAX(end - w->len, starred);
		memset(told + first, '*', end - first);
		starred = end;
		state = w->shorter[state];
	}
	return state;
}

/* All but n_held bytes of the stretch. */
static const struct buf *tell(struct scrub *s, size_t n_held)
{
	size_t n = s->stretch.len - n_held;

	buf_truncate(&s->told, 0);
	if (buf_append(&s->told, s->stretch.data, n) < 0)
		abort(); /* it has no cap */
	buf_consume(&s->stretch, n);
	return &s->told;
}

const struct buf *scrub_feed(struct scrub *s, const char *data, size_t len)
{
	size_t at = s->stretch.len, n_held = 0;

	if (buf_append(&s->stretch, data, len) < 0)
		abort();
	for (size_t i = 0; i < s->n_words; i++) {
		struct word *w = &s->words[i];

		w->state = hide(w, w->state, data, len, s->stretch.data, at);
		n_held = MAX(n_held, w->state);
	}
	return tell(s, n_held);
}

const struct buf *scrub_end(struct scrub *s)
{
	for (size_t i = 0; i < s->n_words; i++)
		s->words[i].state = 0;
	return tell(s, 0);
}

size_t scrub_held(const struct scrub *s)
{
	return s->stretch.len;
}

void scrub_text(const struct scrub *s, char *text, size_t len)
{
	auto_free char *as_it_was = xcalloc(1, len + 1);

	memcpy(as_it_was, text, len);
	for (size_t i = 0; i < s->n_words; i++)
		(void)hide(&s->words[i], 0, as_it_was, len, text, 0);
	explicit_bzero(as_it_was, len);
}
