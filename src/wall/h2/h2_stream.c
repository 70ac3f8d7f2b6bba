// SPDX-License-Identifier: Apache-2.0
/*
 * One request with its reply. It lives from its HEADERS until the guest's side of it is closed. The
 * guest's session alone ends it; the server's session knows it only while up_id is set.
 */
#include "wall/h2/h2_private.h"

#include <stdio.h>
#include <string.h>

struct h2_stream *h2_stream_new(struct h2 *h, int32_t guest_id)
{
	struct h2_stream *s = xnew0(struct h2_stream);

	s->h = h;
	s->guest_id = guest_id;
	s->started_us = loop_now_us(h->p->loop);
	s->decision = (struct judge_decision){.rule = JUDGE_NO_RULE};
	h2_head_init(&s->in);
	h2_head_init(&s->up_in);
	http_head_init(&s->head, HTTP_REQUEST);
	s->window = H2_STREAM_WINDOW;
	buf_init(&s->to_up.bytes, H2_STREAM_WINDOW);
	buf_init(&s->to_guest.bytes, 2 * H2_STREAM_WINDOW);
	list_append(&h->streams, &s->link);
	return s;
}

static void body_done(struct h2_body *b)
{
	buf_done(&b->bytes);
	h2_fields_free(b->trailers);
}

void h2_stream_free(struct h2_stream *s)
{
	list_remove(&s->link);
	s->h->n_head_bytes -= s->n_head_bytes;
	s->h->n_grown -= s->window - H2_STREAM_WINDOW;
	h2_head_done(&s->in);
	h2_head_done(&s->up_in);
	proxy_request_done(&s->request);
	http_head_done(&s->head);
	scrub_free(s->scrub);
	body_done(&s->to_up);
	body_done(&s->to_guest);
	free(s);
}

void h2_stream_record(struct h2_stream *s, enum wall_verdict verdict, const char *why)
{
	const struct proxy *p = s->h->p;
	const struct host *host = &p->tls_host;

	if (s->is_recorded || p->config.refusal)
		return;
	s->is_recorded = true;
	door_record(p->config.door,
	            &(struct door_record){
			    .verdict = verdict,
			    .rule = s->decision.rule,
			    .name = host->is_name ? &host->name : NULL,
			    .address = p->up.t.fd >= 0 ? &p->up_address : &p->config.dialled,
			    .port = p->config.port,
			    .protocol = PROTOCOL_TLS,
			    .is_recorded = s->decision.is_recorded,
			    .why = why,
			    .in_bytes = s->in_bytes,
			    .out_bytes = s->out_bytes,
			    .took_us = loop_now_us(p->loop) - s->started_us,
		    });
}

static void drop(struct h2_body *b, nghttp2_session *from, int32_t id)
{
	if (from && b->n_owed > 0) {
		if (id > 0)
			(void)nghttp2_session_consume(from, id, b->n_owed);
		else
			(void)nghttp2_session_consume_connection(from, b->n_owed);
	}
	b->n_owed = 0;
	buf_done(&b->bytes);
	h2_fields_free(take_ptr(b->trailers));
}

void h2_stream_drop_to_up(struct h2_stream *s)
{
	drop(&s->to_up, s->h->guest, s->guest_id);
}

void h2_stream_drop_to_guest(struct h2_stream *s)
{
	drop(&s->to_guest, s->h->up, s->up_id);
}

void h2_stream_leave_up(struct h2_stream *s, uint32_t code)
{
	struct h2 *h = s->h;

	if (h->up && s->up_id > 0) {
		(void)nghttp2_session_set_stream_user_data(h->up, s->up_id, NULL);
		(void)nghttp2_submit_rst_stream(h->up, NGHTTP2_FLAG_NONE, s->up_id, code);
	}
	s->up_id = 0;
}

void h2_stream_reset(struct h2_stream *s, uint32_t code)
{
	h2_stream_leave_up(s, NGHTTP2_CANCEL);
	h2_stream_drop_to_up(s);
	h2_stream_drop_to_guest(s);
	s->place = H2_ANSWERED;
	(void)nghttp2_submit_rst_stream(s->h->guest, NGHTTP2_FLAG_NONE, s->guest_id, code);
}

/* gRPC itself, which reads trailers: not what imitates it in bodies (grpc-web). */
static bool is_grpc(const struct h2_stream *s)
{
	static const char type[] = "application/grpc";
	const char *said = s->has_request ? http_head_find(&s->head, "content-type") : NULL;

	return said && strncmp(said, type, strlen(type)) == 0 &&
	       strchr("+;", said[strlen(type)]) != NULL; /* or the end */
}

