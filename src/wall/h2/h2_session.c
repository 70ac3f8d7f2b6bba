// SPDX-License-Identifier: Apache-2.0
/*
 * The sessions (libnghttp2) for both sides, and what they are told to bear. Both sides are hostile
 * by assumption. The library itself refuses what RFC 9113 forbids: capitals in names, fields of a
 * connection, pseudo fields out of place, a length that DATA does not have, windows that overflow,
 * more CONTINUATIONs than a head needs, pushes. Beyond that each side has an allowance of frames
 * that carry nothing, and the guest one of streams that end in a reset. Who spends it is cut off.
 */
#include "wall/h2/h2_private.h"

#include <string.h>

/* A keepalive is far below. A frame with something in it, in either direction, earns one: who
 * probes the bandwidth sends a PING for each. */
#define IDLE_BURST      1000
#define IDLE_PER_SECOND 100
/* A client that cancels this often is no client. */
#define RESETS_BURST      500
#define RESETS_PER_SECOND 100
#define ACKS_MAX          100
#define SETTINGS_MAX      16 /* entries of one frame */

static bool is_guest(const struct h2 *h, const nghttp2_session *session)
{
	return session == h->guest;
}

static struct h2_stream *find(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static void cut_off(struct h2 *h, nghttp2_session *session)
{
	(void)nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
	if (is_guest(h, session))
		h->is_closing = true;
}

static bool is_idle_frame(const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_DATA:
		return hd->length == 0 && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
	case NGHTTP2_HEADERS:
	case NGHTTP2_WINDOW_UPDATE:
		return false;
	default:
		return true;
	}
}

static struct bucket *allowance(struct h2 *h, const nghttp2_session *session)
{
	return is_guest(h, session) ? &h->guest_idle : &h->up_idle;
}

static void earn(struct bucket *b, const nghttp2_frame_hd *hd)
{
	if (hd->type == NGHTTP2_DATA && hd->length > 0 && b->at_us != 0 && b->tokens < IDLE_BURST)
		b->tokens++;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct h2 *h = arg;
	struct bucket *b = allowance(h, session);

	earn(b, hd);
	if (is_idle_frame(hd) &&
	    !bucket_take(b, loop_now_us(h->p->loop), IDLE_PER_SECOND, IDLE_BURST))
		cut_off(h, session);
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = find(session, frame->hd.stream_id);

	if (is_guest(h, session)) {
		if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
			s = h2_stream_new(h, frame->hd.stream_id);
			(void)nghttp2_session_set_stream_user_data(session, s->guest_id, s);
		}
		if (s)
			h2_head_done(&s->in);
	} else if (s) {
		h2_head_done(&s->up_in);
	}
	return 0;
}

/* Whether there is room for one more field. */
static bool count_head(struct h2_stream *s, size_t len)
{
	struct h2 *h = s->h;

	if (h->n_head_bytes + len > h->room->heads)
		return false;
	h->n_head_bytes += len;
	s->n_head_bytes += len;
	return true;
}

