// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A call: code run in a context. Calls of one context run one after the other. Output and results
 * go to the caller as they come; a slow caller pauses the call, and then the code waits. If the
 * caller goes away (code_abandon()), the call goes on, unless it was asked to end with its caller.
 */
#include "proto/frame.h"
#include "sandbox/code/context.h"

struct code_call;

#define CODE_BYTES_MAX (1024 * 1024)

struct code_spec {            /* borrowed for the call */
	const char *code;     /* UTF-8, at most CODE_BYTES_MAX */
	const char *context;  /* id or name; NULL: the language's default one, made on first use */
	const char *language; /* NULL: python, or the context's */
	const char *cwd;      /* NULL = default; with user and env only for a context that is made
	                         by this */
	const char *user;
	const json_t *env;
	/* Static lines NAME=VALUE: variables for this call alone, where the driver takes them. */
	const char *call_env;
	uint64_t timeout_ms; /* from the begin of the run; 0 = none */
	bool refuses_busy;   /* instead of waiting */
	/* The call is interrupted when its caller leaves. If the gateway dies, all callers have
	 * left. */
	bool ends_with_caller;
};

enum code_status { CODE_OK, CODE_ERROR, CODE_EXIT, CODE_DIED };
const char *code_status_name(enum code_status status);

struct code_end {
	enum code_status status;
	const char *cause; /* NULL, or "timeout", "interrupted", "oom", "restarted", "removed" */
	uint64_t count;    /* of the interpreter's calls; 0 = it never ran */
	bool has_exit_code;
	int exit_code;
	int signal;        /* 0 = none */
	bool is_restarted; /* an earlier interpreter of the context had ended: its state is gone */
	uint64_t wall_us;
	bool has_cpu;
	uint64_t cpu_us; /* by the interpreter's own word */
};

enum code_event { CODE_EVENT_RESULT, CODE_EVENT_DISPLAY, CODE_EVENT_ERROR };

/* Called from the loop. All but on_end may be NULL. */
struct code_ops {
	void (*on_start)(void *arg); /* the interpreter has it */
	void (*on_output)(enum frame_stream stream, const char *data, size_t len, void *arg);
	/* value as driver_message.h says; borrowed */
	void (*on_event)(enum code_event event, json_t *value, void *arg);
	/* Exactly one of end and err is NULL; c is NULL once the context is gone. The call is freed
	 * after this. */
	void (*on_end)(struct context *c, const struct code_end *end, const struct err *err,
	               void *arg);
};

must_check int code_run(struct sandbox *s, const struct code_spec *spec, const struct code_ops *ops,
                        void *arg, struct code_call **ret, struct err *err);
void code_pause(struct code_call *call, bool on);
void code_abandon(struct code_call *call); /* ops are not called any more */
