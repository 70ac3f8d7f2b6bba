// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP codec. The first byte chooses what the rest is: a head's kind or a chunked body, and the
 * step in which it is fed. Whatever the step, the outcome must be that of feeding it whole.
 */
#include "http/parse.h"
#include "http/target.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (128 * 1024)

struct outcome {
	int result; /* of the head, then of the body */
	enum err_code code;
	size_t n_fields, n_body, left;
	uint32_t sum;
};

static void add(struct outcome *o, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		o->sum = o->sum * 31 + (unsigned char)data[i];
}

static void read_body(struct outcome *o, struct http_decoder *d, struct buf *in)
{
	const char *piece;
	size_t len;

	while ((o->result = http_decode(d, in, &piece, &len)) == HTTP_DECODE_DATA) {
		o->n_body += len;
		add(o, piece, len);
	}
}

static void look_at_head(struct outcome *o, const struct http_head *h)
{
	struct http_target target;
	struct err err;

	o->n_fields = h->n_fields;
	for (size_t i = 0; i < h->n_fields; i++) {
		struct http_field f = http_head_field(h, i);

		add(o, f.name, strlen(f.name));
		add(o, f.value, strlen(f.value));
		(void)http_list_has(f.value, "close");
	}
	if (h->target && http_target_parse(h->target, &target, &err) == 0) {
		for (size_t i = 0; i < target.n_segments; i++)
			add(o, target.segments[i], strlen(target.segments[i]));
		http_target_done(&target);
	}
}

static struct outcome run(const uint8_t *data, size_t size, size_t step, unsigned what)
{
	auto_call(buf_done) struct buf in = BUF_INIT(INPUT_MAX);
	struct outcome o = {0};
	struct http_decoder d;
	struct http_head h;
	bool is_in_body = what == 3;

	http_head_init(&h, is_in_body ? HTTP_REQUEST : (enum http_kind)what);
	http_decoder_init(&d, HTTP_CHUNKED, 0);
	for (size_t at = 0; at < size && o.result >= 0; at += step) {
		struct err err = {0};

		if (buf_append(&in, data + at, MIN(step, size - at)) < 0)
			abort();
		if (!is_in_body) {
			o.result = http_head_read(&h, &in, &err);
			o.code = err.code;
			if (o.result <= 0)
				continue;
			is_in_body = true;
			look_at_head(&o, &h);
			http_decoder_init(&d, h.framing, h.length);
		}
		read_body(&o, &d, &in);
	}
	o.left = o.result == HTTP_DECODE_END ? in.len : 0;
	http_head_done(&h);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, cut;
	unsigned what;
	size_t step;

	if (size < 2 || size > INPUT_MAX)
		return 0;
	what = data[0] & 3;
	step = (size_t)(data[0] >> 2) % 17 + 1;
	whole = run(data + 1, size - 1, size, what);
	cut = run(data + 1, size - 1, step, what);
	assert(whole.result == cut.result && whole.code == cut.code);
	assert(whole.n_fields == cut.n_fields && whole.left == cut.left);
	/* What came out before an error may differ by nothing either. */
	assert(whole.n_body == cut.n_body && whole.sum == cut.sum);
	return 0;
}
