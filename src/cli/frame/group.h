// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Commands of two words, as `cloche key create`: what they share is a table. */
#include "cli/frame/resource.h"

struct subcommand {
	const char *word;
	command_fn fn;
	const char *synopsis, *about, *examples;
	size_t n_words, n_more;   /* so many, and so many more if the user likes */
	size_t first_opt, n_opts; /* of the group's: which it takes */
	const struct resource *resource;
	bool words_end_options; /* what follows the first word belongs to a command inside */
};

struct group {
	const char *name;
	const char *about;
	const struct subcommand *subcommands;
	size_t n_subcommands;
	/* The one that is meant where the first word names none. NULL: a word is needed. */
	const struct subcommand *usual;
	bool is_offline; /* its commands find what they need themselves */
};

/* The command's exit status. arg is each subcommand's own, which opts write to. */
int group_main(const struct group *g, const struct opt *opts, void *arg, int argc, char **argv);
