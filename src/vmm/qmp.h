// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * QEMU's control protocol (QMP): commands one after the other, each with its reply, and events in
 * between. Of a reply only the error is read, if it is one. QEMU is not trusted: longer lines are
 * cut.
 */
#include "loop/loop.h"

#define QMP_QUEUE_MAX 16
#define QMP_TEXT_MAX  512

/* err is NULL on success. Not called once QEMU is gone. */
typedef void (*qmp_fn)(const struct err *err, void *arg);

struct qmp_command {
	char text[QMP_TEXT_MAX];
	int fd; /* goes with it, or -1 */
	qmp_fn fn;
	void *arg;
};

struct qmp {
	int fd;
	struct loop_io *io;
	void (*on_event)(const char *line, void *arg);
	void *arg;
	char line[4096];
	size_t len;
	bool is_cut; /* the rest of this line is passed over */
	struct qmp_command queue[QMP_QUEUE_MAX];
	size_t first, n;
};

/* on_event gets each line that is not a reply. The caller owns fd. */
must_check int qmp_open(struct qmp *q, struct loop *loop, int fd,
                        void (*on_event)(const char *line, void *arg), void *arg, struct err *err);
void qmp_read(struct qmp *q); /* reads what has come; also once QEMU has ended */
/* fd is sent along and closed here; -1 for none. fn may be NULL: an error is then ignored. */
must_check int qmp_send(struct qmp *q, int fd, qmp_fn fn, void *arg, struct err *err,
                        const char *fmt, ...) printf_like(6, 7);
