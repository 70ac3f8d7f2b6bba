// SPDX-License-Identifier: Apache-2.0
#include "event/entry.h"

#include "base/json/json.h"
#include "event/verify.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static void put_id(struct json_writer *w, const char *name, const char *id)
{
	json_put_str(w, name, id[0] ? id : NULL);
}

static void put_origin(struct json_writer *w, const struct event_row *row, bool is_former)
{
	put_id(w, "key_id", row->key_id);
	put_id(w, "request_id", row->request_id);
	if (is_former)
		return;
	put_id(w, "from", row->client);
	put_id(w, "agent", row->agent);
	if (row->person && row->person[0]) /* entries of before have no such member */
		json_put_raw(w, "person", row->person, strlen(row->person));
}

int entry_put(struct buf *out, const struct event_row *row, enum entry_form form)
{
	struct json_writer w;
	char hex[CHAIN_HEX_SIZE];
	size_t len;
	int r;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_u64(&w, "seq", row->seq);
	json_put_u64(&w, "at_us", row->at_us);
	json_put_str(&w, "type", row->type);
	put_id(&w, "project_id", row->project_id);
	put_id(&w, "sandbox_id", row->sandbox_id);
	put_id(&w, "exec_id", row->exec_id);
	put_origin(&w, row, form == ENTRY_FORMER);
	json_put_raw(&w, "data", row->data, strlen(row->data));
	chain_hex(row->prev, hex);
	json_put_str(&w, "prev", hex);
	len = out->len;
	chain_hex(row->hash, hex);
	json_put_str(&w, "hash", hex);
	json_close_object(&w);
	r = json_writer_end(&w);
	if (r == 0 && form == ENTRY_COVERED)
		buf_truncate(out, len);
	return r;
}

int entry_put_place(struct buf *line, uint64_t place)
{
	buf_truncate(line, line->len - strlen("}"));
	return buf_printf(line, ",\"place\":%" PRIu64 "}", place);
}

size_t entry_seal(struct event_row *row)
{
	auto_call(buf_done) struct buf line = BUF_INIT(ENTRY_LINE_MAX);
	int r = entry_put(&line, row, ENTRY_COVERED);

	assert(r == 0); /* its parts are bounded */
	chain_hash(line.data, line.len, row->hash);
	return line.len + strlen(",\"hash\":\"\"}") + CHAIN_HEX_SIZE - 1;
}
