// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A project: the services of a Compose file as sandboxes of one group, which has its name. All that
 * belongs to it is found by names and tags in the daemon, and nothing is kept on this side: so it
 * does not matter who began it, or when they were killed.
 *
 *	group NAME                        the sandboxes, each with its service's name as alias
 *	tag compose=NAME                  those of the group that are the project's
 *	tag compose_service=SERVICE
 *	tag compose_config=DIGEST         what it was made from
 *	tag compose_exec=ID               the service's own command; absent: it was not started yet
 *	template compose.NAME.SERVICE     what was built
 *	volume compose.NAME.VOLUME
 */
#include "cli/frame/command.h"

#include <jansson.h>

#define PROJECT_NAME_MAX 40

struct compose_opts {
	const char *file, *project, *directory, *within;
	struct opt_list profiles;
	bool is_one_network;
	/* up */
	bool is_watched;
	const char *templates, *network, *engine, *min_grade;
	struct opt_list allow;
	uint64_t timeout_ms, wait_ms;
	/* down */
	bool keeps_volumes;
	/* logs */
	bool follows;
	/* exec */
	bool wants_stdin, wants_pty, is_detached;
	const char *user, *cwd;
	struct opt_list env;
	uint64_t exec_timeout_ms;
};

struct project {
	struct command *c;
	const struct compose_opts *o;
	char *name;
	char *file;   /* as it is told in errors */
	char *dir;    /* the file's or the caller's, a real path: what is read is relative to it */
	char *within; /* all that is read lies in it, a real path */
	json_t *variables; /* of the caller and of .env */
	json_t *model;     /* NULL where only the name was needed */
};

/* Its name alone; reads the file only if nothing else says it. */
must_check int project_open_name(struct command *c, struct project *p, struct err *err);
/* And the file, with what profiles choose. */
must_check int project_open(struct command *c, struct project *p, struct err *err);
void project_done(struct project *p);

/* Its sandboxes that are alive: an array of the API's objects, for json_decref(). */
must_check int project_members(const struct project *p, struct remote *remote, json_t **ret,
                               struct err *err);
const json_t *project_member_of(const json_t *members, const char *service); /* or NULL */
const char *project_tag(const json_t *member, const char *name);             /* or "" */

/* Reads a file that must be within the project's directory. text is NUL-terminated. -ENOENT: it is
 * not there. */
must_check int project_read_file(const struct project *p, const char *path, int line, size_t max,
                                 char **ret_text, struct err *err);
/* The real path of something in that directory; for free(). */
must_check int project_find(const struct project *p, const char *path, int line, char **ret,
                            struct err *err);
char *project_template(const char *project, const char *service); /* for free() */
char *project_volume(const char *project, const char *volume);

/* What happens, for people on stderr, as a line "SERVICE: TEXT", or with --json as an event on
 * stdout. detail may be NULL. */
void project_tell(const struct project *p, const char *service, const char *state,
                  const char *detail);

/* Removes all that there is of it. */
must_check int project_remove(const struct project *p, struct remote *remote, struct err *err);
