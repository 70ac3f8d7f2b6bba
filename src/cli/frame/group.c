// SPDX-License-Identifier: Apache-2.0
#include "cli/frame/group.h"

#include "base/text/nearest.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

/* Of what a subcommand does, the first sentence: its own --help has all. */
static int first_sentence(const char *about)
{
	const char *end = strchr(about, '.');

	while (end && end[1] != ' ' && end[1] != '\n' && end[1] != '\0')
		end = strchr(end + 1, '.');
	return end ? (int)(end - about) : (int)strlen(about);
}

/* On one line, though it may be broken there. */
static void print_sentence(FILE *out, const char *about)
{
	for (int i = 0, n = first_sentence(about); i < n; i++)
		(void)fputc(about[i] == '\n' ? ' ' : about[i], out);
	(void)fputc('\n', out);
}

static int print_help(const struct group *g, FILE *out, int status)
{
	size_t width = 0;

	for (size_t i = 0; i < g->n_subcommands; i++)
		width = MAX(width, strlen(g->subcommands[i].word));
	if (g->usual)
		(void)fprintf(out, "Usage: cloche %s %s\n       ", g->name, g->usual->synopsis);
	else
		(void)fputs("Usage: ", out);
	(void)fprintf(out, "cloche %s COMMAND\n\n%s\n\nCommands:\n", g->name, g->about);
	for (size_t i = 0; i < g->n_subcommands; i++) {
		(void)fprintf(out, "  %-*s  ", (int)width, g->subcommands[i].word);
		print_sentence(out, g->subcommands[i].about);
	}
	(void)fprintf(out, "\n'cloche %s COMMAND --help' says more of each.\n\nExamples:\n",
	              g->name);
	for (size_t i = 0; i < g->n_subcommands; i++) /* the first of each */
		(void)fprintf(out, "%.*s\n", (int)strcspn(g->subcommands[i].examples, "\n"),
		              g->subcommands[i].examples);
	return status;
}

static int run(const struct group *g, const struct subcommand *sub, const struct opt *opts,
               void *arg, int argc, char **argv)
{
	bool is_named = strcmp(argv[0], sub->word) == 0;
	auto_free char *name = is_named ? xasprintf("%s %s", g->name, sub->word) : xstrdup(g->name);
	const struct manual manual = {
		.name = name,
		.synopsis = sub->synopsis,
		.about = sub->about,
		.examples = sub->examples,
		.min_words = sub->n_words,
		.max_words = sub->n_words + sub->n_more,
		.words_end_options = sub->words_end_options,
		.opts = opts + sub->first_opt,
		.n_opts = sub->n_opts,
	};
	struct command c = {.is_offline = g->is_offline, .arg = arg, .resource = sub->resource};

	return command_run(&c, &manual, argc, argv, sub->fn);
}

/* What other programs call it. */
static const struct {
	const char *word, *name;
} synonyms[] = {
	{"add", "create"}, {"delete", "rm"}, {"list", "ls"}, {"new", "create"}, {"remove", "rm"},
};

static int refuse(const struct group *g, const char *word)
{
	const char *meant = word;
	struct nearest near;
	struct err err;

	for (size_t i = 0; i < ARRAY_SIZE(synonyms); i++)
		if (strcmp(word, synonyms[i].word) == 0)
			meant = synonyms[i].name;
	nearest_init(&near, meant, strlen(meant));
	for (size_t i = 0; i < g->n_subcommands; i++)
		nearest_try(&near, g->subcommands[i].word);
	(void)err_set(&err, ERR_INVALID_FIELD, 0, "there is no command '%s %s'", g->name, word);
	if (near.best)
		(void)err_hint(&err, "did you mean 'cloche %s %s'?", g->name, near.best);
	else
		(void)err_hint(&err, "'cloche %s --help' lists them", g->name);
	return text_fail(&err);
}

int group_main(const struct group *g, const struct opt *opts, void *arg, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return print_help(g, stdout, 0);
	for (size_t i = 0; i < g->n_subcommands; i++)
		if (strcmp(word, g->subcommands[i].word) == 0)
			return run(g, &g->subcommands[i], opts, arg, argc - 1, argv + 1);
	if (g->usual)
		return run(g, g->usual, opts, arg, argc, argv);
	return *word ? refuse(g, word) : print_help(g, stderr, EXIT_CLOCHE);
}
