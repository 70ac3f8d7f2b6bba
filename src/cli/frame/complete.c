// SPDX-License-Identifier: Apache-2.0
/*
 * --help has three parts that matter here. Usage lines ("Usage: cloche logs [OPTIONS] SANDBOX
 * [EXEC]", the next form indented below) give words by their place: lower case stands for itself,
 * upper case names a kind. Rows under "Commands:" are "  word  what it does", rows under "Options:"
 * are "  -f, --follow VALUE  what it does". Lines of another form belong to the text above them and
 * are passed over.
 */
#include "cli/frame/complete.h"

#include "base/auto.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct span {
	const char *at;
	size_t len;
};

static bool span_is(struct span s, const char *text)
{
	return strlen(text) == s.len && memcmp(s.at, text, s.len) == 0;
}

static bool begins_with(struct span s, const char *prefix)
{
	size_t len = strlen(prefix);

	return s.len >= len && memcmp(s.at, prefix, len) == 0;
}

/* The line that begins at *at, which moves behind it. False at the end. */
static bool next_line(const char **at, struct span *ret)
{
	const char *end;

	if (!**at)
		return false;
	end = strchrnul(*at, '\n');
	*ret = (struct span){*at, (size_t)(end - *at)};
	*at = *end ? end + 1 : end;
	return true;
}

/* The word at the front of *rest, which moves behind it. */
static bool next_word(struct span *rest, struct span *ret)
{
	size_t len = 0;

	while (rest->len > 0 && *rest->at == ' ') {
		rest->at++;
		rest->len--;
	}
	while (len < rest->len && rest->at[len] != ' ')
		len++;
	*ret = (struct span){rest->at, len};
	rest->at += len;
	rest->len -= len;
	return len > 0;
}

/* The rows below a heading, up to the empty line that ends them. */
static const char *section(const char *help, const char *heading)
{
	struct span line;

	for (const char *at = help; next_line(&at, &line);)
		if (span_is(line, heading))
			return at;
	return "";
}

struct row {
	struct span letter, name, value,
		help; /* letter "-f", name "--follow"; of a command: name alone */
};

static void trim_left(struct span *s)
{
	while (s->len > 0 && *s->at == ' ') {
		s->at++;
		s->len--;
	}
}

static bool read_command(struct span line, struct row *ret)
{
	*ret = (struct row){0};
	if (line.len < 3 || memcmp(line.at, "  ", 2) != 0 || !islower((unsigned char)line.at[2]))
		return false;
	(void)next_word(&line, &ret->name);
	trim_left(&line);
	ret->help = line;
	return true;
}

static bool read_option(struct span line, struct row *ret)
{
	*ret = (struct row){0};
	trim_left(&line);
	if (line.len > 4 && line.at[0] == '-' && line.at[2] == ',') {
		ret->letter = (struct span){line.at, 2};
		line.at += 3;
		line.len -= 3;
		trim_left(&line);
	}
	if (!begins_with(line, "--"))
		return false;
	(void)next_word(&line, &ret->name);
	/* A value stands one blank behind the name, what it does at least two. */
	if (line.len > 1 && line.at[0] == ' ' && line.at[1] != ' ')
		(void)next_word(&line, &ret->value);
	trim_left(&line);
	ret->help = line;
	return true;
}

bool complete_has_command(const char *help, const char *word)
{
	const char *at = section(help, "Commands:");
	struct span line;
	struct row row;

	while (next_line(&at, &line) && line.len > 0)
		if (read_command(line, &row) && (!word || span_is(row.name, word)))
			return true;
	return false;
}

void complete_commands(const char *help, const char *prefix, complete_fn fn, void *arg)
{
	const char *at = section(help, "Commands:");
	struct span line;
	struct row row;

	while (next_line(&at, &line) && line.len > 0)
		if (read_command(line, &row) && begins_with(row.name, prefix))
			fn(row.name.at, row.name.len, row.help.at, row.help.len, arg);
}

static bool find_option(const char *help, const char *word, struct row *ret)
{
	const char *at = section(help, "Options:");
	struct span line;

	while (next_line(&at, &line) && line.len > 0)
		if (read_option(line, ret) &&
		    (span_is(ret->name, word) || span_is(ret->letter, word)))
			return true;
	return false;
}

static void tell_options(const char *help, const char *prefix, complete_fn fn, void *arg)
{
	const char *at = section(help, "Options:");
	struct span line;
	struct row row;

	while (next_line(&at, &line) && line.len > 0)
		if (read_option(line, &row) && begins_with(row.name, prefix))
			fn(row.name.at, row.name.len, row.help.at, row.help.len, arg);
}

static void keep_kind(struct complete_place *place, struct span word)
{
	size_t len = strlen(place->kinds);

	(void)snprintf(place->kinds + len, sizeof(place->kinds) - len, "%.*s\n", (int)word.len,
	               word.at);
}

static void keep_option(struct complete_place *place, const struct row *option)
{
	(void)snprintf(place->option, sizeof(place->option), "%.*s", (int)option->name.len,
	               option->name.at);
	keep_kind(place, option->value);
}

