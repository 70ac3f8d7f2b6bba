// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The host's side of the agent for tests: starts the agent that CLOCHE_AGENT names, speaks frames
 * with it, and gathers what a channel says. One at a time. All waits end after a deadline, and the
 * agent dies with the test's process.
 */
#include "base/buf.h"
#include "proto/frame.h"
#include "proto/start.h"
#include "test.h"

#include <stdbool.h>

struct told { /* what a channel has said */
	struct buf out, err, records;
	uint64_t end; /* offset behind the last output */
	uint64_t input_acked;
	uint32_t pid;
	bool has_started, has_exit, is_closed;
	struct channel_exit exit;
};

void host_start(void);         /* agent, connection, HELLO, WELCOME */
void host_start_as_init(void); /* the same with the agent as pid 1 of new namespaces; or skips */
void host_connect(uint32_t epoch); /* another connection */
void host_hello(void);
void host_drop(void); /* hangs up */
void host_send(enum frame_type type, uint32_t channel, const void *payload, size_t len);
void host_send_u64(enum frame_type type, uint32_t channel, uint64_t value);
void host_send_raw(const void *data, size_t len);
void host_signal(uint32_t channel, int signo, enum frame_scope scope);
void host_run(uint32_t channel, const struct start *s); /* START */
bool host_next(struct frame *ret); /* the next frame, until the next call; false = hung up */
bool host_is_hung_up(void);        /* waits for it */
bool host_is_silent(void);         /* neither a frame nor the end has come */
bool host_is_listened_to(int pid); /* that process has the listener */

extern bool host_acks; /* acknowledge output as it comes (true) */
void told_done(struct told *t);
/* Takes frames of that channel until `until` holds; others are passed over. */
void host_gather(uint32_t channel, struct told *t, bool (*until)(const struct told *t));
bool told_closed(const struct told *t);
bool told_exit(const struct told *t);
bool told_started(const struct told *t);

/* START and everything to CLOSED, then FORGET. */
void host_exec(struct told *t, const char *script); /* sh -c, as the test's user */
void host_call(struct told *t, const struct start *s, const char *input, size_t input_len);
struct start host_script(const char *script); /* borrowed until the next call */
const char *host_user(void);                  /* who the test is */
void host_await_death(pid_t pid);
