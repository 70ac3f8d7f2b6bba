// SPDX-License-Identifier: Apache-2.0
/*
 * look at all chains --> read a piece, in slices --> write down --> PUT --> write down
 *         ^                    ^                                                |
 *         '--- after a while   '--------- the next chain, or more of it --------'
 *
 * A piece is put with "If-None-Match: *". 412 means that an attempt whose answer was lost has
 * worked: by its name the object has the same content. A store that does not know the condition
 * says 501 and gets the piece without; writing the same bytes once more does no harm.
 */
#include "audit/object_push.h"

#include "audit/object_places.h"
#include "base/clock.h"
#include "base/units.h"
#include "event/statement.h"
#include "net/match/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PIECE_ENTRIES 1000
#define PIECE_BYTES   ((size_t)256 * 1024) /* hashed twice and copied in one turn: a millisecond */
#define PIECE_MAX     (2 * PIECE_BYTES) /* with its seal; of one that was begun by another version */
#define REPLY_MAX     ((size_t)64 * 1024)
#define PATIENCE_US   (60 * SECOND_US)
#define NAME_HASH_LEN 16
#define HASH_END      "\"}"

struct piece {
	struct object_place *place;
	struct event_chain_status chain;
	struct buf body;
	bool is_gap, is_full;
	uint64_t first_seq, last_seq, n, after;
	char last_hash[CHAIN_HEX_SIZE];
};

struct object_push {
	struct object_push_config config;
	char *base; /* the URL without its last slash */
	struct url url;
	struct object_places places;
	struct object_place **due;
	size_t n_due, at_due;
	bool has_more; /* of a chain that was left for another round */
	struct piece piece;
	bool is_bare; /* the store knows no conditions */
	struct outgoing_call *call;
	struct loop_timer *timer;
	struct loop_job *job;
	struct sink_status status;
};

int object_url_check(const char *url, const char *field, struct err *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._~/";
	const char *why = "";
	struct url u;

	if (url_parse(url, strlen(url), &u, &why) < 0)
		return err_field(err, field, "'%s': %s", url, why);
	if ((u.scheme != URL_HTTP && u.scheme != URL_HTTPS) || u.query)
		return err_field(err, field, "'%s' must be http:// or https://, without a query",
		                 url);
	if (u.path_len < 2 || u.path[1] == '/') {
		(void)err_field(err, field, "'%s' names no bucket", url);
		return err_hint(err, "such as https://s3.eu-central-1.amazonaws.com/BUCKET/PREFIX");
	}
	if (strspn(u.path, plain) < u.path_len || strstr(u.path, "//") || strstr(u.path, "/../") ||
	    strlen(url) > 1024)
		return err_field(err, field, "'%s' may have letters, digits and -._~ in its path",
		                 url);
	return 0;
}

static void failed(struct object_push *p, const char *why)
{
	loop_timer_set_in(p->timer, sink_failed(&p->status, why));
}

/* What was seen of all chains in one look. */
struct look {
	struct object_push *push;
	size_t room;
};

static void look_at(const struct event_chain_status *chain, void *arg)
{
	struct look *look = arg;
	struct object_push *p = look->push;
	struct object_place *pl = object_places_find(&p->places, chain);

	object_places_lost(&p->places, pl, chain->anchor_seq);
	if (chain->head_seq <= pl->seq)
		return;
	if (p->n_due == look->room) {
		look->room = MAX(2 * look->room, (size_t)16);
		p->due = xrealloc(p->due, look->room * sizeof(struct object_place *));
	}
	p->due[p->n_due++] = pl;
}

