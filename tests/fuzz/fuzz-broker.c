// SPDX-License-Identifier: Apache-2.0
/*
 * A hostile gateway. The input is a script of steps: raw messages, requests that are right but for
 * what the script spoils, guests that die, answers that are held back. Whatever it does, every
 * message gets exactly one last reply, and the cap on sandboxes holds.
 */
#include "base/fd.h"
#include "base/log.h"
#include "broker/broker_private.h"
#include "fake-engine.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OPS           (MSG_GATEWAY_KEY + 2) /* and one that is none */
#define STEPS_MAX     64                    /* few enough for the socket's buffer */
#define SANDBOXES_MAX 3

enum step { STEP_RAW, STEP_REQUEST, STEP_TURN, STEP_END_GUEST, STEP_HOLD, STEP_FAIL, STEP_COUNT };

static const char *const ids[] = {
	"sb_aaaaaaaaaaaaaaaaaaaaaaaaaa",
	"sb_bbbbbbbbbbbbbbbbbbbbbbbbbb",
	"sb_cccccccccccccccccccccccccc",
	"sb_dddddddddddddddddddddddddd",
};

static const char *const volume_ids[] = {
	"vo_aaaaaaaaaaaaaaaaaaaaaaaaaa",
	"vo_bbbbbbbbbbbbbbbbbbbbbbbbbb",
};

struct script {
	const uint8_t *data;
	size_t size;
};

static struct loop *loop;
static struct loop_timer *tick;
static int gateway_fd;
static size_t n_sent, n_answered;

static uint8_t take(struct script *s)
{
	if (s->size == 0)
		return 0;
	s->size--;
	return *s->data++;
}

static void on_tick(struct loop *l, void *arg)
{
	(void)arg;
	loop_stop(l);
}

static void on_over(struct loop *l, void *arg)
{
	(void)l;
	(void)arg;
}

/* A list has rows before its last reply. */
static bool is_row(const struct msg_reply *reply)
{
	return (reply->op == MSG_LIST || reply->op == MSG_VOLUMES) && reply->id[0];
}

/* A guest's end answers nothing. */
static void read_replies(void)
{
	struct msg_reply reply;
	int fds[FD_PASS_MAX];
	size_t n_fds;

	while (fd_recv(gateway_fd, &reply, sizeof(reply), fds, &n_fds) > 0) {
		for (size_t i = 0; i < n_fds; i++)
			(void)close(fds[i]);
		assert(reply.magic == MSG_MAGIC);
		assert(reply.err.code < ERR_CODE_COUNT);
		if (reply.err.code == ERR_NONE && (is_row(&reply) || reply.op == MSG_ENDED))
			continue;
		n_answered++;
	}
}

static void turn(void)
{
	loop_timer_set_in(tick, 0);
	(void)!loop_run(loop);
	read_replies();
}

static void send_bytes(const void *bytes, size_t len)
{
	if (fd_send(gateway_fd, bytes, len, NULL, 0) == (ssize_t)len)
		n_sent++;
}

static void send_raw(struct script *s)
{
	size_t len = (size_t)take(s) * 4 + 1;

	len = MIN(len, s->size);
	if (len == 0)
		return;
	send_bytes(s->data, len);
	s->data += len;
	s->size -= len;
}

