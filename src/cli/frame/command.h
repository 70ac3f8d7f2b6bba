// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What every command does around its own work: read its words, open the daemon, report, exit. */
#include "cli/frame/commands.h"
#include "cli/remote/remote.h"
#include "cli/term/opts.h"

struct command {
	struct opts_common common;
	char **words;
	size_t n_words;
	struct remote *remote; /* NULL for a command_main_offline() */
	void *arg;             /* the command's own */
};

/* Gives the exit status, or < 0 with err. */
typedef int (*command_fn)(struct command *c, struct err *err);

/* A whole command: its exit status. */
int command_main(const struct manual *m, int argc, char **argv, command_fn fn, void *arg);
/* The same for one that finds its daemon itself, or needs none. */
int command_main_offline(const struct manual *m, int argc, char **argv, command_fn fn, void *arg);

/* Prints a value of the API for a program to read. */
void command_print_json(const json_t *value);
/* An answer's text field, or "" where it is null or missing. */
const char *command_text(const json_t *object, const char *name);
uint64_t command_number(const json_t *object, const char *name); /* 0 where it is not there */
