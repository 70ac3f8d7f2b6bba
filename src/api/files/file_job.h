// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A file job: one request that is one file operation inside a sandbox.
 *
 *	client <--> http_req <--> file_job <--> file_call <--> agent
 *
 * The job lives as long as its request; a client that goes away cancels the call, and the agent
 * undoes what it can. What flows is held back by the slower side, in both directions: the job keeps
 * no more than one stretch of input.
 */
#include "http/server.h"
#include "sandbox/fileops/file_call.h"

struct file_job {
	struct http_req *req;   /* its http_state() is this */
	struct file_call *call; /* NULL: it has ended */
	struct buf out;         /* a reply or record being written */
	struct buf held;        /* input that the agent had no room for */
	bool is_input_whole;
	bool is_begun;   /* the reply's head is sent */
	int64_t left;    /* bytes of a read that are still to come, -1 = not known */
	uint64_t offset; /* of a read */
	int status;      /* of the reply */
	unsigned format; /* enum event_format, of a watch */
	struct loop_timer *keepalive;
};

/* Starts the operation in a sandbox that was found. */
must_check int file_job_start_in(struct http_req *req, struct sandbox *s, const struct start *op,
                                 const struct file_call_ops *ops, struct file_job **ret,
                                 struct err *err);
/* Finds the sandbox and starts the operation. */
must_check int file_job_start(struct http_req *req, const struct start *op,
                              const struct file_call_ops *ops, struct file_job **ret,
                              struct err *err);
/* Streams the request's body into the call. Its ops must have file_job_on_room(). */
void file_job_take_body(struct file_job *job);
void file_job_on_room(void *arg);
/* Sends output on, and holds back the guest while the client is slow. */
void file_job_send(struct file_job *job, const void *data, size_t len);
/* The on_end() of a call whose records became one JSON reply in job->out. */
void file_job_on_end(const struct err *err, void *arg);
/* For other on_end()s: the error, told as well as it still can be. */
void file_job_fail(struct file_job *job, const struct err *err);

/* What all file routes take in their query: `path` and `user`. */
must_check int file_query(const struct http_req *req, struct start *op, struct err *err);
struct file_flag {
	const char *name;
	uint32_t flag;
};
must_check int file_query_flags(const struct http_req *req, const struct file_flag *flags, size_t n,
                                struct start *op, struct err *err);

/* {path, name, type, size, …} */
void file_entry_to_json(const struct record *r, struct json_writer *w, const char *name);
extern const struct file_call_ops file_read_ops;  /* answers with the file's bytes */
extern const struct file_call_ops file_entry_ops; /* answers with the entry that the call told */
const char *file_type_name(uint32_t mode);
/* Content-Disposition and what keeps a browser from making a page of a sandbox's bytes. */
void file_reply_headers(struct http_req *req, const char *path, const char *suffix);
