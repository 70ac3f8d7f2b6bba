// SPDX-License-Identifier: Apache-2.0
/*
 * What a wall that was taken over says to the gateway. Each message has two bytes before it: its
 * length in eights, and behind the lowest bit up to seven more. The magic is written in unless that
 * bit is set, so that inputs reach what lies behind it. Whatever comes, each call ends exactly
 * once, ids are of sandboxes and texts end.
 */
#include "wall/client.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define CALLS   3
#define ID      "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SIZE_OF 2 /* bytes before a message */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_ends[CALLS];

static void on_end(int error, const char *certificate, void *arg)
{
	assert(strlen(certificate) < WALL_TEXT_MAX);
	assert(error <= 0 && error >= -4095);
	(*(unsigned *)arg)++;
}

static void on_decision(const struct wall_decision *d, void *arg)
{
	(void)arg;
	assert(id_is_valid(d->head.id, "sb"));
	assert(memchr(d->name, '\0', sizeof(d->name)));
	assert(memchr(d->address, '\0', sizeof(d->address)));
	assert(memchr(d->why, '\0', sizeof(d->why)));
}

static void on_bytes(const char *id, uint64_t in_bytes, uint64_t out_bytes, void *arg)
{
	(void)in_bytes;
	(void)out_bytes;
	(void)arg;
	assert(id_is_valid(id, "sb"));
}

static void on_dial(const struct wall_dial *d, void *arg)
{
	(void)arg;
	assert(id_is_valid(d->head.id, "sb"));
	assert(id_is_valid(d->member, "sb"));
}

static void on_stop(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void run_a_turn(struct loop *loop)
{
	loop_defer(loop, on_stop, NULL);
	assert(loop_run(loop) == 0);
}

static void say_all(struct loop *loop, int fd, const uint8_t *data, size_t size)
{
	static const uint32_t magic = WALL_MAGIC;
	char message[8 * UINT8_MAX + 8];

	while (size >= SIZE_OF) {
		size_t len = MIN((size_t)data[0] * 8 + (data[1] >> 1) % 8, size - SIZE_OF);

		memcpy(message, data + SIZE_OF, len);
		if (data[1] % 2 == 0 && len >= sizeof(magic))
			memcpy(message, &magic, sizeof(magic));
		if (send(fd, message, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			return; /* it was cut off, or has enough */
		run_a_turn(loop);
		data += SIZE_OF + len;
		size -= SIZE_OF + len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct wall_ops ops = {
		.on_decision = on_decision, .on_bytes = on_bytes, .on_dial = on_dial};
	struct wall_client *client;
	struct loop *loop;
	int pair[2];

	if (loop_new(&loop, NULL) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	client = wall_client_new(loop);
	wall_client_set_ops(client, &ops, NULL);
	wall_client_attach(client, pair[0]);
	memset(n_ends, 0, sizeof(n_ends));
	for (size_t i = 0; i < CALLS; i++)
		(void)wall_client_close(client, ID, on_end, &n_ends[i]);
	say_all(loop, pair[1], data, size);
	(void)close(pair[1]);
	for (int i = 0; i < 3; i++)
		run_a_turn(loop);
	for (size_t i = 0; i < CALLS; i++)
		assert(n_ends[i] == 1);
	wall_client_free(client);
	loop_free(loop);
	return 0;
}
