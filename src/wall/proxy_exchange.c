// SPDX-License-Identifier: Apache-2.0
/*
 * Moves a request's body out and the reply in, at the same time. A body is decoded only as far as
 * the other end's buffer has room, and framed anew.
 */
#include "wall/proxy_private.h"

#include <string.h>
#include <strings.h>

#define CHUNK_EXTRA 32 /* around a chunk */
#define INTERIM_MAX 16 /* 1xx before a reply */

static void next_request(struct proxy *p)
{
	bool keeps_up = p->reply_head.keep_alive && p->reply_head.framing != HTTP_UNTIL_CLOSE;
	bool is_last = p->form.is_last || !p->is_request_over;

	proxy_record(p, WALL_ALLOWED, "");
	scrub_free(take_ptr(p->scrub));
	proxy_request_done(&p->request);
	p->has_request = p->has_reply = false;
	http_head_done(&p->request_head);
	http_head_done(&p->reply_head);
	http_head_init(&p->request_head, proxy_request_kind(p));
	p->is_up_used = true;
	if (!keeps_up || is_last)
		proxy_end_close(&p->up);
	if (is_last)
		proxy_move(p, CLOSING, CLOSING_US);
	else
		proxy_move(p, READING, READING_US);
}

static bool has_room_for(const struct buf *out, const struct buf *in, size_t n_held)
{
	return buf_room(out) >= in->len + n_held + CHUNK_EXTRA;
}

static bool send_request_body(struct proxy *p)
{
	size_t before = p->guest.in.len, len;
	const char *data;
	int r;

	if (p->is_request_over || !has_room_for(&p->up.out, &p->guest.in, 0))
		return false;
	r = http_decode(&p->request_body, &p->guest.in, &data, &len);
	p->has_taken_body |= p->guest.in.len < before;
	if (r == HTTP_DECODE_DATA) {
		p->out_bytes += len;
		r = p->request_head.framing == HTTP_CHUNKED
		            ? http_encode_chunk(&p->up.out, data, len)
		            : buf_append(&p->up.out, data, len);
		if (r == 0)
			return true;
	}
	if (r == HTTP_DECODE_END) {
		p->is_request_over = true;
		if (p->request_head.framing != HTTP_CHUNKED ||
		    http_encode_last_chunk(&p->up.out) == 0)
			return true;
		r = -E2BIG;
	}
	if (r < 0 || p->guest.is_eof) { /* it will never be whole */
		p->form.is_last = true;
		proxy_record(p, WALL_FAILED, "its request was cut short");
		proxy_finish(p);
	}
	return false;
}

/* Both have agreed to leave HTTP for WebSocket. */
static bool is_change(const struct proxy *p)
{
	const char *to = http_head_find(&p->reply_head, "upgrade");

	return p->request.is_upgrade && p->reply_head.status == 101 && p->reply_head.is_upgrade &&
	       http_head_count(&p->reply_head, "upgrade") == 1 && strcasecmp(to, "websocket") == 0;
}

static bool change(struct proxy *p)
{
	const struct proxy_reply_form form = {.is_upgrade = true, .scrub = p->scrub};

	if (proxy_response_write(&p->guest.out, &p->reply_head, &form) < 0) {
		proxy_answer(p, 502, WALL_FAILED, "the server's reply is too large");
		return true;
	}
	proxy_begin_tunnel(p);
	return true;
}

static bool pass_interim(struct proxy *p)
{
	size_t before = p->guest.out.len;

	if (p->reply_head.status == 101 || ++p->n_interim > INTERIM_MAX) {
		proxy_answer(p, 502, WALL_FAILED, "the server replied what was not asked");
		return true;
	}
	if (p->request_head.minor > 0 &&
	    buf_printf(&p->guest.out, "HTTP/1.1 %d %s\r\n\r\n", p->reply_head.status,
	               p->reply_head.reason) < 0) {
		proxy_finish(p);
		return false;
	}
	if (p->scrub && p->guest.out.len > before)
		scrub_text(p->scrub, p->guest.out.data + before, p->guest.out.len - before);
	http_head_done(&p->reply_head);
	http_head_init(&p->reply_head, HTTP_RESPONSE);
	p->reply_head.is_head_reply = strcmp(p->request_head.method, "HEAD") == 0;
	return true;
}

