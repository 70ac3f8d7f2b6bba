// SPDX-License-Identifier: Apache-2.0
/* A stream of an interpreter's messages. Each that is whole must be within the bytes, and give
 * something to show. */
#include "sandbox/code/driver_message.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(json_t *value, const char *field)
{
	if (!json_is_object(value) || !json_object_get(value, field))
		abort();
	json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf in = BUF_INIT(DRIVER_MESSAGE_MAX);
	struct driver_message_done done;
	struct driver_message m;

	if (buf_append(&in, data, size) < 0)
		return 0;
	while (driver_message_get(&in, &m) > 0) {
		if (m.size > in.len || m.len > m.size || m.len > DRIVER_MESSAGE_PAYLOAD_MAX)
			abort();
		check(driver_message_bundle(&m), "data");
		check(driver_message_error(&m), "traceback");
		if (driver_message_done(&m, &done) == 0 && done.exit_code > 255)
			abort();
		buf_consume(&in, m.size);
	}
	return 0;
}
