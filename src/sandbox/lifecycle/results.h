// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Results: files that stay when a sandbox has ended, for who comes back later. Its create names
 * their paths.
 *
 *	end --> collected (results_collect.c): read one after the other, as its user would
 *	    --> kept (results.c): in the spools' directory, as ID.NUMBER, charged as disk
 *	    --> gone with the sandbox's record, or earlier to keep the project's bound
 *
 * A file is kept as its bytes, a directory as a tar. They are collected while the sandbox's
 * programs still run, before anything of it is ended. What cannot be collected is told with the
 * reason, and delays no end for longer than RESULTS_US. All of this is on the loop's thread.
 *
 * With results a delete is an end like any other: the record, the execs' output and the results
 * stay as of one whose time was up. The next delete forgets them.
 */
#include "base/units.h"
#include "sandbox/model/sandbox.h"

#define RESULTS_MAX 32
#define RESULTS_US  (10 * SECOND_US)

struct fleet;
struct sandbox;

/* The wish of a create: an array of paths, or NULL. */
must_check int results_check(const json_t *paths, bool is_persistent, struct err *err);

/* An end begins: what cannot be collected is noted, for the row that says so. */
void results_begin_end(struct sandbox *s);
/* A step of every end. */
void results_collect(struct sandbox *s);
/* Whether an end that was cut short has them still to collect. */
bool results_are_due(const struct sandbox *s);
void results_on_link(struct sandbox *s);        /* its agent answers again */
void results_collect_cancel(struct sandbox *s); /* it is freed */

/* What has become of a path. why: it is not there, and nothing was kept. */
void results_note(struct sandbox *s, size_t number, bool is_directory, uint64_t bytes,
                  const char *why);
/* The file of a path, to write; -1 and err. */
must_check int results_create_file(const struct sandbox *s, size_t number, struct err *err);
void results_remove_file(const struct sandbox *s, size_t number);

void results_load(struct sandbox *s); /* its row was read */
void results_keep(struct sandbox *s); /* it has ended for good: bounded and charged from now on */
void results_drop(struct sandbox *s); /* it is forgotten, and they with it */
void results_sweep(struct fleet *fleet, int dir_fd, const char *name); /* of nobody: removed */
void results_tick(struct fleet *fleet); /* as of struct stored_kind */
bool results_are_known(const struct fleet *fleet, const char *id);

void results_to_json(const struct sandbox *s, struct json_writer *w);
struct result_file {
	int fd;
	uint64_t bytes;
	bool is_directory; /* then it is a tar */
};
/* The caller owns ret->fd. */
must_check int results_open(const struct sandbox *s, const char *path, struct result_file *ret,
                            struct err *err);
