// SPDX-License-Identifier: Apache-2.0
#include "fake-guest.h"

#include "base/fd.h"
#include "proto/pack.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define TURN_US 200

static void stop_turn(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

void fake_turn(struct fake_broker *b)
{
	loop_timer_set_in(b->timer, TURN_US);
	if (loop_run(b->loop) < 0)
		abort();
}

static void send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			abort(); /* a test that floods does it in steps */
		if (n < 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

void fake_agent_raw(struct fake_agent *a, const void *data, size_t len)
{
	if (a->fd >= 0)
		send_all(a->fd, data, len);
}

void fake_agent_send(struct fake_agent *a, enum frame_type type, uint32_t channel,
                     const void *payload, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1 << 20);

	if (frame_put(&out, type, channel, a->epoch, payload, len) < 0)
		abort();
	fake_agent_raw(a, out.data, out.len);
}

void fake_agent_hang_up(struct fake_agent *a)
{
	loop_io_removep(&a->io);
	if (a->fd >= 0)
		(void)close(take_fd(&a->fd));
	buf_done(&a->in);
}

struct fake_channel *fake_channel_last(struct fake_agent *a)
{
	return list_empty(&a->channels) ? NULL
	                                : list_entry(a->channels.prev, struct fake_channel, link);
}

static struct fake_channel *find_channel(struct fake_agent *a, uint32_t number)
{
	list_for_each (&a->channels, struct fake_channel, ch, link)
		if (ch->number == number && !ch->is_forgotten)
			return ch;
	return NULL;
}

static void send_u64(struct fake_agent *a, enum frame_type type, uint32_t channel, uint64_t value)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(8);
	struct pack p = {.out = &payload};

	pack_u64(&p, value);
	fake_agent_send(a, type, channel, payload.data, payload.len);
}

void fake_started(struct fake_agent *a, struct fake_channel *ch)
{
	static const unsigned char pid[4] = {42};

	ch->has_started = true;
	fake_agent_send(a, FRAME_STARTED, ch->number, pid, sizeof(pid));
}

static void send_output(struct fake_agent *a, struct fake_channel *ch)
{
	while (ch->sent < ch->output.len) {
		auto_call(buf_done) struct buf payload = BUF_INIT(FRAME_PAYLOAD_MAX);
		struct pack p = {.out = &payload};
		size_t n = 1;

		while (ch->sent + n < ch->output.len && n < FRAME_DATA_MAX &&
		       ch->streams[ch->sent + n] == ch->streams[ch->sent])
			n++;
		pack_u64(&p, ch->sent);
		pack_u8(&p, ch->streams[ch->sent]);
		if (buf_append(&payload, ch->output.data + ch->sent, n) < 0)
			abort();
		fake_agent_send(a, FRAME_OUTPUT, ch->number, payload.data, payload.len);
		ch->sent += n;
	}
}

void fake_output(struct fake_agent *a, struct fake_channel *ch, enum frame_stream stream,
                 const void *data, size_t len)
{
	assert(ch->output.len + len <= sizeof(ch->streams));
	memset(ch->streams + ch->output.len, (int)stream, len);
	if (buf_append(&ch->output, data, len) < 0)
		abort();
	if (a->fd >= 0)
		send_output(a, ch);
}

static void send_exit(struct fake_agent *a, struct fake_channel *ch)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(1024);

	if (channel_exit_encode(&ch->exit, &payload) < 0)
		abort();
	fake_agent_send(a, FRAME_EXIT, ch->number, payload.data, payload.len);
}

void fake_exit(struct fake_agent *a, struct fake_channel *ch, enum exit_how how, uint32_t value)
{
	ch->has_exit = true;
	ch->exit.how = how;
	ch->exit.value = value;
	ch->exit.wall_us = 1234;
	ch->exit.output_end = ch->output.len;
	if (how == EXIT_FAILED && ch->exit.message[0] == '\0')
		(void)snprintf(ch->exit.message, sizeof(ch->exit.message), "cannot run it");
	send_exit(a, ch);
}

void fake_closed(struct fake_agent *a, struct fake_channel *ch)
{
	ch->is_closed = true;
	fake_agent_send(a, FRAME_CLOSED, ch->number, NULL, 0);
}

void fake_take_input(struct fake_agent *a, struct fake_channel *ch)
{
	send_u64(a, FRAME_INPUT_ACK, ch->number, ch->input.len);
}