static int on_guest_header(struct h2_stream *s, const char *name, size_t name_len,
                           const char *value, size_t value_len)
{
	if (s->place == H2_ANSWERED)
		return 0;
	if (!count_head(s, name_len + value_len)) {
		s->is_recorded =
			true; /* it was not looked at, and comes again when others have gone */
		h2_head_done(&s->in);
		h2_stream_reset(s, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	if (h2_head_add(&s->in, name, name_len, value, value_len) == 0)
		return 0;
	/* The rest of it is not even looked at, and the stream is reset. */
	h2_stream_record(s, WALL_DENIED, "its head is too large");
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = find(session, frame->hd.stream_id);

	(void)flags;
	if (!s)
		return 0;
	if (is_guest(h, session))
		return on_guest_header(s, (const char *)name, name_len, (const char *)value,
		                       value_len);
	if (count_head(s, name_len + value_len) &&
	    h2_head_add(&s->up_in, (const char *)name, name_len, (const char *)value, value_len) ==
	            0)
		return 0;
	h2_stream_record(s, WALL_FAILED, "the server's reply is too large");
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* The library would leave such a field out and go on. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_len, const uint8_t *value,
                             size_t value_len, uint8_t flags, void *arg)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
	(void)flags;
	(void)arg;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void on_guest_frame(struct h2_stream *s, const nghttp2_frame *frame)
{
	bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

	if (frame->hd.type == NGHTTP2_HEADERS && s->place == H2_READING) {
		s->to_up.is_over = is_end;
		h2_on_request(s, !is_end);
	} else if (frame->hd.type == NGHTTP2_HEADERS) {
		h2_on_guest_trailers(s);
	}
	if (is_end) {
		s->to_up.is_over = true;
		h2_resume_up(s);
	}
}

static void on_up_frame(struct h2_stream *s, const nghttp2_frame *frame)
{
	bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

	if (frame->hd.type == NGHTTP2_HEADERS && !s->has_reply)
		h2_on_reply(s, !is_end);
	else if (frame->hd.type == NGHTTP2_HEADERS)
		h2_on_reply_trailers(s);
	if (is_end && s->place == H2_SENT)
		h2_on_reply_end(s);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	s = find(session, frame->hd.stream_id);
	if (s && is_guest(h, session))
		on_guest_frame(s, frame);
	else if (s)
		on_up_frame(s, frame);
	return 0;
}

static int on_guest_data(struct h2_stream *s, const char *data, size_t len)
{
	s->to_up.n_owed += len;
	if (s->place == H2_ANSWERED) {
		h2_stream_drop_to_up(s);
		return 0;
	}
	if (buf_append(&s->to_up.bytes, data, len) < 0)
		return -E2BIG;
	s->out_bytes += len;
	h2_resume_up(s);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = find(session, id);
	int r;

	(void)flags;
	if (!s) {
		(void)nghttp2_session_consume(session, id, len);
		return 0;
	}
	r = is_guest(h, session) ? on_guest_data(s, (const char *)data, len)
	                         : h2_on_reply_body(s, (const char *)data, len);
	if (r < 0) /* more than the window that it had: the library does not let this happen */
		h2_stream_answer(s, 502, WALL_FAILED, "it does not keep to its window");
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = find(session, id);

	if (is_guest(h, session) && code != NGHTTP2_NO_ERROR &&
	    !bucket_take(&h->resets, loop_now_us(h->p->loop), RESETS_PER_SECOND, RESETS_BURST))
		cut_off(h, session);
	if (!s)
		return 0;
	if (is_guest(h, session))
		h2_on_stream_gone(s);
	else
		h2_on_up_stream_closed(s, code);
	return 0;
}

/* Who has the whole reply need not send the rest of the request. */
static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s;

	earn(allowance(h, session), &frame->hd);
	if (!is_guest(h, session) ||
	    (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	s = find(session, frame->hd.stream_id);
	if (s && !s->to_up.is_over)
		(void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->guest_id,
		                                NGHTTP2_NO_ERROR);
	return 0;
}

/* Moves bytes into a frame, and opens the window that they came through. */
static ssize_t take(struct h2_body *b, nghttp2_session *from, int32_t from_id,
                    nghttp2_session *session, int32_t id, uint8_t *room, size_t size,
                    uint32_t *flags)
{
	size_t n = MIN(size, b->bytes.len);
	bool is_last = b->is_over && n == b->bytes.len;
	size_t n_back = is_last ? b->n_owed : MIN(n, b->n_owed);

	if (n == 0 && !is_last)
		return NGHTTP2_ERR_DEFERRED;
	if (n > 0)
		memcpy(room, b->bytes.data, n);
	buf_consume(&b->bytes, n);
	b->n_owed -= n_back;
	if (from && n_back > 0 && from_id > 0)
		(void)nghttp2_session_consume(from, from_id, n_back);
	else if (from && n_back > 0)
		(void)nghttp2_session_consume_connection(from, n_back);
	if (!is_last)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (b->trailers) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		(void)nghttp2_submit_trailer(session, id, b->trailers->nv, b->trailers->n);
	}
	return (ssize_t)n;
}

/* A server that is far away has filled its window long before it hears that it may go on. So the
 * window of a stream doubles each time that as much has passed and nothing of it waits here. What a
 * connection holds stays within its own window. */
static void grow_window(struct h2_stream *s, size_t n_passed)
{
	struct h2 *h = s->h;
	size_t more = MIN(s->window, H2_STREAM_WINDOW_MAX - s->window);

	s->n_passed += n_passed;
	more = MIN(more, H2_GROWN_MAX - h->n_grown);
	if (more == 0 || s->n_passed < s->window || s->to_guest.bytes.len > 0 ||
	    s->to_guest.is_over || !h->is_wide || !h->up || s->up_id <= 0)
		return;
	if (nghttp2_session_set_local_window_size(h->up, NGHTTP2_FLAG_NONE, s->up_id,
	                                          (int32_t)(s->window + more)) != 0)
		return;
	h->n_grown += more;
	s->window += more;
	s->n_passed = 0;
	s->to_guest.bytes.cap = 2 * s->window;
}

static ssize_t read_to_guest(nghttp2_session *session, int32_t id, uint8_t *room, size_t size,
                             uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = find(session, id);
	ssize_t n;

	(void)source;
	if (!s)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = take(&s->to_guest, h->up, s->up_id, session, id, room, size, flags);
	if (n > 0)
		grow_window(s, (size_t)n);
	return n;
}

static ssize_t read_to_up(nghttp2_session *session, int32_t id, uint8_t *room, size_t size,
                          uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct h2 *h = arg;
	struct h2_stream *s = find(session, id);

	(void)source;
	if (!s) /* it has left, and its reset follows */
		return NGHTTP2_ERR_DEFERRED;
	return take(&s->to_up, h->guest, s->guest_id, session, id, room, size, flags);
}

const nghttp2_data_provider h2_to_guest = {.read_callback = read_to_guest};
const nghttp2_data_provider h2_to_up = {.read_callback = read_to_up};

void h2_resume_guest(struct h2_stream *s)
{
	if (s->has_reply)
		(void)nghttp2_session_resume_data(s->h->guest, s->guest_id);
}

void h2_resume_up(struct h2_stream *s)
{
	if (s->h->up && s->up_id > 0)
		(void)nghttp2_session_resume_data(s->h->up, s->up_id);
}

static nghttp2_session *new_session(struct h2 *h, bool for_guest)
{
	nghttp2_session_callbacks *calls;
	nghttp2_option *option;
	nghttp2_session *session = NULL;

	if (nghttp2_session_callbacks_new(&calls) != 0)
		return NULL;
	if (nghttp2_option_new(&option) != 0) {
		nghttp2_session_callbacks_del(calls);
		return NULL;
	}
	nghttp2_session_callbacks_set_on_begin_frame_callback(calls, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(calls, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame_recv);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
	nghttp2_option_set_max_settings(option, SETTINGS_MAX);
	nghttp2_option_set_peer_max_concurrent_streams(option, H2_STREAMS_MAX);
	nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_frame_send);
	if (for_guest)
		(void)nghttp2_session_server_new2(&session, calls, h, option);
	else
		(void)nghttp2_session_client_new2(&session, calls, h, option);
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(calls);
	return session;
}

static nghttp2_session *start(const struct h2 *h, nghttp2_session *session,
                              const nghttp2_settings_entry *entries, size_t n)
{
	if (session && nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, entries, n) == 0 &&
	    nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, h->room->window) ==
	            0)
		return session;
	nghttp2_session_del(session);
	return NULL;
}

nghttp2_session *h2_session_new_guest(struct h2 *h)
{
	const nghttp2_settings_entry entries[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, h->room->streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX},
	};

	return start(h, new_session(h, true), entries, ARRAY_SIZE(entries));
}

nghttp2_session *h2_session_new_up(struct h2 *h)
{
	static const nghttp2_settings_entry entries[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX},
	};

	return start(h, new_session(h, false), entries, ARRAY_SIZE(entries));
}
