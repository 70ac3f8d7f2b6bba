// SPDX-License-Identifier: Apache-2.0
/* The first byte chooses the decoder. What decodes must encode to the very same bytes. */
#include "agent/sudo/sudo_socket.h"
#include "base/buf.h"
#include "proto/start.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r, const struct buf *again, const uint8_t *data, size_t size)
{
	if (r < 0 || again->len != size || memcmp(again->data, data, size) != 0)
		abort();
}

static void try_start(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf again = BUF_INIT(1 << 20);
	struct start s;

	if (start_decode(data, size, &s) < 0)
		return;
	check(start_encode(&s, &again), &again, data, size);
	start_done(&s);
}

static void try_exit(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf again = BUF_INIT(1 << 20);
	struct channel_exit e;

	if (channel_exit_decode(data, size, &e) >= 0)
		check(channel_exit_encode(&e, &again), &again, data, size);
}

static void try_records(const uint8_t *data, size_t size)
{
	struct record r;
	size_t used;

	while (record_decode(data, size, &r, &used) > 0) {
		auto_call(buf_done) struct buf again = BUF_INIT(1 << 20);

		check(record_encode(&r, &again), &again, data, used);
		record_done(&r);
		data += used;
		size -= used;
	}
}

static void try_request(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf again = BUF_INIT(1 << 20);
	struct sudo_request r;

	if (sudo_request_decode(data, size, &r) < 0)
		return;
	check(sudo_request_encode(&r, &again), &again, data, size);
	sudo_request_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const targets[])(const uint8_t *data, size_t size) = {
		try_start, try_exit, try_records, try_request};

	if (size > 0)
		targets[data[0] % ARRAY_SIZE(targets)](data + 1, size - 1);
	return 0;
}
