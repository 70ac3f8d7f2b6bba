// SPDX-License-Identifier: Apache-2.0
#pragma once
/* Private to the files of the proxy. */
#include "base/units.h"
#include "wall/proxy.h"
#include "wall/proxy_head.h"
#include "wall/transport/reach.h"

#define READING_US  (60 * SECOND_US)  /* for a whole head; also how long an idle one is kept */
#define EXCHANGE_US (300 * SECOND_US) /* without a byte in either direction */
#define TUNNEL_US   (3600 * SECOND_US)
#define CLOSING_US  (5 * SECOND_US)
#define IN_MAX      ((size_t)32 * 1024)
#define OUT_MAX     ((size_t)128 * 1024) /* a head, and what IN_MAX decodes to */

enum state { READING, REACHING, EXCHANGING, TUNNELLING, STREAMING, CLOSING };

struct end {
	struct proxy *proxy;
	struct transport t; /* its fd is -1: not connected */
	struct loop_io *io;
	struct buf in, out;
	struct pace *pace; /* of what is read from it */
	struct pace_turn turn;
	bool is_eof, is_shut;
	bool has_written; /* any byte of the message under way */
	bool is_asked;    /* nothing passes before it has said which HTTP it speaks */
};

/* How a request gets to its host. */
struct proxy_way {
	enum judge_dial dial; /* DIAL_NOTHING: a rule forwards it */
	struct host host;     /* that is dialled or given to the proxy, and verified by TLS */
	uint16_t port;
	bool is_tls;
	const struct policy_target *target; /* the proxy, or where it is forwarded to; borrowed */
};

struct proxy {
	struct proxy_config config;
	struct loop *loop;
	enum state state;
	bool is_over;
	bool is_tls;          /* at both ends */
	struct host tls_host; /* then */
	struct end guest, up;
	struct loop_timer *timer;
	struct reach *reach;
	const struct proxy_request *reaching; /* for whom; borrowed */
	struct h2 *h2;                        /* NULL unless the guest speaks HTTP/2 */
	/* where up leads */
	struct proxy_way up_way;
	struct policy_target up_target;
	struct address up_address;
	bool is_up_used;        /* it has carried a request before */
	bool has_asked_version; /* once is enough, whatever becomes of the answer */
	/* the request under way, of HTTP/1.1 */
	struct http_head request_head, reply_head;
	struct proxy_request request;
	bool has_request;
	bool has_had_request; /* any, on this connection */
	struct judge_decision decision;
	struct http_decoder request_body, reply_body;
	struct scrub *scrub; /* of its reply, or NULL */
	bool has_taken_body; /* some of the request's, from the guest's buffer */
	bool is_request_over, has_reply, is_reply_over;
	struct proxy_reply_form form;
	unsigned n_interim;
	uint64_t started_us, in_bytes, out_bytes;
};

void proxy_finish(struct proxy *p); /* called once; tells the owner */
void proxy_move(struct proxy *p, enum state state, uint64_t patience_us);
void proxy_end_close(struct end *e);
must_check int proxy_end_open(struct end *e, int fd);
void proxy_step(struct proxy *p);      /* moves what can be moved */
bool proxy_end_is_idle(struct end *e); /* it can take a message: nothing comes, nor its end */
enum http_kind proxy_request_kind(const struct proxy *p);

void proxy_wake(struct proxy *p); /* steps in the loop's next turn */

/* proxy_reply.c */
#define PROXY_TEXT_SIZE (2 * HOST_SIZE + 400)
/* A text that tells a person or a model that trying again does not help. */
void proxy_text(const struct proxy *p, int status, const char *why, char ret[PROXY_TEXT_SIZE]);
void proxy_record(struct proxy *p, enum wall_verdict verdict, const char *why);
/* Sends the wall's own reply and ends the connection. */
void proxy_answer(struct proxy *p, int status, enum wall_verdict verdict, const char *why);
void proxy_respond(struct proxy *p, const struct policy_rule *rule); /* what a rule replies */

/* proxy_way.c: sends the request on, or replies to it */
void proxy_judge(struct proxy *p);
struct judge_decision proxy_judge_at(const struct proxy *p, const struct proxy_request *request,
                                     const struct address *resolved);
const struct policy_rule *proxy_rule_of(const struct proxy *p, const struct judge_decision *d);
/* For a decision that allows, or will allow once the name's addresses are known. */
struct proxy_way proxy_find_way(const struct proxy *p, const struct proxy_request *request,
                                const struct judge_decision *d);
bool proxy_is_under_way(const struct proxy *p, const struct proxy_way *way); /* up leads there */
/* Whether the existing connection may carry the request, at its address and by the current
 * policy. */
bool proxy_is_allowed_there(const struct proxy *p, const struct proxy_request *request,
                            struct judge_decision *ret);
/* Begins to make up anew. -EACCES: where the rule leads is closed. */
must_check int proxy_reach(struct proxy *p, const struct proxy_way *way,
                           const struct proxy_request *request);
const char *proxy_why_unreached(const struct proxy *p, enum reach_result result, int *ret_status);
/* Writes the head as the rule changes it; *ret_scrub is replaced. */
must_check int proxy_send_head(struct proxy *p, struct buf *out, const struct http_head *head,
                               const struct proxy_request *request, const struct judge_decision *d,
                               struct scrub **ret_scrub);
/* Sends a request that got no reply once more; returns whether it did. */
bool proxy_try_again(struct proxy *p);

/* proxy_version.c: which HTTP a guest gets that offers both */
bool proxy_prefers_h2(const struct proxy *p);   /* the guest gets HTTP/2 */
bool proxy_asks_version(const struct proxy *p); /* up is offered both, to learn what it speaks */
void proxy_know_h2(const struct proxy *p, bool is_spoken); /* by the server of the guest's host */

/* proxy_tunnel.c */
void proxy_begin_tunnel(struct proxy *p);
bool proxy_tunnel(struct proxy *p);
void proxy_end_tunnel(struct proxy *p);

/* proxy_exchange.c: moves what it can of a request and its reply; returns whether something
 * moved. */
bool proxy_exchange(struct proxy *p);

/* h2.c: the same proxy for a guest that speaks HTTP/2, once its TLS handshake is over. */
struct h2 *h2_new(struct proxy *p);
bool h2_step(struct h2 *h); /* moves what it can; returns whether something moved */
uint64_t h2_patience_us(const struct h2 *h);
void h2_on_patience_end(struct h2 *h);
void h2_on_reached(struct h2 *h, enum reach_result result, bool is_open);
void h2_on_up_broken(struct h2 *h, const char *why);
/* Denies the streams that the current policy forbids. */
bool h2_is_still_allowed(struct h2 *h);
void h2_end(struct h2 *h);  /* records what is under way; NULL is fine */
void h2_free(struct h2 *h); /* NULL is fine */
