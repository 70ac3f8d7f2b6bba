// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The daemon's commands: wiring, no logic of their own. argv[0] is the command's name; the result
 * is the program's exit code.
 *
 *	launcher (root) --+-- broker (root)     src/broker: namespaces, mounts, cgroups
 *	                  +-- gateway (cloche)  HTTP, store, sandboxes, execs
 *	                  +-- wall (nobody)     src/wall: sandboxes' connections out
 *	                  +-- dialer (nobody)   the gateway's connections out
 *	                  +-- member (own user) src/member: only in a cluster
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* `cloche serve`: returns when the daemon has stopped. Options are those of config.h. */
int serve_command(int argc, char **argv);

/* What a daemon that runs here reports about itself. */
struct doctor_problem { /* as /v1/health has it */
	const char *code, *message, *hint;
};
struct doctor_build { /* of a template, on its way */
	const char *name;
	char *progress;
};
#define DOCTOR_PROBLEMS_MAX 32
#define DOCTOR_BUILDS_MAX   32
struct doctor_word {
	uint64_t warm_copies, templates;
	const char *engine, *engine_reason; /* of sandboxes that name none */
	bool is_ready;                      /* to take new work */
	struct doctor_problem problems[DOCTOR_PROBLEMS_MAX];
	size_t n_problems;
	struct doctor_build builds[DOCTOR_BUILDS_MAX];
	size_t n_builds;
};
/* `cloche doctor`: 0 if the jail engine can run on this host, and the daemon accepts new work; else
 * 1. word is NULL if there is no daemon. */
int doctor_run(bool json, const struct doctor_word *word);
/* `cloche doctor --upgrade`: 0 if this program can take over everything in the directories. 1 if
 * not; then it has named what it cannot. < 0: it could not look. */
int doctor_upgrade(bool json, const char *data_dir, const char *run_dir, struct err *err);
/* The same as a text, for that many sandboxes at once; the caller frees it. NULL on failure. */
char *doctor_json(uint32_t sandboxes);

/* What the commands of a cluster need of the settings. */
struct cluster_settings {                              /* for free() */
	char *data_dir, *run_dir, *postgres, *address; /* the last two NULL: not set */
	uint64_t certificate_ms;
};
/* file: NULL for the usual one. */
must_check int cluster_settings_read(struct cluster_settings *ret, const char *file,
                                     struct err *err);
void cluster_settings_done(struct cluster_settings *s);
/* The program of these commands, beside this one. */
must_check int cluster_open_program(int *ret_fd, struct err *err);

/* The gateway's user, by the setting `user`. */
must_check int daemon_find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, struct err *err);

#define EXIT_ALREADY_RUNNING 3 /* serve: another daemon holds this run directory */
