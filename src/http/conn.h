// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Private to the server: one client's connection, and its current request.
 *
 *	idle --> head --> request --> (drain) --> idle …
 *	                     +--> upgraded
 *	any --> closing --> linger --> dead
 *
 * drain: the reply has gone out, the rest of the body is read and dropped. closing: what is
 * buffered is sent. linger: our end is shut, and the client's bytes are dropped until it closes
 * too. Without that, a close() with unread bytes would make the kernel send a reset, and the client
 * could lose the reply. Only conn_move() changes the state.
 *
 * Functions that handlers call never touch the socket: they fill buffers and call conn_kick(), and
 * the pump runs at the end of the turn. So no callback runs inside another.
 */
#include "base/id.h"
#include "base/list.h"
#include "http/parse.h"
#include "http/server.h"
#include "http/target.h"
#include "http/transport.h"

#define PARAMS_MAX 8
/* Pending bytes at which a writer that ignores back-pressure loses its client. */
#define CONN_PENDING_MAX ((size_t)8 * 1024 * 1024)

enum conn_state {
	CONN_IDLE,
	CONN_HEAD,
	CONN_REQUEST,
	CONN_DRAIN,
	CONN_UPGRADED,
	CONN_CLOSING,
	CONN_LINGER,
	CONN_DEAD,
	CONN_STATE_COUNT
};

enum reply_state { REPLY_NONE, REPLY_STARTED, REPLY_ENDED };

struct route_param {
	const char *name; /* in the route's pattern */
	size_t name_len;
	const char *value;
};

struct http_req {
	struct conn *conn;
	char id[HTTP_REQUEST_ID_SIZE];
	uint64_t begun_us; /* when its head was whole; 0 before */
	struct http_head head;
	struct http_target target;
	enum http_method method;
	const struct http_route *route;
	struct route_param params[PARAMS_MAX];
	size_t n_params;
	void *user, *state;
	bool is_let_in;      /* authorize() did */
	bool is_asked_again; /* by http_authorize_again() */
	bool is_handled;     /* its handler was called */
	bool is_told, is_read;
	void *trace;
	char subject[HTTP_SUBJECT_SIZE];
	http_fn recheck; /* its own; NULL = the app's */
	http_done_fn on_done;
	void *on_done_arg;
	bool is_whole; /* of the reply, for on_done() */

	uint64_t body_max, body_seen;
	bool takes_body, is_body_paused, has_body_ended, may_body_rest;
	http_body_fn on_body;
	void *on_body_arg;
	struct buf body; /* JSON being collected */
	json_t *json;

	enum reply_state reply;
	bool is_chunked, drops_body; /* the reply's */
	int64_t reply_left;          /* of its declared length; -1 = none declared */
	int status;                  /* of the reply, 0 before */
	uint64_t reply_bytes;
	struct buf reply_fields;
	bool has_cache_control;
	bool is_unheld; /* its reply goes out at once */
	http_done_fn on_drain;
	void *on_drain_arg;
	const struct http_tunnel_ops *upgrade;
	bool outlasts_client; /* the tunnel does */
	void *upgrade_arg;
};

struct conn {
	struct http_server *server;
	struct loop *loop;
	struct list link;      /* all of the server's */
	struct list idle_link; /* those that wait for a request, longest first */
	struct list held_link; /* those whose reply is held back */
	struct transport transport;
	struct tls_context *offered_tls; /* the first byte says whether the client takes it */
	struct loop_io *io;
	struct loop_timer *timer;
	enum conn_state state;
	uint64_t since_us, last_read_us, last_write_us;
	struct buf in, out;
	uint64_t held_for; /* nothing of out is sent before this number is released; 0 = not held */
	size_t held_from;  /* where the reply begins in out */
	struct http_decoder decoder; /* of the request's body */
	struct http_req *req; /* from the first byte of a head until its reply has gone out */
	bool is_unix;
	uid_t peer_uid;
	uint64_t peer_network; /* 0 on a unix socket */
	char peer[HTTP_PEER_SIZE];
	uint32_t hop_from;      /* of http_server_take(): peer is that of the current request */
	bool must_close;        /* after this reply */
	bool is_aborted;        /* to be cut at the next pump */
	bool is_kicked;         /* a pump is deferred */
	bool awaits_drain;      /* the buffer was high: tell the handler when it is low again */
	bool ignores_hangup;    /* the client has shut its end but sent more before */
	bool has_left;          /* the client; what it sent is still handed to the tunnel */
	bool has_served;        /* at least one reply */
	uint64_t dropped_bytes; /* in drain and linger */
};

/* Owns fd, also when it fails. */
must_check int conn_new(struct http_server *server, struct loop *loop, int fd, bool is_unix,
                        struct tls_context *tls, bool is_tls_optional, struct err *err);
/* For a peer's clients; likewise. */
must_check int conn_new_hop(struct http_server *server, struct loop *loop, int fd, uint32_t from,
                            struct err *err);
void conn_take_client(struct conn *c, const char *text); /* as the peer says; NULL is fine */
void conn_kick(struct conn *c);       /* asks for a pump at the end of this turn */
struct buf *conn_out(struct conn *c); /* to be filled at once; kicks */
void conn_release(struct conn *c, const struct err *err); /* its reply is held no longer */
void conn_cut(struct conn *c); /* ends it now: on_done(false); freed at the end of the turn */
/* Ends the request in mid-body: on_done(false), then the error as its reply if no reply was
 * begun. */
void conn_refuse(struct conn *c, const struct err *err);
/* Grants "Expect: 100-continue" if the client waits for it, and starts the body's deadline. */
void conn_take_body(struct conn *c);

/* conn_step.c */
void conn_move(struct conn *c, enum conn_state next);
bool conn_wants_read(const struct conn *c); /* in its state */
bool conn_step(struct conn *c);             /* returns whether anything moved */

/* router.c: checks and routes a request whose head is complete. */
void router_dispatch(struct http_req *req);
/* One stretch of the body, or NULL, 0 at its end. */
void router_body(struct http_req *req, const char *data, size_t len);

/* reply.c */
void reply_err_and_close(struct http_req *req, const struct err *err);
/* Sends err in place of a held reply. */
void reply_replace(struct http_req *req, const struct err *err);

/* request.c */
struct http_req *request_new(struct conn *c);
void request_free(struct http_req *req);
void request_done(struct http_req *req, bool whole); /* on_done(), once */
void request_end(struct http_req *req, bool whole);  /* the same, and the app is told */

/* server.c: what a connection needs of its server. */
const struct http_app *server_app(const struct http_server *s);
bool server_is_draining(const struct http_server *s);
void server_conn_added(struct http_server *s, struct conn *c);
void server_conn_gone(struct http_server *s, struct conn *c);
void server_conn_idle(struct http_server *s, struct conn *c);
void server_conn_held(struct http_server *s, struct conn *c);
void server_request_let_in(struct http_server *s); /* recheck() is called for it from now on */
