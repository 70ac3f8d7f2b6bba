// SPDX-License-Identifier: Apache-2.0
#include "mcp/excerpt.h"

#include <inttypes.h>

void excerpt_init(struct excerpt *e)
{
	*e = (struct excerpt){.head = BUF_INIT(EXCERPT_HALF), .tail = BUF_INIT(EXCERPT_HALF)};
}

void excerpt_done(struct excerpt *e)
{
	buf_done(&e->head);
	buf_done(&e->tail);
}

static void append(struct buf *b, const char *data, size_t len)
{
	if (buf_append(b, data, len) < 0)
		abort(); /* it was made room for */
}

void excerpt_add(struct excerpt *e, const char *data, size_t len)
{
	size_t first = e->dropped == 0 ? MIN(len, buf_room(&e->head)) : 0;
	size_t over;

	append(&e->head, data, first);
	data += first;
	len -= first;
	if (len > EXCERPT_HALF) {
		e->dropped += len - EXCERPT_HALF;
		data += len - EXCERPT_HALF;
		len = EXCERPT_HALF;
	}
	over = len > buf_room(&e->tail) ? len - buf_room(&e->tail) : 0;
	buf_consume(&e->tail, over);
	e->dropped += over;
	append(&e->tail, data, len);
}

void excerpt_skip(struct excerpt *e, uint64_t len)
{
	e->dropped += e->tail.len + len;
	buf_truncate(&e->tail, 0);
}

int excerpt_put(const struct excerpt *e, struct buf *out)
{
	int r = buf_append(out, buf_str(&e->head), e->head.len);

	if (r == 0 && e->dropped > 0)
		r = buf_printf(out, "\n[… %" PRIu64 " bytes left out …]\n", e->dropped);
	return r == 0 ? buf_append(out, buf_str(&e->tail), e->tail.len) : r;
}