static void send_welcome(struct fake_agent *a)
{
	auto_call(buf_done) struct buf payload = BUF_INIT(FRAME_PAYLOAD_MAX);
	struct pack p = {.out = &payload};
	uint32_t count = 0;

	list_for_each (&a->channels, struct fake_channel, ch, link)
		count += !ch->is_forgotten;
	pack_u32(&p, a->hello == HELLO_WRONG_VERSION ? 77 : FRAME_VERSION);
	pack_u32(&p, count + (a->hello == HELLO_LYING_LIST || a->hello == HELLO_CUT_LIST));
	list_for_each (&a->channels, struct fake_channel, ch, link) {
		if (ch->is_forgotten)
			continue;
		pack_u32(&p, ch->number);
		pack_str(&p, ch->start.tag);
		pack_u8(&p, CHANNEL_RUNNING);
		pack_u64(&p, ch->acked);
		pack_u64(&p, ch->output.len);
		ch->sent = UINT64_MAX; /* until it is resumed */
	}
	if (a->hello == HELLO_LYING_LIST) {
		pack_u32(&p, 4000000);
		pack_str(&p, "ex_nobody");
		pack_u8(&p, CHANNEL_RUNNING);
		pack_u64(&p, 0);
		pack_u64(&p, 0);
	}
	fake_agent_send(a, FRAME_WELCOME, 0, payload.data, payload.len);
}

static void on_hello(struct fake_agent *a, const struct frame *f)
{
	static const char garbage[] = "HTTP/1.1 200 OK\r\nnot a frame at all\r\n\r\n";

	a->epoch = f->epoch;
	a->hellos++;
	switch (a->hello) {
	case HELLO_SILENT:
		return;
	case HELLO_GARBAGE:
		fake_agent_raw(a, garbage, sizeof(garbage));
		return;
	case HELLO_HANG_UP:
		fake_agent_hang_up(a);
		return;
	case HELLO_WELCOME:
	case HELLO_WRONG_VERSION:
	case HELLO_LYING_LIST:
	case HELLO_CUT_LIST:
	case HELLO_THEN_DEAF:
		send_welcome(a);
		a->is_deaf = a->hello == HELLO_THEN_DEAF;
		return;
	}
}

static void on_start(struct fake_agent *a, const struct frame *f)
{
	struct fake_channel *ch = xnew0(struct fake_channel);

	ch->number = f->channel;
	if (start_decode(f->payload, f->len, &ch->start) < 0)
		abort();
	buf_init(&ch->output, sizeof(ch->streams));
	buf_init(&ch->input, 8 << 20);
	list_append(&a->channels, &ch->link);
}

static void on_resume(struct fake_agent *a, struct fake_channel *ch, uint64_t from)
{
	assert(from >= ch->acked && from <= ch->output.len);
	ch->acked = ch->sent = from;
	if (ch->has_started)
		fake_started(a, ch);
	send_u64(a, FRAME_INPUT_ACK, ch->number, ch->input.len);
	send_output(a, ch);
	if (ch->has_exit)
		send_exit(a, ch);
	if (ch->is_closed)
		fake_closed(a, ch);
}

static void on_frame(struct fake_agent *a, const struct frame *f)
{
	struct unpack u = {.data = f->payload, .len = f->len};
	struct fake_channel *ch = find_channel(a, f->channel);

	switch ((int)f->type) {
	case FRAME_HELLO:
		on_hello(a, f);
		return;
	case FRAME_START:
		on_start(a, f);
		return;
	case FRAME_PING:
		a->pings++;
		if (!a->is_mute)
			fake_agent_send(a, FRAME_PONG, 0, f->payload, f->len);
		return;
	}
	if (!ch)
		return;
	switch ((int)f->type) {
	case FRAME_INPUT:
		if (buf_append(&ch->input, f->payload, f->len) < 0)
			abort();
		return;
	case FRAME_INPUT_END:
		ch->is_input_ended = true;
		return;
	case FRAME_ACK:
		ch->acked = unpack_u64(&u);
		return;
	case FRAME_SIGNAL:
		ch->signals++;
		ch->last_signal = unpack_u8(&u);
		ch->last_scope = unpack_u8(&u);
		return;
	case FRAME_RESUME:
		on_resume(a, ch, unpack_u64(&u));
		return;
	case FRAME_FORGET:
		ch->is_forgotten = true;
		return;
	}
}