/* What the same refusal is called in gRPC. */
static const char *grpc_status(int status)
{
	static const struct {
		int status;
		const char *code;
	} codes[] = {
		{403, "7"},  /* PERMISSION_DENIED */
		{405, "12"}, /* UNIMPLEMENTED */
		{501, "12"},
		{502, "14"}, /* UNAVAILABLE */
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return "13"; /* INTERNAL */
}

/* Percent-encodes what a grpc-message may not have; drops the end of the line. */
static void write_grpc_message(const char *text, struct buf *out)
{
	for (; *text && !(text[0] == '\n' && text[1] == '\0'); text++) {
		unsigned char c = (unsigned char)*text;

		if ((c < ' ' || c > '~' || c == '%' ? buf_printf(out, "%%%02X", c)
		                                    : buf_append(out, text, 1)) < 0)
			return;
	}
}

/* Takes the head's text; body is the whole of it. */
static void submit(struct h2_stream *s, struct buf *text, const char *body)
{
	struct h2_fields *f = h2_fields_of_reply(text);

	if (!f || buf_append_str(&s->to_guest.bytes, body) < 0) {
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
	} else {
		s->to_guest.is_over = true;
		(void)nghttp2_submit_response(s->h->guest, s->guest_id, f->nv, f->n,
		                              *body ? &h2_to_guest : NULL);
	}
	h2_fields_free(f);
}

static int write_answer(const struct h2_stream *s, struct buf *out, int status,
                        enum wall_verdict verdict, const char *text)
{
	auto_call(buf_done) struct buf message = BUF_INIT(4 * PROXY_TEXT_SIZE);
	const char *kind = verdict == WALL_DENIED ? "denied" : "failed";

	if (!is_grpc(s))
		return buf_printf(out,
		                  "HTTP/1.1 %d\r\nX-Cloche-Wall: %s\r\nContent-Type: text/plain\r\n"
		                  "Cache-Control: no-store\r\nContent-Length: %zu\r\n\r\n",
		                  status, kind, strlen(text));
	write_grpc_message(text, &message);
	return buf_printf(out,
	                  "HTTP/1.1 200\r\nX-Cloche-Wall: %s\r\nContent-Type: application/grpc\r\n"
	                  "Grpc-Status: %s\r\nGrpc-Message: %s\r\n\r\n",
	                  kind, grpc_status(status), buf_str(&message));
}

void h2_stream_answer(struct h2_stream *s, int status, enum wall_verdict verdict, const char *why)
{
	auto_call(buf_done) struct buf out = BUF_INIT(HTTP_HEAD_MAX);
	char text[PROXY_TEXT_SIZE];

	if (s->place == H2_ANSWERED)
		return;
	h2_stream_record(s, verdict, why);
	if (s->has_reply) { /* it has begun: cutting it is the only way to report a failure */
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	if (verdict == WALL_DENIED && s->h->p->config.door->policy->resets) {
		h2_stream_reset(s, NGHTTP2_CANCEL); /* REFUSED_STREAM asks for another try */
		return;
	}
	h2_stream_leave_up(s, NGHTTP2_CANCEL);
	h2_stream_drop_to_up(s);
	h2_stream_drop_to_guest(s);
	s->place = H2_ANSWERED;
	s->has_reply = true;
	proxy_text(s->h->p, status, why, text);
	if (write_answer(s, &out, status, verdict, text) < 0) {
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
		return;
	}
	if (is_grpc(s) || (s->has_request && strcmp(s->head.method, "HEAD") == 0))
		text[0] = '\0';
	submit(s, &out, text);
}

void h2_stream_respond(struct h2_stream *s, const struct policy_rule *rule)
{
	auto_call(buf_done) struct buf out = BUF_INIT(HTTP_HEAD_MAX);
	const char *body = rule->body ? rule->body : "";
	int r = buf_printf(&out, "HTTP/1.1 %u\r\nContent-Length: %zu\r\n", rule->status,
	                   strlen(body));

	if (r == 0 && rule->content_type)
		r = http_encode_field(&out, "Content-Type", rule->content_type);
	for (size_t i = 0; r == 0 && i < rule->n_headers; i++)
		r = http_encode_field(&out, rule->headers[i].name, rule->headers[i].value);
	if (r == 0)
		r = buf_append_str(&out, "\r\n");
	h2_stream_record(s, WALL_ALLOWED, r == 0 ? "" : "its reply does not fit");
	h2_stream_drop_to_up(s);
	s->place = H2_ANSWERED;
	s->has_reply = true;
	if (r < 0)
		h2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
	else
		submit(s, &out, strcmp(s->head.method, "HEAD") == 0 ? "" : body);
}
