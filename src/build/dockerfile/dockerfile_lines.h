// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The instructions of a Dockerfile, one after the other. Comments, continued lines, the directives
 * at its head (`syntax`, `escape`) and here-documents are resolved here; what the words of an
 * instruction mean is the plan's matter (dockerfile_plan.h). No I/O.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define DOCKERFILE_BYTES_MAX (128 * 1024)
#define INSTRUCTIONS_MAX     1000
#define HEREDOCS_MAX         8 /* of one instruction */

enum instruction_kind {
	DOCKER_ADD,
	DOCKER_ARG,
	DOCKER_CMD,
	DOCKER_COPY,
	DOCKER_ENTRYPOINT,
	DOCKER_ENV,
	DOCKER_EXPOSE,
	DOCKER_FROM,
	DOCKER_HEALTHCHECK,
	DOCKER_LABEL,
	DOCKER_MAINTAINER,
	DOCKER_ONBUILD,
	DOCKER_RUN,
	DOCKER_SHELL,
	DOCKER_STOPSIGNAL,
	DOCKER_USER,
	DOCKER_VOLUME,
	DOCKER_WORKDIR,
	DOCKER_KIND_COUNT,
};
const char *instruction_name(enum instruction_kind kind);

struct heredoc {
	char *name, *body; /* the body ends with a new line, unless it is empty */
	bool is_quoted;    /* nothing in it is expanded */
	bool strips_tabs;  /* <<-: leading tabs do not count */
};

struct instruction {
	enum instruction_kind kind;
	unsigned line; /* where it begins, from 1 */
	char *text;    /* behind its name, as one line */
	struct heredoc heredocs[HEREDOCS_MAX];
	size_t n_heredocs;
};

struct dockerfile {
	char escape; /* '\\' or '`' */
	struct instruction *items;
	size_t n;
};

/* All instructions, or an error of the field `dockerfile` that names the line. The caller calls
 * dockerfile_done(), also after an error. */
must_check int dockerfile_parse(const char *text, size_t len, struct dockerfile *ret,
                                struct err *err);
void dockerfile_done(struct dockerfile *d);
/* An error of a line: "line N: …". */
int dockerfile_error(struct err *err, unsigned line, const char *format, ...) printf_like(3, 4);