static int take_line(const struct event_line *line, void *arg)
{
	struct piece *piece = arg;
	const struct object_place *pl = piece->place;
	const size_t tail = CHAIN_HEX_SIZE - 1 + strlen(HASH_END);

	if (line->cursor > (pl->upto ? pl->upto : piece->chain.head_seq))
		return 1;
	piece->is_full = pl->upto == 0 &&
	                 (piece->n == PIECE_ENTRIES || piece->body.len + line->len >= PIECE_BYTES);
	if (piece->is_full)
		return 1;
	if (line->len < tail || buf_append(&piece->body, line->json, line->len) < 0 ||
	    buf_append_str(&piece->body, "\n") < 0)
		return -E2BIG; /* somebody has altered it: we write none so long */
	if (piece->n++ == 0)
		piece->first_seq = line->cursor;
	piece->last_seq = line->cursor;
	(void)snprintf(piece->last_hash, sizeof(piece->last_hash), "%s",
	               line->json + line->len - tail);
	return 0;
}

/* The seal behind the entries, or alone where they are gone. */
static int put_seal(struct object_push *p)
{
	struct piece *piece = &p->piece;
	const struct object_place *pl = piece->place;
	struct event_chain_status chain = {.is_audit = pl->is_audit,
	                                   .anchor_seq = pl->begin_seq,
	                                   .head_seq = piece->last_seq,
	                                   .count = piece->n};
	struct statement statement = {.chain = &chain,
	                              .at_us = pl->sealed_us,
	                              .has_gap = piece->is_gap,
	                              .gap_after = pl->seq};
	struct json_writer w;
	int r;

	(void)snprintf(chain.project_id, sizeof(chain.project_id), "%s", pl->project_id);
	memcpy(chain.anchor_hash, piece->is_gap ? piece->last_hash : pl->begin_hash,
	       sizeof(chain.anchor_hash));
	memcpy(chain.head_hash, piece->last_hash, sizeof(chain.head_hash));
	if (piece->is_gap)
		chain.anchor_seq = piece->last_seq;
	json_writer_init(&w, &piece->body);
	r = statement_seal(&w, &statement, p->config.seal_key);
	if (r == 0)
		r = json_writer_end(&w);
	return r == 0 ? buf_append_str(&piece->body, "\n") : r;
}

static char *object_name(const struct piece *piece)
{
	const struct object_place *pl = piece->place;

	return xasprintf("%s/%s/%020" PRIu64 "-%020" PRIu64 "-%.*s%s.jsonl",
	                 pl->project_id[0] ? pl->project_id : "daemon",
	                 pl->is_audit ? "audit" : "events", piece->first_seq, piece->last_seq,
	                 NAME_HASH_LEN, piece->last_hash, piece->is_gap ? "-gap" : "");
}

static void begin_next(struct object_push *p);
static void send_piece(struct object_push *p);

static void taken(struct object_push *p)
{
	struct piece *piece = &p->piece;
	struct object_place *pl = piece->place;

	sink_worked(&p->status);
	p->status.sent += piece->n;
	if (piece->is_gap) {
		object_places_lost(&p->places, pl, piece->last_seq);
		pl->begin_seq = piece->last_seq;
		memcpy(pl->begin_hash, piece->last_hash, sizeof(pl->begin_hash));
	} else {
		object_places_sent_again(&p->places, pl);
	}
	pl->seq = piece->last_seq;
	pl->upto = 0;
	if (object_places_save(&p->places, pl) <
	    0) { /* it would be sent once more after a restart, as the same object */
		failed(p, "the place that was reached cannot be written down");
		return;
	}
	p->has_more |= piece->chain.head_seq > piece->last_seq;
	p->at_due++;
	begin_next(p);
}

