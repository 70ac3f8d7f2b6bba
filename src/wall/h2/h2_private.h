// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the files of HTTP/2 through the wall; h2.c says how it works. */
#include "wall/proxy_private.h"
#include "wall/transport/bucket.h"

#include <nghttp2/nghttp2.h>

#define H2_STREAM_WINDOW ((size_t)256 * 1024)

/* What a connection may hold. A sandbox has few wide ones at a time; all its others have what is
 * just enough to go on. */
struct h2_room {
	uint32_t streams;
	int32_t window; /* in each direction */
	size_t heads;   /* bytes of all its streams' */
};
#define H2_STREAMS_MAX 100
#define H2_WINDOW_WIDE ((int32_t)(16 * H2_STREAM_WINDOW))
#define H2_WIDE_MAX    8
/* The window of a stream whose reader keeps up grows, within what its connection has for that. */
#define H2_STREAM_WINDOW_MAX (12 * H2_STREAM_WINDOW)
#define H2_GROWN_MAX         H2_STREAM_WINDOW_MAX
#define H2_FIELDS_MAX        (HTTP_FIELDS_MAX + 8)

enum h2_pseudo { H2_METHOD, H2_SCHEME, H2_AUTHORITY, H2_PATH, H2_STATUS, H2_PSEUDOS };

/* A head or trailers while they come: pseudo fields apart, all others as lines of HTTP/1.1. */
struct h2_head {
	char *pseudo[H2_PSEUDOS];
	struct buf lines;
	size_t n_bytes;
	bool is_bad; /* it has a field that HTTP/1.1 could read differently */
	bool wants_trailers;
	bool has_length, has_host;
};

/* The fields of a message as the other side gets them. */
struct h2_fields {
	struct http_head head; /* whose text they are */
	char status[4];
	nghttp2_nv nv[H2_FIELDS_MAX];
	size_t n;
};

/* What has come from one side and is not at the other one yet. The window of the side that it comes
 * from is opened again only as it leaves. */
struct h2_body {
	struct buf bytes;
	size_t n_owed; /* bytes of the window that are not given back */
	bool is_over;
	struct h2_fields *trailers; /* or NULL */
};

enum h2_place {
	H2_READING, /* its head comes */
	H2_WAITING, /* for a connection to the server */
	H2_SENT,
	H2_ANSWERED, /* by the wall itself */
};

struct h2_stream {
	struct h2 *h;
	struct list link;
	enum h2_place place;
	int32_t guest_id, up_id; /* up_id 0: none there, or it is closed */
	struct h2_head in;       /* of the request, then of its trailers */
	struct h2_head up_in;
	struct http_head head;
	struct proxy_request request;
	bool wants_trailers, has_request;
	struct judge_decision decision;
	struct scrub *scrub; /* of the reply, or NULL */
	struct h2_body to_up, to_guest;
	size_t window;   /* of the server */
	size_t n_passed; /* bytes to the guest since it has grown */
	bool has_reply;  /* the guest has its head, or will have */
	bool is_recorded;
	unsigned n_interim;
	size_t n_head_bytes; /* that have come, from both sides */
	uint64_t started_us, in_bytes, out_bytes;
};

enum h2_up_state {
	H2_UP_NONE,
	H2_UP_REACHING,
	H2_UP_MEETING, /* TLS */
	H2_UP_READY,
};

struct h2 {
	struct proxy *p;
	nghttp2_session *guest, *up; /* up is NULL while there is no connection */
	enum h2_up_state up_state;
	struct list streams; /* struct h2_stream */
	struct h2_stream *reaching;
	struct bucket guest_idle, up_idle, resets;
	bool is_closing;
	bool is_wide;
	const struct h2_room *room;
	size_t n_head_bytes; /* of all streams */
	size_t n_grown;      /* what the windows of all streams have grown by */
};

/* h2_session.c: one session for each side. NULL if there is no memory. */
nghttp2_session *h2_session_new_guest(struct h2 *h);
nghttp2_session *h2_session_new_up(struct h2 *h);
extern const nghttp2_data_provider h2_to_guest, h2_to_up;
/* More can be sent to that side. */
void h2_resume_guest(struct h2_stream *s);
void h2_resume_up(struct h2_stream *s);

/* h2_head.c */
void h2_head_init(struct h2_head *head);
void h2_head_done(struct h2_head *head);
/* -E2BIG: it is too large to go on with. */
must_check int h2_head_add(struct h2_head *head, const char *name, size_t name_len,
                           const char *value, size_t value_len);
/* As http_head_read() would have read it. has_body: DATA may follow. */
must_check int h2_head_to_request(const struct h2_head *head, bool has_body, struct http_head *ret);
must_check int h2_head_to_reply(const struct h2_head *head, bool has_body, bool is_head_reply,
                                struct http_head *ret);
must_check int h2_head_to_trailers(const struct h2_head *head, struct http_head *ret);
/* Takes a head's text, as it was written for HTTP/1.1. NULL if it cannot be said. */
struct h2_fields *h2_fields_of_request(struct buf *text, bool wants_trailers);
struct h2_fields *h2_fields_of_reply(struct buf *text);
struct h2_fields *h2_fields_of_trailers(struct buf *lines);
void h2_fields_free(struct h2_fields *f); /* NULL is fine */

/* h2_stream.c */
struct h2_stream *h2_stream_new(struct h2 *h, int32_t guest_id);
void h2_stream_free(struct h2_stream *s);
void h2_stream_record(struct h2_stream *s, enum wall_verdict verdict, const char *why); /* once */
/* Gives back the window of all that has come and goes nowhere. */
void h2_stream_drop_to_up(struct h2_stream *s);
void h2_stream_drop_to_guest(struct h2_stream *s);
void h2_stream_leave_up(struct h2_stream *s, uint32_t code); /* ends it at the server's side */
void h2_stream_reset(struct h2_stream *s, uint32_t code);    /* ends it at the guest's side */
/* The wall's own reply; a stream that has one already is reset. */
void h2_stream_answer(struct h2_stream *s, int status, enum wall_verdict verdict, const char *why);
void h2_stream_respond(struct h2_stream *s, const struct policy_rule *rule);

/* h2_exchange.c: what comes of a stream, from the guest and from the server */
void h2_on_request(struct h2_stream *s, bool has_body);
void h2_on_guest_trailers(struct h2_stream *s);
void h2_on_reply(struct h2_stream *s, bool has_body);
void h2_on_reply_trailers(struct h2_stream *s);
must_check int h2_on_reply_body(struct h2_stream *s, const char *data, size_t len);
void h2_on_reply_end(struct h2_stream *s);
void h2_on_up_stream_closed(struct h2_stream *s, uint32_t code);
void h2_judge(struct h2_stream *s);          /* sends it on, or replies to it */
void h2_begin_exchange(struct h2_stream *s); /* up is ready */

/* h2.c */
void h2_up_close(struct h2 *h);
void h2_on_stream_gone(struct h2_stream *s); /* it was the last that is heard of it */
