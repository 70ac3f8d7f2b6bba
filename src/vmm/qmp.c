// SPDX-License-Identifier: Apache-2.0
/*
 * A command is sent only after the reply to the one before: else its descriptor could replace one
 * that QEMU has not fetched yet.
 */
#include "vmm/qmp.h"

#include "base/fd.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static bool begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

/* Reads QEMU's error message for a refused command: text in quotes. */
static void read_error(const char *line, struct err *err)
{
	static const char key[] = "\"desc\": \"";
	const char *text = strstr(line, key);

	text = text ? text + sizeof(key) - 1 : "no reason";
	(void)err_set(err, ERR_INTERNAL, 0, "QEMU: %.*s", (int)MIN(strcspn(text, "\""), 200UL),
	              text);
}

static void drop_first(struct qmp *q)
{
	if (q->queue[q->first].fd >= 0)
		(void)close(take_fd(&q->queue[q->first].fd));
	q->first = (q->first + 1) % QMP_QUEUE_MAX;
	q->n--;
}

static void finish(struct qmp *q, const struct err *err);

static void send_first(struct qmp *q)
{
	struct qmp_command *c = &q->queue[q->first];
	const size_t len = strlen(c->text);
	struct err err;

	if (q->n == 0 || fd_send(q->fd, c->text, len, &c->fd, c->fd >= 0 ? 1 : 0) == (ssize_t)len)
		return;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "QEMU takes no commands");
	finish(q, &err);
}

/* The callback may send more. */
static void finish(struct qmp *q, const struct err *err)
{
	const qmp_fn fn = q->queue[q->first].fn;
	void *const arg = q->queue[q->first].arg;

	drop_first(q);
	send_first(q);
	if (fn)
		fn(err, arg);
}

static void on_line(struct qmp *q)
{
	struct err err;

	if (begins(q->line, "{\"return\"") && q->n > 0) {
		finish(q, NULL);
	} else if (begins(q->line, "{\"error\"") && q->n > 0) {
		read_error(q->line, &err);
		finish(q, &err);
	} else {
		q->on_event(q->line, q->arg);
	}
}

static void take(struct qmp *q, char c)
{
	if (c == '\n') {
		q->line[q->len] = '\0';
		q->len = 0;
		q->is_cut = false;
		on_line(q);
	} else if (q->len < sizeof(q->line) - 1 && !q->is_cut) {
		q->line[q->len++] = c ? c : ' ';
	} else {
		q->is_cut = true;
	}
}

void qmp_read(struct qmp *q)
{
	char bytes[1024];
	ssize_t n = read(q->fd, bytes, sizeof(bytes));

	for (ssize_t i = 0; i < n; i++)
		take(q, bytes[i]);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		loop_io_removep(&q->io);
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	(void)loop;
	(void)events;
	qmp_read(arg);
}

int qmp_send(struct qmp *q, int fd, qmp_fn fn, void *arg, struct err *err, const char *fmt, ...)
{
	struct qmp_command *c = &q->queue[(q->first + q->n) % QMP_QUEUE_MAX];
	va_list args;
	int len;

	if (q->n == QMP_QUEUE_MAX) {
		if (fd >= 0)
			(void)close(fd);
		return err_set(err, ERR_LIMIT, 0, "QEMU has too many commands to do");
	}
	*c = (struct qmp_command){.fd = fd, .fn = fn, .arg = arg};
	va_start(args, fmt);
	len = vsnprintf(c->text, sizeof(c->text) - 1, fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(c->text) - 1)
		abort(); /* all of them are ours */
	memcpy(c->text + len, "\n", 2);
	if (++q->n == 1)
		send_first(q);
	return 0;
}

int qmp_open(struct qmp *q, struct loop *loop, int fd,
             void (*on_event)(const char *line, void *arg), void *arg, struct err *err)
{
	int r;

	*q = (struct qmp){.fd = fd, .on_event = on_event, .arg = arg};
	r = loop_io_add(loop, fd, EPOLLIN, on_io, q, &q->io);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch QEMU");
	/* Without this command QEMU accepts no others and sends no events. */
	return qmp_send(q, -1, NULL, NULL, err, "{\"execute\":\"qmp_capabilities\"}");
}