/* <Code>SignatureDoesNotMatch</Code>: a word of theirs, cut and kept to letters. */
static void put_reason(const struct outgoing_reply *reply, char *ret, size_t size)
{
	const char *code = reply->body ? strstr(reply->body, "<Code>") : NULL;
	size_t len = 0;

	if (code) {
		code += strlen("<Code>");
		len = strspn(code,
		             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	}
	if (reply->status == 0)
		(void)snprintf(ret, size, "%s", reply->why);
	else
		(void)snprintf(ret, size, "it answered with status %d%s%.*s", reply->status,
		               len > 0 ? " " : "", (int)MIN(len, (size_t)64), code ? code : "");
}

static void on_answer(const struct outgoing_reply *reply, void *arg)
{
	struct object_push *p = arg;
	char why[SINK_WHY_SIZE];
	const int status = reply->status;

	put_reason(reply, why, sizeof(why));
	outgoing_call_free(take_ptr(p->call));
	if ((status >= 200 && status < 300) || (status == 412 && !p->is_bare)) {
		taken(p);
	} else if (status == 501 && !p->is_bare) {
		p->is_bare = true;
		send_piece(p);
	} else {
		failed(p, why);
	}
}

enum { CONTENT_TYPE, HOST, CONDITION, CONTENT_HASH, TIME, SESSION, FIELD_COUNT };

/* All but the host go out as they are signed; the host is written by the call. */
static void send_piece(struct object_push *p)
{
	const struct object_push_config *c = &p->config;
	auto_free char *name = object_name(&p->piece);
	auto_free char *url = xasprintf("%s/%s", p->base, name);
	auto_free char *path = xasprintf("%.*s/%s", (int)p->url.path_len, p->url.path, name);
	char hash[OBJECT_HASH_SIZE], time[OBJECT_SIGN_TIME_SIZE], value[OBJECT_SIGN_SIZE];
	char address[HOST_SIZE], host[HOST_SIZE + 8];
	struct http_field all[FIELD_COUNT] = {
		[CONTENT_TYPE] = {"content-type", "application/x-ndjson"},
		[HOST] = {"host", host},
		[CONDITION] = {"if-none-match", "*"},
		[CONTENT_HASH] = {"x-amz-content-sha256", hash},
		[TIME] = {"x-amz-date", time},
		[SESSION] = {"x-amz-security-token", c->credentials->session},
	};
	struct http_field signed_fields[FIELD_COUNT], sent[FIELD_COUNT + 1];
	size_t n_signed = 0, n_sent = 0;
	struct object_sign sign;

	host_format(&p->url.host, address);
	if (p->url.port == (p->url.scheme == URL_HTTPS ? 443 : 80))
		(void)snprintf(host, sizeof(host), "%s", address);
	else
		(void)snprintf(host, sizeof(host), "%s:%u", address, p->url.port);
	object_hash(p->piece.body.data, p->piece.body.len, hash);
	object_sign_time(clock_wall_us(), time);
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		if (!all[i].value || (i == CONDITION && p->is_bare))
			continue;
		signed_fields[n_signed++] = all[i];
		if (i != HOST)
			sent[n_sent++] = all[i];
	}
	sign = (struct object_sign){.credentials = c->credentials,
	                            .region = c->region,
	                            .service = "s3",
	                            .time = time,
	                            .method = "PUT",
	                            .path = path,
	                            .fields = signed_fields,
	                            .n_fields = n_signed,
	                            .content_hash = hash};
	if (object_sign(&sign, value) < 0) {
		failed(p, "the request could not be signed");
		return;
	}
	sent[n_sent++] = (struct http_field){"authorization", value};
	p->call = outgoing_call_new(&c->outgoing,
	                            &(struct outgoing_request){.method = "PUT",
	                                                       .url = url,
	                                                       .fields = sent,
	                                                       .n_fields = n_sent,
	                                                       .body = p->piece.body.data,
	                                                       .len = p->piece.body.len,
	                                                       .reply_max = REPLY_MAX,
	                                                       .patience_us = PATIENCE_US},
	                            on_answer, p);
}

/* What is in the piece is known: it is written down, sealed and sent. */
static void finish_piece(struct object_push *p)
{
	struct object_place *pl = p->piece.place;

	if (pl->upto != p->piece.last_seq || pl->sealed_us == 0) {
		pl->upto = p->piece.last_seq;
		pl->sealed_us = clock_wall_us();
	}
	if (p->piece.is_gap) /* the next attempt may find a longer one */
		pl->upto = 0;
	if (object_places_save(&p->places, pl) < 0)
		failed(p, "what is to be sent cannot be written down");
	else if (put_seal(p) < 0)
		failed(p, "the piece could not be sealed");
	else
		send_piece(p);
}

