// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The HTTP/1.1 server: listeners, connections, and one struct http_req per request, which holds
 * what the client asked and is used to answer it. Parsing is strict (parse.h), there is
 * back-pressure both ways, and every wait for the client has a deadline.
 *
 *	head complete --> route --> authorize() --> body (none, JSON, or streamed) --> handler
 *	handler: replies at once, or keeps req and replies later from the loop
 *
 * A handler that returns < 0 has not replied: the router sends err as the reply. A handler that
 * returns 0 or more has replied or will reply. The req then lives until its reply has ended or the
 * client is gone; on_done() is called exactly once, and then req is freed. All of this happens on
 * the loop's thread.
 *
 * A req ends only between turns of the loop: a handler may use it until it returns to the loop,
 * even after it replied.
 */
#include "base/json/json.h"
#include "loop/loop.h"

struct http_server;
struct http_req;
struct http_ws;
struct tls_context; /* tls.h */

typedef int (*http_fn)(struct http_req *req, struct err *err);

enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_PATCH,
	HTTP_DELETE,
	HTTP_OPTIONS,
	HTTP_METHOD_COUNT
};
enum http_body {
	HTTP_BODY_NONE, /* a body is refused */
	HTTP_BODY_JSON, /* collected, Content-Type application/json required, parsed; an absent body
	                   gives http_json() NULL */
	HTTP_BODY_CODED,  /* as a stream, and Content-Encoding is the handler's business */
	HTTP_BODY_STREAM, /* the handler is called at the head and takes bytes by http_on_body() */
};

struct http_route {
	enum http_method method; /* a GET row answers HEAD too */
	const char *path; /* "/v1/sandboxes/{id}/execs"; "{id}" matches one non-empty segment */
	http_fn fn;
	enum http_body body;
	unsigned access;   /* opaque here: what the app's authorize() needs to know */
	uint64_t body_max; /* bytes; 0 = 1 MiB for JSON, unlimited for streams */
	/* NULL-terminated: the parameters that the query may have. NULL: the handler checks
	 * them. */
	const char *const *query;
	unsigned audit; /* opaque here: what the app's ended() needs to know */
};

struct http_outcome {
	int status;     /* 0: the client left before there was one */
	uint64_t bytes; /* of the reply, with its head */
	uint64_t us;    /* from the head to the end */
	bool is_whole;  /* the reply was written out */
};

struct http_head; /* parse.h */

struct http_app {
	/*
	 * Sees each complete head first; may be NULL. 1: it takes the request and answers it like a
	 * handler with HTTP_BODY_STREAM; none of the checks below is made. 0: the request goes on
	 * as usual. 2: likewise, and its Host is accepted. < 0: err is the answer.
	 */
	http_fn divert;
	/* Answers with the error in a form of its own, and returns 1. 0: http_reply_err() does it.
	 * May be NULL.
	 */
	int (*fail)(struct http_req *req, const struct err *err);
	const struct http_route *routes; /* with n rows; borrowed */
	size_t n_routes;
	http_fn authorize; /* called when head and route are known, before any byte of the body is
	                      read; also for unknown routes (http_route() NULL) */
	/* Sees what authorize() let in, where a route has its path; before any byte of the body is
	 * read; may be NULL. 1: it takes the request, and answers it like a handler with
	 * HTTP_BODY_STREAM, or calls http_go_on() later. 0: the request goes on. < 0: err is the
	 * answer. */
	http_fn locate;
	/* Called every half second for each request that authorize() let in and that has not ended,
	 * also for terminals and other tunnels; may be NULL. < 0: the request must end. err is its
	 * reply; if a reply has begun, the connection is cut. */
	http_fn recheck;
	/* Around each call of a route's handler; may be NULL. */
	void (*enter)(struct http_req *req);
	void (*leave)(struct http_req *req);
	/* A handler has failed and has left nothing behind; may be NULL. 1: the request waits, and
	 * http_go_on() calls the handler again. 0: err is the answer. */
	int (*refused)(struct http_req *req, const struct err *err);
	/* Called when a successful reply begins; may be NULL. 0: it is sent. Else it is held until
	 * http_server_release() of that number. */
	uint64_t (*holds)(struct http_req *req);
	/* Called once for each request with a complete head, when it is over; may be NULL. */
	void (*ended)(const struct http_req *req, const struct http_outcome *outcome);
	void *arg;                /* http_app_arg() */
	struct fair_share *share; /* of clients that authorize() has not seen yet; NULL is fine */
	uint64_t body_max;        /* of any route, below its own; 0 = none */
	const char *const *hosts; /* NULL-terminated allow-list of Host names for TCP listeners
	                             ("localhost", "127.0.0.1", "::1"), any port; NULL = all */
};

