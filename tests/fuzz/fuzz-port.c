// SPDX-License-Identifier: Apache-2.0
/* The first byte says how the stream is cut; the rest is the stream. */
#include "proto/port.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_control(const struct port_record *record)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PORT_TEXT_MAX);
	struct port_setup setup, again;
	struct port_usage usage;
	struct err err;

	(void)!port_usage_parse(record->data + 1, record->len - 1, &usage, &err);
	if (port_setup_parse(record->data + 1, record->len - 1, &setup, &err) < 0)
		return;
	/* What is understood can be said again. */
	if (port_setup_print(&setup, &text) < 0 ||
	    port_setup_parse(text.data, text.len, &again, &err) < 0 ||
	    memcmp(&setup, &again, sizeof(setup)) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf in = BUF_INIT(PORT_HEAD_SIZE + PORT_DATA_MAX);
	size_t piece;

	if (size == 0)
		return 0;
	piece = (size_t)data[0] * 7 + 1;
	for (size_t at = 1; at < size; at += piece) {
		struct port_record record;
		int r;

		if (buf_append(&in, data + at, MIN(piece, size - at)) < 0)
			return 0;
		while ((r = port_get(&in, &record)) > 0) {
			if (record.connection == 0)
				read_control(&record);
			port_consume(&in, &record);
		}
		if (r < 0)
			return 0;
	}
	return 0;
}