static bool read_reply_head(struct proxy *p)
{
	struct err err;
	int r = http_head_read(&p->reply_head, &p->up.in, &err);
	bool has_end;

	if (r == 0 && !p->up.is_eof)
		return false;
	if (r <= 0) {
		if (proxy_try_again(p))
			return true;
		proxy_answer(p, 502, WALL_FAILED,
		             r == 0 ? "the server closed without a reply"
		                    : "the server's reply is not HTTP of one reading");
		return true;
	}
	if (is_change(p))
		return change(p);
	if (p->reply_head.status < 200)
		return pass_interim(p);
	if (p->scrub && p->reply_head.framing != HTTP_NO_BODY &&
	    proxy_response_is_encoded(&p->reply_head)) {
		proxy_answer(p, 502, WALL_FAILED,
		             "the server's reply is encoded and cannot be scrubbed");
		return true;
	}
	has_end = p->reply_head.framing == HTTP_NO_BODY || p->reply_head.framing == HTTP_LENGTH;
	p->form.is_chunked = !has_end && p->request_head.minor > 0;
	p->form.scrub = p->scrub;
	p->form.is_last =
		!p->request_head.keep_alive || p->request_head.minor == 0 || !p->is_request_over;
	if (proxy_response_write(&p->guest.out, &p->reply_head, &p->form) < 0) {
		proxy_answer(p, 502, WALL_FAILED, "the server's reply is too large");
		return true;
	}
	p->has_reply = true;
	p->is_reply_over = p->reply_head.framing == HTTP_NO_BODY;
	http_decoder_init(&p->reply_body, p->reply_head.framing, p->reply_head.length);
	return true;
}

static int tell(struct proxy *p, const char *data, size_t len)
{
	if (len == 0) /* an empty chunk would be the last */
		return 0;
	return p->form.is_chunked ? http_encode_chunk(&p->guest.out, data, len)
	                          : buf_append(&p->guest.out, data, len);
}

static int tell_scrubbed(struct proxy *p, const struct buf *told)
{
	return tell(p, told->data, told->len);
}

static bool end_reply(struct proxy *p)
{
	if ((p->scrub && tell_scrubbed(p, scrub_end(p->scrub)) < 0) ||
	    (p->form.is_chunked && http_encode_last_chunk(&p->guest.out) < 0)) {
		proxy_finish(p);
		return false;
	}
	p->is_reply_over = true;
	return true;
}

static bool send_reply_body(struct proxy *p)
{
	const char *data;
	size_t len;
	int r;

	if (!has_room_for(&p->guest.out, &p->up.in, p->scrub ? scrub_held(p->scrub) : 0))
		return false;
	r = http_decode(&p->reply_body, &p->up.in, &data, &len);
	if (r == HTTP_DECODE_DATA) {
		r = p->scrub ? tell_scrubbed(p, scrub_feed(p->scrub, data, len))
		             : tell(p, data, len);
		if (r == 0)
			return true;
	}
	if (r == HTTP_DECODE_END)
		return end_reply(p);
	if (r == HTTP_DECODE_MORE && !p->up.is_eof)
		return false;
	if (r == HTTP_DECODE_MORE && http_decode_eof(&p->reply_body) == 0)
		return end_reply(p);
	proxy_record(p, WALL_FAILED, "the server's reply was cut short");
	proxy_finish(p);
	return false;
}

bool proxy_exchange(struct proxy *p)
{
	bool has_moved = send_request_body(p);

	if (p->is_over)
		return false;
	if (!p->is_reply_over)
		has_moved |= p->has_reply ? send_reply_body(p) : read_reply_head(p);
	if (!p->is_over && p->state == EXCHANGING && p->is_reply_over) {
		next_request(p);
		return true;
	}
	return has_moved;
}
