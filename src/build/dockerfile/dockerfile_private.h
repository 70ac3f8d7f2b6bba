// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the files of this directory: a plan on its way. */
#include "base/buf.h"
#include "build/dockerfile/dockerfile_lines.h"
#include "build/dockerfile/dockerfile_plan.h"
#include "build/dockerfile/dockerfile_words.h"

#define DOCKER_TREE    "/template" /* of a sandbox of `host`: a root in the making */
#define SCRIPT_MAX     (96 * 1024) /* of a part's scripts together: they are one exec's variables */
#define DOCKER_PATH    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DOCKER_ENV_MAX (64 * 1024)

struct plan {
	const struct docker_request *request;
	struct dockerfile *file;
	json_t *stages, *parts, *copies; /* of the recipe */
	json_t *stage_names;             /* name -> number, in lower case */
	json_t *globals;                 /* ARG before the first FROM */
	json_t *used_args;               /* of build_args */
	unsigned number;                 /* of the last script */
};

/* The stage that is being read: what its instructions have set so far. */
struct stage {
	struct plan *plan;
	const struct instruction *in; /* that is being read */
	size_t index;
	bool is_tree;             /* FROM scratch, and nothing has run in it */
	bool is_cmd_own;          /* CMD is not the base's */
	json_t *env, *args;       /* objects of strings */
	json_t *shell;            /* array */
	json_t *entrypoint, *cmd; /* arrays, or NULL */
	json_t *config;           /* object */
	char *user, *cwd;
	bool is_cwd_made; /* by a WORKDIR; an image may name one that it does not have */
	json_t *part;     /* the open one, or NULL; borrowed */
	size_t part_bytes;
};

int stage_error(const struct stage *s, struct err *err, const char *format, ...) printf_like(3, 4);
struct docker_scope stage_scope(const struct stage *s);

/* dockerfile_config.c: the instructions that only set something. */
must_check int docker_read_env(struct stage *s, struct err *err);
must_check int docker_read_arg(struct stage *s, struct err *err);
must_check int docker_read_label(struct stage *s, struct err *err);
must_check int docker_read_command(struct stage *s, struct err *err); /* CMD, ENTRYPOINT, SHELL */
must_check int docker_read_list(struct stage *s, struct err *err);    /* EXPOSE, VOLUME */
must_check int docker_read_word(struct stage *s,
                                struct err *err); /* USER, STOPSIGNAL, MAINTAINER */
must_check int docker_read_healthcheck(struct stage *s, struct err *err);
/* NAME[=DEFAULT] of an ARG into an object; globals may be NULL. */
must_check int docker_take_arg(struct plan *p, const struct docker_scope *scope, const char *word,
                               json_t *into, const json_t *globals, struct err *err);

/* dockerfile_steps.c: those that change files. */
must_check int docker_read_run(struct stage *s, struct err *err);
must_check int docker_read_workdir(struct stage *s, struct err *err);
/* An absolute path without "." and "..", from a directory; takes path, the caller frees. */
char *docker_resolve(const char *cwd, char *path);

/* dockerfile_copy.c */
must_check int docker_read_copy(struct stage *s, struct err *err); /* COPY, ADD */
/* Where an instruction's sources are, "stage", an image or the context (from NULL): notes in the
 * part what has to be brought, and gives the directory inside; the caller frees. patterns: paths,
 * which become relative to it. */
must_check int docker_bring(struct stage *s, const char *from, json_t *patterns, char **ret_dir,
                            struct err *err);

/* dockerfile_parts.c */
void docker_open_part(struct stage *s);
/* Adds the script as a step of the open part; is_last closes it. Takes nothing. */
must_check int docker_add_step(struct stage *s, const struct buf *script, bool is_last,
                               struct err *err);
must_check int docker_add_file(struct stage *s, const char *path, const char *content,
                               struct err *err);
/* The number of a stage by its name or number, or -1. */
int docker_find_stage(const struct plan *p, const char *word);
