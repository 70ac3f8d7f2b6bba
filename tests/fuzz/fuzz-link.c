// SPDX-License-Identifier: Apache-2.0
/*
 * What an agent sends, into the host's end of the link. The first byte says how far the link is
 * when the rest arrives: 0, the greeting; else up, with three channels open that have each sent
 * some input. Epochs are the host's secret of the moment: they are written into the frames here, so
 * that inputs reach what lies behind that check (unless the first byte is odd).
 */
#include "base/fd.h"
#include "proto/pack.h"
#include "sandbox/agentlink/link_private.h"

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <sys/socket.h>

#define CHANNELS  3
#define INPUT_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct owner {
	struct channel channel;
	uint64_t bytes;
	bool has_exited, is_over;
};

static struct loop *loop;

static int on_output(struct channel *ch, enum frame_stream stream, const char *data, size_t len)
{
	struct owner *o = container_of(ch, struct owner, channel);
	unsigned char sum = 0;

	assert(!o->is_over && len > 0 && len <= FRAME_DATA_MAX);
	for (size_t i = 0; i < len; i++)
		sum ^= (unsigned char)data[i];
	o->bytes += len;
	assert(o->bytes == ch->received);
	if (stream == STREAM_RECORD && sum == 0)
		return 0; /* held back, as for a caller that is paused */
	channel_kept(ch, len);
	return 0;
}

static void on_gap(struct channel *ch, uint64_t len)
{
	container_of(ch, struct owner, channel)->bytes += len;
}

static void on_exit_frame(struct channel *ch, const struct channel_exit *x)
{
	struct owner *o = container_of(ch, struct owner, channel);

	assert(!o->has_exited && x->output_end <= o->bytes);
	o->has_exited = true;
}

static void on_closed(struct channel *ch)
{
	struct owner *o = container_of(ch, struct owner, channel);

	assert(o->has_exited && !o->is_over);
	o->is_over = true;
	channel_forget(ch);
}

static void on_lost(struct channel *ch, const struct err *why)
{
	struct owner *o = container_of(ch, struct owner, channel);

	assert(!o->is_over && why->code != ERR_NONE);
	o->is_over = true;
}

static const struct channel_ops channel_ops = {
	.on_output = on_output,
	.on_gap = on_gap,
	.on_exit = on_exit_frame,
	.on_closed = on_closed,
	.on_lost = on_lost,
};

static void on_up(void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void on_down(const struct err *why, bool is_hostile, void *arg)
{
	(void)is_hostile;
	(void)arg;
	assert(why->message[0] != '\0');
	loop_stop(loop);
}

static void on_health(bool is_healthy, void *arg)
{
	(void)is_healthy;
	(void)arg;
}

static const struct link_ops link_ops = {
	.on_up = on_up,
	.on_down = on_down,
	.on_health = on_health,
};

static void send_welcome(struct link *l, int fd)
{
	static const unsigned char payload[8] = {FRAME_VERSION};
	struct buf out = BUF_INIT(64);

	if (frame_put(&out, FRAME_WELCOME, 0, l->epoch, payload, sizeof(payload)) < 0 ||
	    fd_write_all(fd, out.data, out.len) < 0 || loop_run(loop) < 0)
		abort();
	buf_done(&out);
	assert(link_is_up(l));
}

static void open_channels(struct link *l, struct owner *owners)
{
	char path[] = "/", tag[] = "ex_fuzz";
	struct start start = {.kind = START_FILE, .op = FILE_TAR_IN, .path = path, .tag = tag};

	for (uint32_t i = 0; i < CHANNELS; i++) {
		struct channel *ch = &owners[i].channel;

		if (channel_start(ch, l, i + 1, &channel_ops, &start) < 0 ||
		    channel_write(ch, "input", 5) != 5)
			abort();
	}
}

static void write_epochs(uint8_t *data, size_t size, uint32_t epoch)
{
	epoch = htole32(epoch);
	for (size_t at = 0; size - at >= FRAME_HEAD_SIZE;) {
		uint32_t len;

		memcpy(&len, data + at, sizeof(len));
		memcpy(data + at + 12, &epoch, sizeof(epoch));
		at += FRAME_HEAD_SIZE + MIN((size_t)le32toh(len), size - at - FRAME_HEAD_SIZE);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free uint8_t *bytes = NULL;
	struct owner owners[CHANNELS] = {0};
	struct link *l;
	int pair[2];

	if (size < 1 || size > INPUT_MAX)
		return 0;
	bytes = malloc(size);
	if (!bytes || loop_new(&loop, NULL) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	memcpy(bytes, data, size);
	l = link_new(loop, "fuzz", NULL, &link_ops, NULL);
	link_attach(l, pair[0]);
	if (bytes[0] / 2 != 0) {
		send_welcome(l, pair[1]);
		open_channels(l, owners);
	}
	if (bytes[0] % 2 == 0)
		write_epochs(bytes + 1, size - 1, l->epoch);
	if (fd_write_all(pair[1], bytes + 1, size - 1) < 0 || shutdown(pair[1], SHUT_WR) < 0)
		abort();
	while (l->state != LINK_DOWN)
		if (loop_run(loop) < 0)
			abort();
	link_free(l);
	loop_free(loop);
	(void)close(pair[1]);
	return 0;
}