static void agent_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct fake_agent *a = arg;
	struct frame f;
	char *room;
	ssize_t n;

	(void)loop;
	(void)events;
	if (a->is_deaf) {
		loop_io_set(a->io, 0);
		return;
	}
	if (buf_reserve(&a->in, 65536, &room) < 0)
		abort();
	n = recv(a->fd, room, 65536, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		fake_agent_hang_up(a);
		return;
	}
	buf_commit(&a->in, (size_t)n);
	while (a->fd >= 0 && frame_get(&a->in, FRAME_FROM_HOST, &f) == 1) {
		on_frame(a, &f);
		if (a->fd >= 0)
			frame_consume(&a->in, &f);
	}
}

static int agent_connect(struct fake_broker *b, struct fake_agent *a)
{
	int pair[2];

	fake_agent_hang_up(a);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	a->fd = pair[0];
	a->is_deaf &= a->hello != HELLO_THEN_DEAF;
	if (loop_io_add(b->loop, a->fd, EPOLLIN, agent_on_io, a, &a->io) < 0)
		abort();
	return pair[1];
}

struct fake_agent *fake_agent_new(struct fake_broker *b, const char *id)
{
	struct fake_agent *a = xnew0(struct fake_agent);

	(void)snprintf(a->id, sizeof(a->id), "%s", id);
	a->fd = -1;
	a->hello = b->next_hello;
	buf_init(&a->in, 4 << 20);
	list_init(&a->channels);
	list_append(&b->agents, &a->link);
	return a;
}

static void free_agent(struct loop *loop, void *arg)
{
	struct fake_agent *a = arg;

	(void)loop;
	list_for_each (&a->channels, struct fake_channel, ch, link) {
		start_done(&ch->start);
		buf_done(&ch->output);
		buf_done(&ch->input);
		free(ch);
	}
	free(a);
}

static void agent_free(struct fake_broker *b, struct fake_agent *a)
{
	fake_agent_hang_up(a);
	list_remove(&a->link);
	loop_defer(b->loop, free_agent, a);
}

struct fake_agent *fake_agent_find(struct fake_broker *b, const char *id)
{
	list_for_each (&b->agents, struct fake_agent, a, link)
		if (strcmp(a->id, id) == 0)
			return a;
	return NULL;
}

struct fake_agent *fake_agent_only(struct fake_broker *b)
{
	return list_first(&b->agents, struct fake_agent, link);
}

static void reply(struct fake_broker *b, struct msg_reply *r, int fd)
{
	ssize_t sent;

	r->magic = MSG_MAGIC;
	sent = fd_send(b->fd, r, sizeof(*r), &fd, fd >= 0);
	if (sent < 0 && sent != -EPIPE && sent != -ECONNRESET) /* the gateway may have gone */
		abort();
	if (fd >= 0)
		(void)close(fd);
}

static const struct isolation fake_isolation = {
	.engine = 1,
	.grade = GRADE_PROCESS,
	.walls = BIT(WALL_USER_NS) | BIT(WALL_SECCOMP),
	.gaps = BIT(WALL_DISK_LIMIT),
};

static bool drop_kept(struct fake_broker *b, const char *id)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->kept); i++)
		if (b->kept[i].keeper && strcmp(b->kept[i].id, id) == 0) {
			b->kept[i].keeper = 0;
			return true;
		}
	return false;
}

static void keep(struct fake_broker *b, const struct fake_agent *a)
{
	size_t i = 0;

	if (a->keeper == 0)
		return;
	while (b->kept[i].keeper)
		assert(++i < ARRAY_SIZE(b->kept));
	b->kept[i].keeper = a->keeper;
	memcpy(b->kept[i].id, a->id, sizeof(b->kept[i].id));
}

size_t fake_kept(const struct fake_broker *b)
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(b->kept); i++)
		n += b->kept[i].keeper != 0;
	return n;
}

void fake_broker_reboot(struct fake_broker *b)
{
	list_for_each (&b->agents, struct fake_agent, a, link) {
		keep(b, a);
		agent_free(b, a);
	}
}

static void do_create(struct fake_broker *b, const struct msg_request *req, struct msg_reply *r)
{
	struct fake_agent *a;

	if (b->create == CREATE_HELD) {
		b->held_create = *req;
		return;
	}
	b->creates++;
	b->limits = req->create.limits;
	b->was_resumed = req->create.is_resumed;
	b->n_ahead += req->create.is_ahead;
	if (b->create == CREATE_UNANSWERED)
		return;
	if (b->create == CREATE_REFUSED) {
		(void)err_set(&r->err, ERR_CAPACITY, 0, "the host is full");
		reply(b, r, -1);
		return;
	}
	if (req->create.is_resumed && !drop_kept(b, req->id)) {
		(void)err_set(&r->err, ERR_NOT_FOUND, 0, "no files were kept");
		reply(b, r, -1);
		return;
	}
	a = fake_agent_new(b, req->id);
	a->keeper = req->create.keeper;
	r->isolation = fake_isolation;
	reply(b, r, agent_connect(b, a));
}

