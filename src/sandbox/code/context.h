// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A context: a named interpreter of a sandbox, whose state lasts from call to call (code_call.h).
 *
 *	starting --> idle <--> busy
 *	    +---------+---------+--> dead --> starting (at the next call, or a restart)
 *
 * It has a row in the store and survives a gateway's death: for the next one it is busy until the
 * call that may have been running has ended.
 */
#include "sandbox/model/sandbox.h"

struct context;

enum context_state {
	CONTEXT_STARTING,
	CONTEXT_IDLE,
	CONTEXT_BUSY,
	CONTEXT_DEAD,
	CONTEXT_STATE_COUNT
};

#define CONTEXT_NAME_MAX 63

struct context_spec {           /* borrowed for the call */
	const char *name;       /* NULL: one is made up */
	const char *language;   /* of language.h */
	const char *cwd, *user; /* NULL = default */
	const json_t *env;      /* object of strings, or NULL */
};

/* Makes it and starts its interpreter. The name of a language is reserved for that language's
 * default context. */
must_check int context_create(struct sandbox *s, const struct context_spec *spec,
                              struct context **ret, struct err *err);
struct context *context_find(struct sandbox *s, const char *id_or_name); /* borrowed or NULL */
void context_each(struct sandbox *s, void (*fn)(struct context *c, void *arg),
                  void *arg); /* oldest first */
void context_to_json(const struct context *c, struct json_writer *w, const char *name);
const char *context_id(const struct context *c);
const char *context_name(const struct context *c);     /* that of its language: the default one */
const char *context_language(const struct context *c); /* its name */
const char *context_cwd(const struct context *c);      /* as asked for, or NULL */
/* Ends the interpreter with everything that it started. The running call ends with it; waiting
 * calls run in the new one. */
must_check int context_restart(struct context *c, struct err *err);
/* Ends the running call with an error of its language; the state stays. Does nothing if no call
 * runs. */
must_check int context_interrupt(struct context *c, struct err *err);
void context_remove(struct context *c); /* all its calls end */
