// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A command's options are a table and its manual is data: from both come the parsing and --help, so
 * that the two cannot disagree. Every command has the rows of opts_common beside its own.
 */
#include "base/err.h"

#include <stdbool.h>

enum opt_kind {
	OPT_FLAG,    /* bool * */
	OPT_TEXT,    /* const char **, borrowed from argv */
	OPT_LIST,    /* struct opt_list *; may be given again and again */
	OPT_NUMBER,  /* uint64_t * */
	OPT_DECIMAL, /* double * */
	OPT_MIB,     /* uint64_t *: "512m", "2g", a bare number is MiB */
	OPT_MS,      /* uint64_t *: "250ms", "30s", "5m", "2h", a bare number is seconds */
};

struct opt {
	char letter;      /* 0 = long form only */
	const char *name; /* without the dashes */
	enum opt_kind kind;
	void *ret;
	const char *value; /* what the value is called in --help; NULL for flags */
	const char *help;
};

struct opt_list {
	const char **items; /* the array is the list's, the strings are argv's */
	size_t n;
};
void opt_list_done(struct opt_list *list);

#define WORDS_MAX SIZE_MAX /* any number */

struct manual {
	const char *name;     /* "run", "key create" */
	const char *synopsis; /* what follows the name; several forms are on lines of their own */
	const char *about;
	const char *examples;
	bool words_end_options; /* what follows the first word belongs to a command inside */
	size_t min_words, max_words;
	const struct opt *opts;
	size_t n_opts;
};

/* What every command takes. */
struct opts_common {
	const char *url, *key_file;
	bool json, wants_help;
	bool has_dashes; /* "--" stood before the first word */
};

/*
 * Reads argv[1..] by the table. 0: *ret_words are the words that are no options, *ret_n of them
 * (argv is reordered, not copied). 1: --help was asked for and printed. A mistake names the option.
 */
must_check int opts_parse(const struct manual *m, struct opts_common *common, int argc, char **argv,
                          char ***ret_words, size_t *ret_n, struct err *err);

/* The values with units, each all of the text or -EINVAL, -ERANGE. */
must_check int opts_parse_mib(const char *text, uint64_t *ret);
must_check int opts_parse_ms(const char *text, uint64_t *ret);
must_check int opts_parse_decimal(const char *text, double *ret);
