// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * One file operation in a sandbox. The agent does it inside, as the chosen user; the host never
 * resolves a path that a guest can shape. A call streams: bytes in, bytes or records out, then its
 * end, each with back-pressure.
 */
#include "proto/start.h"
#include "sandbox/model/sandbox.h"

struct file_call;

struct file_call_ops { /* NULL = not expected: the guest is then in error */
	void (*on_data)(const char *data, size_t len, void *arg);
	void (*on_record)(const struct record *r, void *arg);
	void (*on_room)(void *arg); /* more may be written */
	/* Called exactly once; the call is freed after it. err NULL = success. */
	void (*on_end)(const struct err *err, void *arg);
};

/* op: kind START_FILE; copied. Without a user it is done by that of the sandbox's programs, and a
 * relative path begins where they begin; with a cwd of "" at the user's home. */
must_check int file_call_start(struct sandbox *s, const struct start *op,
                               const struct file_call_ops *ops, void *arg, struct file_call **ret,
                               struct err *err);
/* The same for a sandbox that is still being created, or has begun to end. */
must_check int file_call_begin(struct sandbox *s, const struct start *op,
                               const struct file_call_ops *ops, void *arg, struct file_call **ret,
                               struct err *err);
must_check ssize_t file_call_write(struct file_call *c, const void *data,
                                   size_t len); /* takes what fits the window */
void file_call_finish(struct file_call *c);     /* the end of the input */
void file_call_pause(struct file_call *c,
                     bool on); /* stops on_data and on_record, and in the end the guest */
bool file_call_is_truncated(const struct file_call *c); /* for on_end(): a list had more */
void file_call_cancel(struct file_call *c); /* no on_end; the agent undoes a half-written file */
