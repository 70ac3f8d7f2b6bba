// SPDX-License-Identifier: Apache-2.0
#pragma once
/* What every command does around its own work: read its words, open the daemon, report, exit. */
#include "cli/frame/commands.h"
#include "cli/remote/remote.h"
#include "cli/term/opts.h"

struct resource;

struct command {
	struct opts_common common;
	char **words;
	size_t n_words;
	struct remote *remote;           /* NULL for a command_main_offline() */
	bool is_offline;                 /* it opens no daemon */
	void *arg;                       /* the command's own */
	const struct resource *resource; /* what a subcommand is about; NULL of others */
};

/* Gives the exit status, or < 0 with err. */
typedef int (*command_fn)(struct command *c, struct err *err);

/* A whole command: its exit status. */
int command_main(const struct manual *m, int argc, char **argv, command_fn fn, void *arg);
/* The same for one that finds its daemon itself, or needs none. */
int command_main_offline(const struct manual *m, int argc, char **argv, command_fn fn, void *arg);

/* The same with c, in which the caller has set arg and resource. */
int command_run(struct command *c, const struct manual *m, int argc, char **argv, command_fn fn);

/* Calls the API for something to show. 0: *ret is to be shown to people; 1: it was printed as JSON,
 * as the user wants it; < 0: it failed. */
must_check int command_ask(struct command *c, const char *method, const char *path,
                           const json_t *body, json_t **ret, struct err *err);
/* Shows what the API has at a path: as JSON, or as a sheet for people. */
must_check int command_inspect(struct command *c, const char *path, struct err *err);
/* Prints a reply: all of it as JSON, or one field for people. Field NULL: nothing for people. */
void command_print_reply(const struct command *c, const json_t *reply, const char *field);
/* Prints a value of the API for a program to read. */
void command_print_json(const json_t *value);
/* An answer's text field, or "" where it is null or missing. */
const char *command_text(const json_t *object, const char *name);
uint64_t command_number(const json_t *object, const char *name); /* 0 where it is not there */