/* What a request brings besides its id, right in all. */
static void fill(struct msg_request *req, const char *volume, bool has_volume)
{
	static const struct guest_limits limits = {
		UINT64_C(64) << 20, UINT64_C(64) << 20, 1000, 1000, 10, 64, 0};
	struct guest_volume *place = &req->create.volumes[0];

	switch (req->op) {
	case MSG_CREATE:
		(void)snprintf(req->create.hostname, sizeof(req->create.hostname), "box");
		req->create.engine = ENGINE_BASE;
		req->create.limits = limits;
		if (has_volume) {
			(void)snprintf(place->id, sizeof(place->id), "%s", volume);
			(void)snprintf(place->path, sizeof(place->path), "/data");
		}
		break;
	case MSG_VOLUME:
	case MSG_VOLUME_REMOVE:
		(void)snprintf(req->volume.id, sizeof(req->volume.id), "%s", volume);
		req->volume.keeper = 7;
		req->volume.bytes = UINT64_C(64) << 20;
		break;
	case MSG_VOLUME_COPY:
		(void)snprintf(req->volume_copy.made.id, sizeof(req->volume_copy.made.id), "%s",
		               volume);
		(void)snprintf(req->volume_copy.source, sizeof(req->volume_copy.source), "%s",
		               volume_ids[0]);
		req->volume_copy.made.keeper = 7;
		req->volume_copy.made.bytes = UINT64_C(64) << 20;
		break;
	case MSG_IMAGE_SHARE:
	case MSG_IMAGE_FETCH:
	case MSG_IMAGE_TAKE:
	case MSG_IMAGE_DROP:
		req->claim = (struct image_claim){
			.image = {{1}}, .class = {{2}}, .bytes = 4096, .keeper = 7};
		break;
	case MSG_SEALED_OPEN:
	case MSG_SEALED_CLOSE:
	case MSG_SEALED_DROP:
		req->sealed = (struct sealed_file_spec){.number = 1, .class = {{2}}, .bytes = 4096};
		break;
	case MSG_OWNER:
		(void)snprintf(req->owner.layer, sizeof(req->owner.layer), "%s", volume);
		req->owner.number = 7;
		req->owner.weight = 100;
		break;
	default:
		req->limits = limits;
		break;
	}
}

static bool is_of_sandbox(uint32_t op)
{
	return op != MSG_PROBE && op != MSG_LIST && (op < MSG_VOLUME || op > MSG_GATEWAY_KEY);
}

/* A good request, into which the script may then write up to 15 bytes wherever it likes. */
static void send_request(struct script *s)
{
	struct msg_request req = {.magic = MSG_MAGIC, .op = take(s) % OPS, .tag = 1};
	size_t at = (size_t)take(s) * 4;
	uint8_t how = take(s);

	if (is_of_sandbox(req.op))
		(void)snprintf(req.id, sizeof(req.id), "%s", ids[take(s) % ARRAY_SIZE(ids)]);
	fill(&req, volume_ids[(how >> 5) % ARRAY_SIZE(volume_ids)], how & 16);
	for (size_t i = 0; i < (how & 15) && at + i < sizeof(req); i++)
		((uint8_t *)&req)[at + i] = take(s);
	send_bytes(&req, sizeof(req));
}

static void run_step(struct script *s)
{
	switch ((enum step)(take(s) % STEP_COUNT)) {
	case STEP_RAW:
		send_raw(s);
		break;
	case STEP_REQUEST:
		send_request(s);
		break;
	case STEP_TURN:
		turn();
		break;
	case STEP_END_GUEST:
		fake_end_guest(ids[take(s) % ARRAY_SIZE(ids)], take(s));
		break;
	case STEP_HOLD:
		fake.holds_starts = take(s) & 1;
		fake.holds_kills = take(s) & 1;
		break;
	case STEP_FAIL:
		fake.fails_start = take(s) & 1;
		fake.fails_started = take(s) & 1;
		break;
	case STEP_COUNT:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script script = {.data = data, .size = size};
	struct broker_config config = {
		.host = {.data_dir = "/", .run_dir = "/nonexistent", .agent_fd = -1},
		.max_limits = {UINT64_C(1) << 30, UINT64_C(1) << 30, 100000, 4000, 1000, 4096, 0},
		.sandboxes_max = SANDBOXES_MAX,
	};
	struct broker *broker;
	int fds[2];

	log_init("fuzz", LOG_ERROR + 1);
	fake_reset();
	n_sent = n_answered = 0;
	if (loop_new(&loop, NULL) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
		abort();
	tick = loop_timer_new(loop, on_tick, NULL);
	gateway_fd = fds[0];
	config.loop = loop;
	config.gateway_fd = fds[1];
	if (broker_new(&config, on_over, NULL, &broker, NULL) < 0)
		abort();

	for (int i = 0; i < STEPS_MAX && script.size > 0; i++) {
		run_step(&script);
		assert(broker->n_boxes <= SANDBOXES_MAX);
	}
	fake_release();
	for (int i = 0; i < STEPS_MAX && n_answered < n_sent; i++)
		turn();
	assert(n_answered == n_sent);

	(void)close(gateway_fd);
	broker_free(broker);
	loop_timer_free(tick);
	loop_free(loop);
	fake_free();
	return 0;
}