static void begin_gap(struct object_push *p)
{
	struct piece *piece = &p->piece;

	piece->is_gap = true;
	piece->first_seq = piece->place->seq + 1;
	piece->last_seq = piece->chain.anchor_seq;
	memcpy(piece->last_hash, piece->chain.anchor_hash, sizeof(piece->last_hash));
	piece->place->upto = 0;
	finish_piece(p);
}

static void begin_next(struct object_push *p)
{
	struct piece *piece = &p->piece;

	if (p->at_due == p->n_due) {
		loop_timer_set_in(p->timer, p->has_more ? 0 : p->config.interval_us);
		return;
	}
	buf_truncate(&piece->body, 0);
	*piece = (struct piece){.place = p->due[p->at_due], .body = piece->body};
	event_log_chain(p->config.events, piece->place->project_id, piece->place->is_audit,
	                &piece->chain);
	piece->after = piece->place->seq;
	if (piece->chain.anchor_seq > piece->place->seq)
		begin_gap(p);
	else
		loop_job_start(p->job);
}

/* Reads one stretch of the chain, a bounded one. */
static bool read_some(struct loop *loop, void *arg)
{
	struct object_push *p = arg;
	struct piece *piece = &p->piece;
	const struct event_filter filter = {.project_id = piece->place->project_id,
	                                    .is_audit = piece->place->is_audit};
	struct err err = {0};
	uint64_t before = piece->after;
	int r = event_log_read(p->config.events, &filter, &piece->after, take_line, piece, &err);

	(void)loop;
	if (r < 0) {
		failed(p, r == -E2BIG ? "an entry is too long: it was altered" : err.message);
		return true;
	}
	if (r > 0 && !piece->is_full && piece->last_seq == piece->after && before < piece->after)
		return false;
	if (piece->n > 0) {
		finish_piece(p);
	} else { /* the chain's row counts entries that are not there */
		p->at_due++;
		begin_next(p);
	}
	return true;
}

static void on_timer(struct loop *loop, void *arg)
{
	struct object_push *p = arg;
	struct look look = {.push = p};

	(void)loop;
	free(take_ptr(p->due));
	p->n_due = p->at_due = 0;
	p->has_more = false;
	event_log_each_chain(p->config.events, look_at, &look);
	begin_next(p);
}

int object_push_open(const struct object_push_config *config, struct object_push **ret,
                     struct err *err)
{
	struct object_push *p = xnew0(struct object_push);
	const char *why;
	size_t len;
	int r = object_url_check(config->url, "audit.s3_url", err);

	p->config = *config;
	p->status.name = "s3";
	p->base = xstrdup(config->url);
	for (len = strlen(p->base); len > 0 && p->base[len - 1] == '/'; len--)
		p->base[len - 1] = '\0';
	buf_init(&p->piece.body, PIECE_MAX);
	p->timer = loop_timer_new(config->outgoing.loop, on_timer, p);
	p->job = loop_job_new(config->outgoing.loop, read_some, p);
	if (r == 0 && url_parse(p->base, strlen(p->base), &p->url, &why) < 0)
		r = err_field(err, "audit.s3_url", "%s", why);
	p->places = (struct object_places){
		.sink = p->base, .events = config->events, .status = &p->status};
	if (r == 0)
		r = object_places_open(&p->places, config->store, err);
	if (r < 0) {
		object_push_close(p);
		return r;
	}
	loop_timer_set_in(p->timer, 0);
	*ret = p;
	return 0;
}

void object_push_close(struct object_push *p)
{
	if (!p)
		return;
	outgoing_call_free(p->call);
	loop_timer_free(p->timer);
	loop_job_free(p->job);
	object_places_close(&p->places);
	buf_done(&p->piece.body);
	free(p->due);
	free(p->base);
	free(p);
}

void object_push_status(const struct object_push *p, struct sink_status *ret)
{
	*ret = p->status;
	ret->waiting = object_places_waiting(&p->places);
}