void fake_broker_start_held(struct fake_broker *b)
{
	struct msg_reply r = {.op = b->held_create.op, .tag = b->held_create.tag};

	memcpy(r.id, b->held_create.id, sizeof(r.id));
	b->create = CREATE_WELL;
	do_create(b, &b->held_create, &r);
}

static void do_delete(struct fake_broker *b, const struct msg_request *req, struct msg_reply *r)
{
	struct fake_agent *a = fake_agent_find(b, req->id);

	b->deletes++;
	b->stops += req->op == MSG_STOP;
	if (b->holds_deletes) {
		b->held_tag = req->tag;
		b->held_op = req->op;
		memcpy(b->held_id, req->id, sizeof(b->held_id));
		return;
	}
	if (a)
		keep(b, a);
	if (a)
		agent_free(b, a);
	if (req->op == MSG_DELETE)
		(void)drop_kept(b, req->id);
	reply(b, r, -1);
}

void fake_broker_release(struct fake_broker *b)
{
	struct msg_request req = {.op = b->held_op, .tag = b->held_tag};
	struct msg_reply r = {.op = b->held_op, .tag = b->held_tag};

	memcpy(req.id, b->held_id, sizeof(req.id));
	memcpy(r.id, b->held_id, sizeof(r.id));
	b->holds_deletes = false;
	do_delete(b, &req, &r);
}

static void do_list(struct fake_broker *b, struct msg_reply *r)
{
	list_for_each (&b->agents, struct fake_agent, a, link) {
		memcpy(r->id, a->id, sizeof(r->id));
		r->list.isolation = fake_isolation;
		r->list.is_alive = 1;
		r->list.keeper = a->keeper;
		reply(b, r, -1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(b->kept); i++) {
		if (b->kept[i].keeper == 0)
			continue;
		memcpy(r->id, b->kept[i].id, sizeof(r->id));
		r->list.is_alive = 0;
		r->list.keeper = b->kept[i].keeper;
		reply(b, r, -1);
	}
	r->id[0] = '\0';
	reply(b, r, -1);
}

static void do_connect(struct fake_broker *b, const struct msg_request *req, struct msg_reply *r)
{
	struct fake_agent *a = fake_agent_find(b, req->id);

	b->connects++;
	if (!a || b->refuses_connect) {
		(void)err_set(&r->err, ERR_NOT_FOUND, 0, "no such sandbox");
		reply(b, r, -1);
		return;
	}
	reply(b, r, agent_connect(b, a));
}

static struct image_info *find_image(struct fake_broker *b, const struct digest *digest)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->images); i++)
		if (digest_equal(&b->images[i].digest, digest))
			return &b->images[i];
	return NULL;
}

static void add_image(struct fake_broker *b, const struct digest *digest, uint64_t bytes)
{
	static const struct digest none;
	struct image_info *i = find_image(b, digest);

	if (!i)
		i = find_image(b, &none);
	assert(i);
	*i = (struct image_info){.digest = *digest, .bytes = bytes, .keeper = b->seal_keeper};
}

void fake_broker_seal(struct fake_broker *b, const struct digest *image, uint64_t bytes,
                      const struct err *err)
{
	struct msg_reply r = {.op = MSG_SEAL, .tag = b->seal_tag};

	assert(b->seal_tag);
	if (err)
		r.err = *err;
	else
		r.seal = (struct image_build_result){.image = *image, .bytes = bytes};
	if (err || !digest_is_zero(image))
		b->seal_tag = 0;
	if (!digest_is_zero(image))
		add_image(b, image, bytes);
	reply(b, &r, -1);
}

static void cancel_seal(struct fake_broker *b)
{
	static const struct digest none;
	struct err err;

	(void)err_set(&err, ERR_CONFLICT, 0, "the seal was cancelled");
	fake_broker_seal(b, &none, 0, &err);
}

static void do_images(struct fake_broker *b, struct msg_reply *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->images); i++) {
		r->image = b->images[i];
		if (!digest_is_zero(&r->image.digest))
			reply(b, r, -1);
	}
	r->image = (struct image_info){0};
	reply(b, r, -1);
}

