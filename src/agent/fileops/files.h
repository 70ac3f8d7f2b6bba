// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * File operations: the child's side. A forked child in the cgroup becomes the user and does one
 * operation with plain system calls, so the kernel decides what that user may do, and whatever the
 * path leads to blocks, or kills, nobody but this child.
 *
 * stdin is the host's INPUT, 1 takes data, 2 takes records. SIGTERM means that the host has lost
 * interest.
 */
#include "agent/agent.h"
#include "agent/archive/result.h"
#include "agent/users/user.h"
#include "proto/start.h"

#include <stdnoreturn.h>
#include <sys/stat.h>

struct file_call {
	const struct start *start;
	struct names *names; /* NULL until a record asks for one */
	uint32_t exit_flags; /* EXIT_TRUNCATED */
	const char *base;    /* of paths that entries have, where they are told whole; NULL = home
	                      */
};

noreturn void files_run(const struct settings *settings, const struct start *s);

/* For the operations. Blocking: the host's window is the brake. */
must_check int files_send_record(const struct record *r, struct err *err);
/* The record of one entry; target is a link's, or NULL. */
must_check int files_send_entry(struct file_call *call, const char *path, const struct stat *st,
                                const char *target, struct err *err);
/* whole.c, with FILE_WHOLE: absolute and without ".", ".." and "//"; the caller's. */
char *whole_path(const char *base, const char *path);
/* Attributes, then the entry. */
must_check int whole_send(struct file_call *call, const char *path, struct record *r,
                          struct err *err);
/* Puts path2's attributes on an open file, and takes others of the prefix away. */
must_check int whole_set_attributes(const struct start *s, int fd, struct err *err);
/* A regular file, or -ENOENT and other errors. */
must_check int files_open(const char *path, int *ret_fd, struct stat *ret_st, struct err *err);
/* To its end; -EFBIG: there is more than fits. */
must_check int files_read_all(int fd, struct buf *into);
/* A whole file, as op_write() writes it; of *s only path, flags and mode count. */
must_check int files_put(const struct start *s, const void *data, size_t len, struct err *err);
/* Removes the first block from its first line to its last; false: there is none. */
bool files_drop_block(struct buf *b, const char *begin, const char *end);
uint64_t files_mtime_us(const struct stat *st); /* as entries tell it; 0 before 1970 */

/* Each is one enum file_op. */
int op_read(struct file_call *call, struct err *err);
int op_write(struct file_call *call, struct err *err);
int op_list(struct file_call *call, struct err *err);
int op_move(struct file_call *call, struct err *err);
int op_copy(struct file_call *call, struct err *err);
int op_remove(struct file_call *call, struct err *err);
int op_tar_out(struct file_call *call, struct err *err);
int op_tar_in(struct file_call *call, struct err *err);
int op_watch(struct file_call *call, struct err *err);
int op_trust(struct file_call *call, struct err *err);
int op_image_in(struct file_call *call, struct err *err);
int op_image_out(struct file_call *call, struct err *err);
int op_dial(struct file_call *call, struct err *err);
int op_compare(struct file_call *call, struct err *err);
int op_bundle_out(struct file_call *call, struct err *err);
int op_bundle_in(struct file_call *call, struct err *err);
int op_user(struct file_call *call, struct err *err);
int op_signer(struct file_call *call, struct err *err);
