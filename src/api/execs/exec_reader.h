// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A reader: one request that is being answered with an exec's output. It pulls from the spool
 * whenever the exec says that there is more, or the client has taken what was sent; it never holds
 * more than the request's own buffer, and a slow one holds up nobody. A turn's work is bounded,
 * that of all readers together: the rest is a job of the loop, which takes readers in turn.
 *
 * Two kinds: exec_events.c sends each event as it comes, exec_result.c one JSON object when the
 * exec is over. Both begin with a struct exec_reader.
 */
#include "http/stream.h"
#include "sandbox/exec/exec.h"

struct exec_reader;

/*
 * The last byte is written, but the reply is not ended; or, with err, nothing was sent. May free
 * the reader.
 */
typedef void (*exec_reader_end_fn)(struct http_req *req, const struct err *err, void *arg);

struct exec_reader_ops {
	void (*pump)(struct exec_reader *r); /* goes on; r may be gone after it */
	void (*done)(struct exec_reader *r); /* frees what the kind holds, not r */
};

struct exec_reader {
	const struct exec_reader_ops *ops;
	struct http_req *req; /* its http_state() is this */
	struct exec *e;       /* NULL: it was removed */
	struct exec_watch watch;
	struct loop_job *again;
	exec_reader_end_fn end;
	void *arg;
	bool kills_on_disconnect;
	bool is_ended; /* the end was told */
};

#define READER_EVENTS_PER_TURN 256

/* After n events in this call: may there be one more? */
static inline bool reader_may_go_on(const struct loop *loop, unsigned n)
{
	return n == 0 || (n < READER_EVENTS_PER_TURN && loop_has_time(loop));
}

/* Begins at the end of this turn. end NULL: the reader ends the reply and goes with the request. */
void exec_reader_init(struct exec_reader *r, const struct exec_reader_ops *ops,
                      struct http_req *req, struct exec *e, exec_reader_end_fn end, void *arg);
void exec_reader_free(struct exec_reader *r);  /* NULL is fine */
void exec_reader_again(struct exec_reader *r); /* pump once more, after others had their turn */
void exec_reader_end(struct exec_reader *r, const struct err *err);
int exec_reader_gone(struct err *err); /* what to say of a removed exec */

struct exec_events_options {
	enum event_format format;
	uint64_t after;
	bool is_following;
	bool tells_start; /* waits until it runs or failed, so that a failure is a plain error */
};
struct exec_reader *exec_events_new(struct http_req *req, struct exec *e,
                                    const struct exec_events_options *options,
                                    exec_reader_end_fn end, void *arg);
/* sandbox_id is told in the object if it is not NULL. */
struct exec_reader *exec_result_new(struct http_req *req, struct exec *e, const char *sandbox_id,
                                    exec_reader_end_fn end, void *arg);