static void do_image_remove(struct fake_broker *b, const struct msg_request *req,
                            struct msg_reply *r)
{
	struct image_info *i = find_image(b, &req->image);

	b->image_removes++;
	if (b->holds_image_removes)
		return;
	if (i)
		*i = (struct image_info){0};
	reply(b, r, -1);
}

static void broker_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct fake_broker *b = arg;
	struct msg_request req;
	struct msg_reply r = {0};
	int fds[FD_PASS_MAX];
	size_t n_fds;
	ssize_t n = fd_recv(b->fd, &req, sizeof(req), fds, &n_fds);

	(void)loop;
	(void)events;
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		fake_broker_die(b);
		return;
	}
	assert(n == (ssize_t)sizeof(req) && req.magic == MSG_MAGIC && n_fds == 0);
	r.op = req.op;
	r.tag = req.tag;
	memcpy(r.id, req.id, sizeof(r.id));
	switch ((int)req.op) {
	case MSG_CREATE:
		do_create(b, &req, &r);
		return;
	case MSG_DELETE:
	case MSG_STOP:
		do_delete(b, &req, &r);
		return;
	case MSG_FREEZE:
	case MSG_THAW:
		b->freezes++;
		if (b->ignores_freeze)
			return;
		if (b->refuses_freeze)
			(void)err_set(&r.err, ERR_UNSUPPORTED, 0, "no freezer");
		else
			b->is_frozen = req.op == MSG_FREEZE;
		break;
	case MSG_LIST:
		do_list(b, &r);
		return;
	case MSG_CONNECT:
		do_connect(b, &req, &r);
		return;
	case MSG_SEAL:
		b->seal_tag = req.tag;
		b->seal_keeper = req.seal.spec.keeper;
		return;
	case MSG_SEAL_CANCEL:
		assert(req.seal_tag == b->seal_tag);
		cancel_seal(b);
		break;
	case MSG_IMAGES:
		do_images(b, &r);
		return;
	case MSG_IMAGE_REMOVE:
		do_image_remove(b, &req, &r);
		return;
	case MSG_PROBE:
		r.probe.engines[0].isolation = fake_isolation;
		(void)err_set(&r.probe.engines[1].err, ERR_UNSUPPORTED, 0, "there are none here");
		r.probe.cpus = 2;
		r.probe.memory_bytes = UINT64_C(1) << 30;
		break;
	case MSG_LIMITS:
		b->limits = req.limits;
		break;
	case MSG_USAGE:
		r.usage.oom_kills = b->oom_kills;
		r.usage.pids_refused = b->pids_refused;
		r.usage.disk_bytes = b->disk_bytes;
		r.usage.left_bytes = b->left_bytes;
		r.usage.is_left_told = b->left_bytes > 0;
		r.usage.memory_bytes = b->memory_bytes;
		break;
	case MSG_FORK:
		b->forks++;
		if (b->ignores_fork)
			return;
		if (b->refuses_fork)
			(void)err_set(&r.err, ERR_UNAVAILABLE, 0, "no zygote");
		break;
	}
	reply(b, &r, -1);
}

void fake_broker_end(struct fake_broker *b, const char *id, int wait_status)
{
	struct msg_reply r = {.op = MSG_ENDED};

	(void)snprintf(r.id, sizeof(r.id), "%s", id);
	r.ended.wait_status = wait_status;
	reply(b, &r, -1);
}

void fake_broker_init(struct fake_broker *b, struct loop *loop)
{
	*b = (struct fake_broker){.loop = loop, .fd = -1};
	b->timer = loop_timer_new(loop, stop_turn, NULL);
	list_init(&b->agents);
}

void fake_broker_die(struct fake_broker *b)
{
	loop_io_removep(&b->io);
	if (b->fd >= 0)
		(void)close(take_fd(&b->fd));
}

int fake_broker_socket(struct fake_broker *b)
{
	int pair[2];

	fake_broker_die(b);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		abort();
	b->fd = pair[0];
	if (loop_io_add(b->loop, b->fd, EPOLLIN, broker_on_io, b, &b->io) < 0)
		abort();
	return pair[1];
}

void fake_broker_done(struct fake_broker *b)
{
	list_for_each (&b->agents, struct fake_agent, a, link)
		agent_free(b, a);
	fake_broker_die(b);
	loop_timer_free(b->timer);
}
