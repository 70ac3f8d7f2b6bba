// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A sandbox: one isolated machine, from the request that asks for it until its disk is gone.
 *
 *	creating --> running --> stopping --> stopped
 *	    +------------------------^  +---> failed (its agent crashed or broke the protocol)
 *
 * A create that fails leaves nothing: it is undone before its caller is told. All calls are made on
 *the loop's thread and none blocks. Only sandbox_move() changes the state. A stopped or failed one
 *stays findable, with its cause, until it is forgotten (delete of a stopped one, or the record's
 *age).
 */
#include "base/json.h"
#include "engine/engine.h"
#include "store/usage.h"

struct fleet;
struct sandbox;

enum sandbox_state {
	SANDBOX_CREATING,
	SANDBOX_RUNNING,
	SANDBOX_STOPPING,
	SANDBOX_STOPPED,
	SANDBOX_FAILED,
	SANDBOX_STATE_COUNT
};
const char *sandbox_state_name(enum sandbox_state state);

enum end_cause {
	END_NONE,
	END_EXITED,
	END_OOM,
	END_PIDS,
	END_DISK_FULL,
	END_TIMEOUT,
	END_IDLE,
	END_KILLED,
	END_DELETED,
	END_GUEST_CRASH,
	END_HOST_RESTART,
	END_POLICY,
	END_CAUSE_COUNT
};
const char *end_cause_name(enum end_cause cause);

#define SANDBOX_TAGS_MAX 32
#define SANDBOX_NAME_MAX 63

struct sandbox_spec {         /* strings and JSON are borrowed for the call */
	const char *name;     /* NULL or a name: [a-z0-9]([a-z0-9-]*[a-z0-9])?, unique among the
	                         project's living */
	const char *key_id;   /* of who asks; NULL = none */
	const char *template; /* "host" */
	const json_t *tags;   /* object of strings, or NULL; checked by sandbox_create() */
	const json_t *env;    /* object of strings, or NULL: every exec's defaults */
	struct guest_limits limits; /* 0 = the default */
	uint64_t timeout_ms;        /* hard lifetime; 0 = the default */
	const char *engine;         /* "auto", "jail", "vm" */
	const char *min_grade;      /* NULL, "process", "emulated", "hardware" */
};

/* s and err: exactly one is NULL. */
typedef void (*sandbox_done_fn)(struct sandbox *s, const struct err *err, void *arg);

/* Checks the spec, records it, asks the broker. done is called from the loop, never from inside
 * this call. */
must_check int sandbox_create(struct fleet *fleet, const char *project_id,
                              const struct sandbox_spec *spec, sandbox_done_fn done, void *arg,
                              struct err *err);
/* Ends it; done when every host object is gone (also when it was stopping already). On a stopped
 * one: forgets it. */
void sandbox_delete(struct sandbox *s, enum end_cause cause, sandbox_done_fn done, void *arg);
/* Changes tags, timeout, limits while it runs. done as in create. */
struct sandbox_patch {
	const json_t *tags;
	bool has_timeout;
	uint64_t timeout_ms;
	bool has_limits;
	struct guest_limits limits; /* 0 = keep */
};
must_check int sandbox_update(struct sandbox *s, const struct sandbox_patch *patch,
                              sandbox_done_fn done, void *arg, struct err *err);

/* What it has used since it was created, and what it holds now. */
struct sandbox_figures {
	struct usage total;
	bool is_live; /* now is known: it runs */
	struct guest_usage now;
	uint64_t at_us; /* wall clock */
};
/* f and err: exactly one is NULL; s is NULL if it was forgotten meanwhile. From the loop. */
typedef void (*sandbox_usage_fn)(struct sandbox *s, const struct sandbox_figures *f,
                                 const struct err *err, void *arg);
must_check int sandbox_usage(struct sandbox *s, sandbox_usage_fn fn, void *arg, struct err *err);
/* Bytes that passed between it and the network. */
void sandbox_count_network(struct sandbox *s, uint64_t in_bytes, uint64_t out_bytes);

const char *sandbox_id(const struct sandbox *s);
enum sandbox_state sandbox_state(const struct sandbox *s);
const char *sandbox_project_id(const struct sandbox *s);
struct fleet *sandbox_fleet(const struct sandbox *s);
/* {id, name, state, template, tags, env_names?, limits, timeout_ms, created_us, expires_us, ended,
 * isolation, …} as in api/openapi.yaml */
void sandbox_to_json(const struct sandbox *s, struct json_writer *w, const char *name);
void isolation_to_json(const struct isolation *i, struct json_writer *w,
                       const char *name); /* null while it is not known */
