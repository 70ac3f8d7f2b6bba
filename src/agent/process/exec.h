// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The child's side of an exec: from a fresh fork, already in the cgroup, to the user's program. */
#include "agent/agent.h"
#include "agent/users/user.h"
#include "proto/start.h"

#include <stdnoreturn.h>

#define EXEC_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

noreturn void exec_run(const struct settings *settings, const struct start *s);

/* An environment: "NAME=value" words, a later one replacing an earlier. */
struct environment {
	char **words; /* NULL-terminated */
	size_t n;
};
void environment_put(struct environment *e, const char *word); /* copied */
void environment_set(struct environment *e, const char *name, const char *value);
const char *environment_get(const struct environment *e, const char *name); /* or NULL */
/* What every process of that user starts with. */
void environment_defaults(struct environment *e, const struct identity *id);

/* execve() through the PATH of that environment. Returns only on failure, with err set. */
int exec_search(char *const argv[], const struct environment *e, struct err *err);
