// SPDX-License-Identifier: Apache-2.0
/*
 * What a QEMU that was taken over says to cloche-vmm: as its monitor (bit 0 of the first byte is
 * clear) or as its guest's port. The rest of that byte says in which pieces. Whatever comes, texts
 * end, connections get bytes within bounds, and what was asked for is answered once at most.
 */
#include "vmm/card.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rig {
	struct loop *loop;
	struct qmp qmp;
	struct line line;
	struct card card;
	unsigned n_done;
	bool is_broken;
};

static void on_done(const struct err *err, void *arg)
{
	struct rig *r = arg;

	assert(!err || memchr(err->message, '\0', sizeof(err->message)));
	r->n_done++;
}

static void on_event(const char *line, void *arg)
{
	struct rig *r = arg;

	card_on_event(&r->card, line);
}

static void on_control(enum port_kind kind, const char *text, size_t len, void *arg)
{
	struct rig *r = arg;
	struct port_usage usage;
	struct err err;

	assert(len < PORT_TEXT_MAX);
	if (kind == PORT_USED)
		(void)!port_usage_parse(text, len, &usage, &err);
	if (kind == PORT_READY)
		card_on_ready(&r->card);
	if (kind == PORT_FAILED)
		card_on_failed(&r->card, text, len);
}

static void on_broken(void *arg)
{
	((struct rig *)arg)->is_broken = true;
}

static void on_stop(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void turn(struct loop *loop)
{
	loop_defer(loop, on_stop, NULL);
	assert(loop_run(loop) == 0);
}

static void drain(int fd)
{
	char bytes[4096];

	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		continue;
}

static void say_all(struct rig *r, int fd, int other_fd, const uint8_t *data, size_t size)
{
	const size_t piece = (size_t)(data[0] >> 1) * 7 + 1;

	for (size_t at = 1; at < size && !r->is_broken; at += piece) {
		(void)!send(fd, data + at, MIN(piece, size - at), MSG_DONTWAIT | MSG_NOSIGNAL);
		turn(r->loop);
		drain(fd);
		drain(other_fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct line_ops ops = {.on_control = on_control, .on_broken = on_broken};
	const int flags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	struct rig r = {0};
	struct err err;
	int qmp[2], port[2];

	if (size == 0)
		return 0;
	assert(loop_new(&r.loop, &err) == 0);
	assert(socketpair(AF_UNIX, flags, 0, qmp) == 0 && socketpair(AF_UNIX, flags, 0, port) == 0);
	assert(qmp_open(&r.qmp, r.loop, qmp[0], on_event, &r, &err) == 0);
	assert(line_open(&r.line, r.loop, port[0], &ops, &r, &err) == 0);
	card_init(&r.card, &r.qmp, &r.line, on_done, &r);
	card_plug(&r.card, dup(qmp[1]), /* has_ip6= */ true);
	if (data[0] & 1)
		say_all(&r, port[1], qmp[1], data, size);
	else
		say_all(&r, qmp[1], port[1], data, size);
	assert(r.n_done <= 1);
	loop_io_removep(&r.qmp.io);
	loop_io_removep(&r.line.port_io);
	for (; r.qmp.n > 0; r.qmp.n--, r.qmp.first = (r.qmp.first + 1) % QMP_QUEUE_MAX)
		if (r.qmp.queue[r.qmp.first].fd >= 0)
			(void)close(r.qmp.queue[r.qmp.first].fd);
	buf_done(&r.line.from_port);
	buf_done(&r.line.to_port);
	buf_done(&r.line.to_fd);
	for (int i = 0; i < 2; i++) {
		(void)close(qmp[i]);
		(void)close(port[i]);
	}
	loop_free(r.loop);
	return 0;
}