/* How much time and space a client may take. Set before http_server_listen(); the defaults are
 * usually right. */
struct http_limits {
	uint64_t head_us;       /* from a head's first byte, or from the accept, to its last */
	uint64_t body_idle_us;  /* between two reads of a body that is wanted */
	uint64_t write_idle_us; /* between two writes that the client took */
	uint64_t keep_alive_us; /* between two requests */
	uint64_t linger_us;     /* for the client to close after us, or to send more */
	uint64_t left_us;       /* between two steps of taking what a client left behind */
	size_t connections;     /* past it, the longest idle one gives way */
};

must_check int http_server_new(struct loop *loop, const struct http_app *app,
                               struct http_server **ret, struct err *err);
/* Serves a listening TCP or unix socket, which the server then owns. tls may be NULL. */
must_check int http_server_listen(struct http_server *s, int listen_fd, struct tls_context *tls,
                                  struct err *err);
/* The same, where each client may choose: TLS, or none. */
must_check int http_server_listen_both(struct http_server *s, int listen_fd,
                                       struct tls_context *tls, struct err *err);
/* Serves a stream socket that a peer's gateway speaks on, for its own clients: the address of each
 * is the request's HTTP_CLIENT_FIELD, and the Host was checked there. from is not 0. Owns fd. */
#define HTTP_CLIENT_FIELD "Cloche-Client"
must_check int http_server_take(struct http_server *s, int fd, uint32_t from, struct err *err);
/* Stops accepting, lets running replies end until deadline_us, then closes; done is called once. */
void http_server_drain(struct http_server *s, uint64_t deadline_us, loop_fn done, void *arg);
void http_server_free(struct http_server *s);
/* Sends the replies that are held up to that number. With an err, that is sent instead, and a
 * stream is cut. */
void http_server_release(struct http_server *s, uint64_t number, const struct err *err);
struct http_limits *http_server_limits(struct http_server *s);

/* The owner of a connection after 101. */
struct http_tunnel_ops {
	void (*on_data)(struct http_req *req, struct buf *in); /* takes what it can from in */
	void (*on_drain)(struct http_req *req);
	void (*on_gone)(struct http_req *req); /* once, before on_done() */
};
/* After http_stream_start() of 101: bytes go as they are, out by http_stream_write() until
 * http_stream_end(), in to on_data(); http_body_pause() holds them back. */
void http_tunnel(struct http_req *req, const struct http_tunnel_ops *ops, void *arg);
/* A client that hangs up does not take back what it has sent: on_data() gets it first, at the pace
 * of http_body_pause(), and on_gone() comes after that. Meanwhile output is taken and dropped: who
 * makes it may read on only after it has written. */
void http_tunnel_outlasts_client(struct http_req *req);
void *http_tunnel_arg(const struct http_req *req);

/* Checks that the Host is one of the app's. For divert(). */
must_check int http_check_host(const struct http_req *req, struct err *err);
const struct http_head *http_req_head(const struct http_req *req); /* with every field as it came */
bool http_is_tls(const struct http_req *req);

/* What was asked. Strings are borrowed and live as long as req. */
void *http_app_arg(const struct http_req *req);
struct loop *http_loop(const struct http_req *req);
enum http_method http_req_method(const struct http_req *req);
const char *http_method_name(enum http_method method);
const struct http_route *http_route(
	const struct http_req *req); /* NULL in authorize() of an unknown path */
const char *http_path(const struct http_req *req);
const char *http_param(const struct http_req *req,
                       const char *name); /* percent-decoded; NULL if the route has none */
const char *http_query(const struct http_req *req,
                       const char *name); /* decoded, NULL if absent; "" if without value */
/* Refuses query parameters that are not in the NULL-terminated list, and duplicates. */
must_check int http_query_check(const struct http_req *req, const char *const *allowed,
                                struct err *err);
must_check int http_query_u64(const struct http_req *req, const char *name, uint64_t min,
                              uint64_t max, uint64_t *ret,
                              struct err *err); /* absent leaves *ret */
must_check int http_query_bool(const struct http_req *req, const char *name, bool *ret,
                               struct err *err); /* 1, true, 0, false, "" = true */
const char *http_header(const struct http_req *req,
                        const char *name);           /* any case; NULL if absent */
const json_t *http_json(const struct http_req *req); /* NULL if there was no body */
/* The client's own X-Request-Id where it is 1 to 64 letters, digits, '.', '_' and '-', else a fresh
 * "req_…"; every reply carries it. */