/* "[EXEC]", "ARGS…" without what is not the word; "SANDBOX:PATH" and "SANDBOX|SNAPSHOT" are one. */
static struct span bare(struct span word)
{
	size_t len = 0;

	if (word.len > 0 && *word.at == '[') {
		word.at++;
		word.len--;
	}
	while (len < word.len &&
	       (isalnum((unsigned char)word.at[len]) || strchr("-_:|", word.at[len])))
		len++;
	return (struct span){word.at, len};
}

/* What a usage line has as its word number `place` behind the command's name; its last word may be
 * repeated ("…"). */
static bool usage_word(struct span line, const char *name, size_t place, struct span *ret)
{
	struct span word, found = {"", 0};
	size_t i = 0;
	const char *behind = memmem(line.at, line.len, name, strlen(name));

	if (!behind)
		return false;
	behind += strlen(name);
	line.len -= (size_t)(behind - line.at);
	line.at = behind;
	while (i <= place && next_word(&line, &word)) {
		if (span_is(word, "[OPTIONS]") || *word.at == '-' || begins_with(word, "[-"))
			continue;
		found = word;
		i++;
	}
	if (i <= place && !memmem(found.at, found.len, "…", strlen("…")))
		return false;
	*ret = bare(found);
	return ret->len > 0;
}

/* "cloche snapshot ls" of "Usage: cloche snapshot ls [OPTIONS]": the lower-case words before any
 * other, in all lines. */
static size_t command_name(const char *help, char *name, size_t size)
{
	struct span line, word;
	const char *at = help;
	size_t len = 0;

	name[0] = '\0';
	if (!next_line(&at, &line) || !next_word(&line, &word) || !span_is(word, "Usage:"))
		return 0;
	while (next_word(&line, &word) && islower((unsigned char)*word.at) &&
	       !memchr(word.at, '|', word.len) && len < size)
		len += (size_t)snprintf(name + len, size - len, "%s%.*s", len ? " " : "",
		                        (int)word.len, word.at);
	return len;
}

/* "bash|zsh|fish": each that fits. */
static void tell_choices(struct span words, const char *prefix, complete_fn fn, void *arg)
{
	while (words.len > 0) {
		const char *bar = memchr(words.at, '|', words.len);
		struct span one = {words.at, bar ? (size_t)(bar - words.at) : words.len};

		if (begins_with(one, prefix))
			fn(one.at, one.len, "", 0, arg);
		words.at += one.len + !!bar;
		words.len -= one.len + !!bar;
	}
}

static void tell_place(const char *help, size_t place, complete_fn fn, void *arg,
                       struct complete_place *ret)
{
	char name[128];
	struct span line, word, told = {0}; /* forms of one word stand below each other */
	const char *at = help;

	if (command_name(help, name, sizeof(name)) == 0)
		return;
	while (next_line(&at, &line) && line.len > 0) {
		if (!usage_word(line, name, place, &word))
			continue;
		if (word.len == told.len && memcmp(word.at, told.at, word.len) == 0)
			continue;
		if (isupper((unsigned char)*word.at))
			keep_kind(ret, word);
		else if (islower((unsigned char)*word.at))
			tell_choices(word, ret->prefix, fn, arg);
		told = word;
	}
}

/* The last word is "--option=VALUE", or (bash splits it) "VALUE" behind an "=". */
static bool read_glued(const char *help, char *const *words, size_t n, struct complete_place *ret)
{
	const char *last = n > 0 ? words[n - 1] : "", *equals = strchr(last, '=');
	bool is_split = n > 2 && strcmp(words[n - 2], "=") == 0;
	bool is_cut = n > 1 && strcmp(last, "=") == 0;
	auto_free char *name = NULL;
	struct row option;

	if (is_split || is_cut)
		name = xstrdup(words[n - (is_split ? 3 : 2)]);
	else if (strncmp(last, "--", 2) == 0 && equals)
		name = xstrndup(last, (size_t)(equals - last));
	if (!name || !find_option(help, name, &option) || option.value.len == 0)
		return false;
	ret->glued = is_split || is_cut ? 0 : (size_t)(equals + 1 - last);
	ret->prefix = is_cut ? "" : last + ret->glued;
	keep_option(ret, &option);
	return true;
}

void complete_words(const char *help, char *const *words, size_t n, complete_fn fn, void *arg,
                    struct complete_place *ret)
{
	struct row option = {0};
	size_t place = 0;

	*ret = (struct complete_place){.prefix = n > 0 ? words[n - 1] : ""};
	for (size_t i = 0; i + 1 < n; i++) {
		if (strcmp(words[i], "--") == 0)
			return;
		if (words[i][0] != '-') {
			ret->before = words[i];
			place++;
			continue;
		}
		if (!find_option(help, words[i], &option) || option.value.len == 0)
			continue;
		if (i + 2 == n && strcmp(words[n - 1], "=") != 0) {
			keep_option(ret, &option);
			return;
		}
		i += strcmp(words[i + 1], "=") == 0 ? 2 : 1;
	}
	if (read_glued(help, words, n, ret))
		return;
	if (ret->prefix[0] == '-')
		tell_options(help, ret->prefix, fn, arg);
	else
		tell_place(help, place, fn, arg, ret);
}
