// SPDX-License-Identifier: Apache-2.0
#include "event/entry.h"

#include "base/json/json.h"
#include "event/verify.h"

#include <assert.h>
#include <string.h>

static void put_id(struct json_writer *w, const char *name, const char *id)
{
	json_put_str(w, name, id[0] ? id : NULL);
}

int entry_put(struct buf *out, const struct event_row *row, bool with_hash)
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
	put_id(&w, "key_id", row->key_id);
	put_id(&w, "request_id", row->request_id);
	json_put_raw(&w, "data", row->data, strlen(row->data));
	chain_hex(row->prev, hex);
	json_put_str(&w, "prev", hex);
	len = out->len;
	chain_hex(row->hash, hex);
	json_put_str(&w, "hash", hex);
	json_close_object(&w);
	r = json_writer_end(&w);
	if (r == 0 && !with_hash)
		buf_truncate(out, len);
	return r;
}

size_t entry_seal(struct event_row *row)
{
	auto_call(buf_done) struct buf line = BUF_INIT(ENTRY_LINE_MAX);
	int r = entry_put(&line, row, /* with_hash= */ false);

	assert(r == 0); /* its parts are bounded */
	chain_hash(line.data, line.len, row->hash);
	return line.len + strlen(",\"hash\":\"\"}") + CHAIN_HEX_SIZE - 1;
}