#define HTTP_REQUEST_ID_SIZE 65
const char *http_request_id(const struct http_req *req);
uint64_t http_begun_us(const struct http_req *req); /* steady: when its head was complete */
uint32_t http_hop_from(const struct http_req *req); /* of http_server_take(), else 0 */
bool http_peer_is_unix(const struct http_req *req);
uid_t http_peer_uid(const struct http_req *req); /* of a unix socket's client, by the kernel */
/* Tells clients on TCP apart: an IPv4 address, or the upper half of an IPv6 one. */
uint64_t http_peer_network(const struct http_req *req);
/* Where the client calls from, as text: an address, or "unix:UID". */
#define HTTP_PEER_SIZE 48
const char *http_peer(const struct http_req *req);
/* For the app's ended(): the id of what the request was about, "" unless it was set; whether it was
 * told of elsewhere; and whether it only read, where the route does not say so. */
#define HTTP_SUBJECT_SIZE 40
void http_set_subject(struct http_req *req, const char *id);
const char *http_subject(const struct http_req *req);
void http_set_told(struct http_req *req, bool is_told);
bool http_is_told(const struct http_req *req);
void http_set_read(struct http_req *req);
bool http_is_read(const struct http_req *req);
/* What the app's enter() and ended() keep with it (the handler has http_set_state()). */
void http_set_trace(struct http_req *req, void *trace);
void *http_trace(const struct http_req *req);
int64_t http_content_length(const struct http_req *req); /* -1 = chunked */
void http_set_user(struct http_req *req, void *user); /* authorize()'s finding, for the handler */
void *http_user(const struct http_req *req);
/* Where authorize() gave 1, which means that it cannot say yet: it is called again, and the request
 * goes on as if nothing had been. Not from inside authorize(); at most once a request. */
void http_authorize_again(struct http_req *req);
bool http_is_asked_again(const struct http_req *req);
/* Where locate() or a handler gave 1 and has not answered: the handler is called (again). Not from
 * inside either. */
void http_go_on(struct http_req *req);
/* From now on fn is called instead of the app's recheck(). For requests that were let in by
 * something that authorize() does not know. */
void http_set_recheck(struct http_req *req, http_fn fn);
/* Whose work the connection is from now on (loop/loop.h); borrowed. */
void http_set_share(struct http_req *req, struct fair_share *share);
void http_set_state(struct http_req *req, void *state); /* the handler's own */
void *http_state(const struct http_req *req);

/* A streamed body. fn gets each piece, and (NULL, 0) once at the end; nothing after the reply has
 * ended. Framing errors and a client that stops sending end the req: then on_done() is called
 * without the (NULL, 0) before it. Nothing is read from the client until http_on_body() is called,
 * so a handler may first open the place that the bytes go to. */
typedef void (*http_body_fn)(struct http_req *req, const char *data, size_t len, void *arg);
void http_on_body(struct http_req *req, http_body_fn fn, void *arg);
/* on: fn is not called, and the client is not read. Said again, it tells that something moves. */
void http_body_pause(struct http_req *req, bool on);
/* The body is a conversation that may be silent for long: body_idle_us does not hold for it. */
void http_body_may_rest(struct http_req *req);
/* Exactly once, when the req ends. */
typedef void (*http_done_fn)(void *arg);
void http_on_done(struct http_req *req, http_done_fn fn, void *arg);
/* For on_done(): was the reply sent completely? If not, the client is gone or was cut off. */
bool http_is_whole(const struct http_req *req);

/* Answers. A header's value is checked for CR, LF and NUL. */
void http_reply_header(struct http_req *req, const char *name, const char *value);
void http_reply(struct http_req *req, int status, const char *type, const void *data, size_t len);
void http_reply_json(struct http_req *req, int status, const struct buf *body);
void http_reply_err(
	struct http_req *req,
	const struct err *err); /* {"error": {code, message, hint?, field?, request_id}} */
bool http_has_replied(const struct http_req *req);
void http_reply_at_once(struct http_req *req); /* its reply is not held; said before it */
/* A streamed answer: length -1 = chunked. */
void http_stream_start(struct http_req *req, int status, const char *type, int64_t length);
must_check int http_stream_write(struct http_req *req, const void *data,
                                 size_t len);           /* -EPIPE once the client is gone */
size_t http_stream_pending(const struct http_req *req); /* bytes not yet taken by the kernel: stop
                                                           at HTTP_HIGH_WATER */
#define HTTP_HIGH_WATER ((size_t)256 * 1024)
/* fn: called when pending falls below half of HTTP_HIGH_WATER. */
void http_on_drain(struct http_req *req, http_done_fn fn, void *arg);
void http_stream_end(struct http_req *req);
void http_stream_abort(struct http_req *req); /* cuts the connection, so that the client sees a
                                                 broken body and not a short one */
