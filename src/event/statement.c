// SPDX-License-Identifier: Apache-2.0
#include "event/statement.h"

static void put_point(struct json_writer *w, const char *name, uint64_t seq, const char *hash)
{
	json_open_object(w, name);
	json_put_u64(w, "seq", seq);
	json_put_str(w, "hash", hash);
	json_close_object(w);
}

void statement_put_chain(struct json_writer *w, const struct event_chain_status *chain)
{
	put_point(w, "head", chain->head_seq, chain->head_hash);
	put_point(w, "anchor", chain->anchor_seq, chain->anchor_hash);
	json_put_u64(w, "count", chain->count);
}

int statement_put(struct buf *out, const struct statement *s)
{
	struct json_writer w;

	json_writer_init(&w, out);
	json_open_object(&w, NULL);
	json_put_u64(&w, "at_us", s->at_us);
	json_put_str(&w, "project_id", s->chain->project_id[0] ? s->chain->project_id : NULL);
	json_put_bool(&w, "audit", s->chain->is_audit);
	json_put_bool(&w, "former", s->is_former);
	statement_put_chain(&w, s->chain);
	if (s->has_gap)
		json_put_u64(&w, "gap_after", s->gap_after);
	json_close_object(&w);
	return json_writer_end(&w);
}

int statement_seal(struct json_writer *w, const struct statement *s, const struct seal_key *key)
{
	auto_call(buf_done) struct buf text = BUF_INIT(STATEMENT_MAX);
	char signature[SEAL_SIZE];
	int r = statement_put(&text, s);

	if (r == 0)
		r = seal_sign(key, buf_str(&text), signature);
	if (r < 0)
		return r;
	json_open_object(w, NULL);
	json_put_str(w, "statement", buf_str(&text));
	json_put_str(w, "signature", signature);
	json_close_object(w);
	return 0;
}
