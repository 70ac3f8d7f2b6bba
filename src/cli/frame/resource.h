// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A resource is a kind of thing that the API keeps: keys, volumes, snapshots. The commands that
 * list, show, make and remove one are the same for all of them. They differ in a table: where the
 * API has it, and which columns its list has.
 */
#include "cli/frame/command.h"

/* The text of one cell, for free(). NULL prints as "-". */
typedef char *(*cell_fn)(const json_t *one, const char *field);

struct column {
	const char *head;
	const char *field;
	cell_fn cell; /* NULL = cell_text */
};

struct resource {
	const char *plural; /* in the path, and the list's name in the reply */
	const char *list;   /* NULL, or that name where it is another one */
	const char *parent; /* NULL, or what it belongs to ("sandboxes"): the first word says which
	                       one, and the next names the resource */
	const struct column *columns;
	size_t n_columns;
	char *(*query)(char *path,
	               const void *arg); /* NULL, or adds what the options say to the path of a list
	                                    or of one; arg is the command's */
	const char *printed; /* the field that is printed of one that was removed; NULL = nothing */
};

/* What a field holds, as text. A field that is null gives NULL. */
char *cell_text(const json_t *one, const char *field);
char *cell_number(const json_t *one, const char *field);
char *cell_bytes(const json_t *one, const char *field);
char *cell_mib(const json_t *one, const char *field);
char *cell_age(const json_t *one, const char *field);    /* of a moment in microseconds */
char *cell_length(const json_t *one, const char *field); /* of an array */

/* Whole subcommands, for the table of a group whose row has a resource. */
must_check int resource_ls(struct command *c, struct err *err);
must_check int resource_inspect(struct command *c, struct err *err);
must_check int resource_rm(struct command *c, struct err *err);

/* Makes one of body, which is the caller's, and prints the reply's field. */
must_check int resource_create(struct command *c, const json_t *body, const char *field,
                               struct err *err);
/* The same for one with a secret: prints it, and tells on stderr that nobody sees it again. `name`
 * is what one is called ("key"). */
must_check int resource_create_secret(struct command *c, const json_t *body, const char *name,
                                      struct err *err);

void resource_print(const struct resource *r, const json_t *list);
