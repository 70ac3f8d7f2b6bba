// SPDX-License-Identifier: Apache-2.0
#include "http-rig.h"
#include "http/parse.h"
#include "http/stream.h"

#include <inttypes.h>
#include <sys/resource.h>

#define H "Host: localhost\r\n"

/* What the handlers below have seen. */
static struct seen {
	struct http_req *kept;
	int n_done, n_whole;
	uint64_t body_bytes;
	bool has_body_end;
	size_t most_pending;
	uint64_t to_write;
	bool stops_at_done;
} seen;

static void on_done(void *arg)
{
	struct http_req *req = arg;

	seen.n_done++;
	seen.n_whole += http_is_whole(req);
	if (seen.kept == req)
		seen.kept = NULL;
	if (seen.stops_at_done)
		loop_stop(http_loop(req));
}

static int hello(struct http_req *req, struct err *err)
{
	(void)err;
	http_on_done(req, on_done, req);
	http_reply(req, 200, "text/plain", "hello", 5);
	return 0;
}

static int thing(struct http_req *req, struct err *err)
{
	static const char *const allowed[] = {"n", "yes", NULL};
	uint64_t n = 7;
	bool yes = false;
	char text[200];

	if (http_query_check(req, allowed, err) < 0 ||
	    http_query_u64(req, "n", 1, 9, &n, err) < 0 ||
	    http_query_bool(req, "yes", &yes, err) < 0)
		return -EINVAL;
	(void)snprintf(text, sizeof(text), "id=%s n=%" PRIu64 " yes=%d", http_param(req, "id"), n,
	               yes);
	http_reply_header(req, "X-Evil", "a\r\nSet-Cookie: b");
	http_reply_header(req, "X-Good", "fine");
	http_reply(req, 200, "text/plain", text, strlen(text));
	return 0;
}

static int echo_json(struct http_req *req, struct err *err)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4096);
	struct json_writer w;

	(void)err;
	json_writer_init(&w, &out);
	if (http_json(req))
		json_put_value(&w, NULL, http_json(req));
	else
		json_put_null(&w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	http_reply_json(req, 201, &out);
	return 0;
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	char text[40];

	(void)arg;
	seen.body_bytes += len;
	if (data)
		return;
	seen.has_body_end = true;
	(void)snprintf(text, sizeof(text), "took %" PRIu64, seen.body_bytes);
	http_reply(req, 200, "text/plain", text, strlen(text));
}

static int take_body(struct http_req *req, struct err *err)
{
	(void)err;
	http_on_done(req, on_done, req);
	http_on_body(req, on_body, NULL);
	return 0;
}

static int take_body_later(struct http_req *req, struct err *err)
{
	int r = take_body(req, err);

	http_body_pause(req, true);
	seen.kept = req;
	return r;
}

static int keep(struct http_req *req, struct err *err)
{
	(void)err;
	http_on_done(req, on_done, req);
	seen.kept = req;
	return 0;
}

static int refuse_body(struct http_req *req, struct err *err)
{
	(void)req;
	return err_set(err, ERR_CONFLICT, 0, "not now");
}

static void write_more(void *arg)
{
	static const char block[16384] = "x";
	struct http_req *req = arg;

	while (seen.to_write > 0 && http_stream_pending(req) < HTTP_HIGH_WATER) {
		size_t len = (size_t)MIN(seen.to_write, sizeof(block));

		if (http_stream_write(req, block, len) < 0)
			return;
		seen.to_write -= len;
		seen.most_pending = MAX(seen.most_pending, http_stream_pending(req));
	}
	if (seen.to_write == 0)
		http_stream_end(req);
}

static int big(struct http_req *req, struct err *err)
{
	(void)err;
	seen.to_write = 32 * 1024 * 1024;
	http_on_done(req, on_done, req);
	http_on_drain(req, write_more, req);
	http_stream_start(req, 200, "application/octet-stream", -1);
	write_more(req);
	return 0;
}

static int short_stream(struct http_req *req, struct err *err)
{
	(void)err;
	http_on_done(req, on_done, req);
	http_stream_start(req, 200, "text/plain", 10);
	CHECK_INT(http_stream_write(req, "short", 5), 0);
	http_stream_end(req);
	return 0;
}

static int events(struct http_req *req, struct err *err)
{
	enum event_format format = event_format_of(req);

	if (format == EVENTS_NONE)
		return err_set(err, ERR_NOT_ACCEPTABLE, 0, "events or nothing");
	event_stream_start(req, format);
	CHECK_INT(event_stream_send(req, format, "stdout", 7, "{\"a\":1}", 7), 0);
	CHECK_INT(event_stream_keepalive(req, format), 0);
	CHECK_INT(event_stream_send(req, format, "exited", 0, "{}", 2), 0);
	http_stream_end(req);
	return 0;
}

static int authorize(struct http_req *req, struct err *err)
{
	const char *key = http_header(req, "X-API-Key");

	if (key && strcmp(key, "wrong") == 0)
		return err_set(err, ERR_UNAUTHENTICATED, 0, "no such key");
	http_set_user(req, http_app_arg(req));
	return 0;
}

/* clang-format off */
static const struct http_route routes[] = {
	{HTTP_GET,    "/",                 hello,           HTTP_BODY_NONE},
	{HTTP_GET,    "/hello",            hello,           HTTP_BODY_NONE},
	{HTTP_GET,    "/things/{id}",      thing,           HTTP_BODY_NONE},
	{HTTP_DELETE, "/things/{id}",      thing,           HTTP_BODY_NONE},
	{HTTP_GET,    "/things/{id}/on",   hello,           HTTP_BODY_NONE},
	{HTTP_POST,   "/json",             echo_json,       HTTP_BODY_JSON, .body_max = 64},
	{HTTP_PUT,    "/body",             take_body,       HTTP_BODY_STREAM, .body_max = 1 << 20},
	{HTTP_PUT,    "/paused",           take_body_later, HTTP_BODY_STREAM},
	{HTTP_PUT,    "/refused",          refuse_body,     HTTP_BODY_STREAM},
	{HTTP_GET,    "/keep",             keep,            HTTP_BODY_NONE},
	{HTTP_GET,    "/big",              big,             HTTP_BODY_NONE},
	{HTTP_GET,    "/short",            short_stream,    HTTP_BODY_NONE},
	{HTTP_GET,    "/events",           events,          HTTP_BODY_NONE},
};
/* clang-format on */
static const struct http_app app = {
	.routes = routes, .n_routes = ARRAY_SIZE(routes), .authorize = authorize};

static void open_both(struct rig *rig, struct peer *peer)
{
	seen = (struct seen){0};
	rig_open(rig, &app);
	peer_open(peer, rig);
}

static void close_both(struct rig *rig, struct peer *peer)
{
	peer_close(peer);
	rig_close(rig);
}

/* A round trip of another client: the server has seen by then what came before. */
static void turn(struct peer *other)
{
	peer_say(other, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(other, "hello");
	peer_forget(other);
}

/* One request on a connection of its own: its status, and a text that the answer must have. */
static void check_answer(const char *request, int status, const char *wanted)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, request);
	peer_await(&peer, wanted);
	if (peer_status(&peer) != status)
		print_error("%s\n%s\n", request, peer.got.data);
	CHECK_INT(peer_status(&peer), status);
	close_both(&rig, &peer);
}

TEST(a_reply_has_the_fields_that_every_reply_has)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&peer, "\r\n\r\nhello");
	CHECK(peer_has(&peer, "HTTP/1.1 200 OK\r\n"));
	CHECK(peer_has(&peer, "\r\nX-Request-Id: req_"));
	CHECK(peer_has(&peer, "\r\nServer: cloche\r\n"));
	CHECK(peer_has(&peer, "\r\nX-Content-Type-Options: nosniff\r\n"));
	CHECK(peer_has(&peer, "\r\nContent-Type: text/plain\r\n"));
	CHECK(peer_has(&peer, "\r\nContent-Length: 5\r\n"));
	CHECK(!peer_has(&peer, "Connection: close"));
	CHECK(!peer_has(&peer, "Access-Control"));
	CHECK_INT(seen.n_whole, 1);
	close_both(&rig, &peer);
}

TEST(pipelined_requests_are_answered_in_order_on_one_connection)
{
	struct rig rig;
	struct peer peer;
	const char *one, *two, *three;

	open_both(&rig, &peer);
	peer_say(&peer, "GET /things/one HTTP/1.1\r\n" H "\r\n"
	                "POST /json HTTP/1.1\r\n" H
	                "Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"two\":2}"
	                "PUT /body HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
	                "5\r\nhello\r\n0\r\n\r\n"
	                "GET /things/four HTTP/1.1\r\n" H "\r\n");
	peer_await(&peer, "id=four");
	one = strstr(peer.got.data, "id=one");
	two = strstr(peer.got.data, "{\"two\":2}");
	three = strstr(peer.got.data, "took 5");
	CHECK(one && two && three && one < two && two < three);
	CHECK(!peer.is_closed);
	close_both(&rig, &peer);
}

TEST(the_next_request_waits_until_a_late_reply_has_ended)
{
	struct rig rig;
	struct peer peer, other;

	open_both(&rig, &peer);
	peer_open(&other, &rig);
	peer_say(&peer, "GET /keep HTTP/1.1\r\n" H "\r\nGET /things/next HTTP/1.1\r\n" H "\r\n");
	peer_say(&other, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&other, "hello");
	CHECK(seen.kept != NULL);
	CHECK_INT(peer.got.len, 0);
	http_reply(seen.kept, 200, "text/plain", "kept", 4);
	peer_await(&peer, "id=next");
	CHECK(strstr(peer.got.data, "kept") < strstr(peer.got.data, "id=next"));
	peer_close(&other);
	close_both(&rig, &peer);
}

static uint64_t n_held;

/* Replies about things, with numbers from 1. */
static uint64_t hold_things(struct http_req *req)
{
	return strncmp(http_path(req), "/things/", 8) == 0 ? ++n_held : 0;
}

static void open_holding(struct rig *rig, struct peer *peer, struct peer *other)
{
	struct http_app holding = app;

	holding.holds = hold_things;
	n_held = 0;
	seen = (struct seen){0};
	rig_open(rig, &holding);
	peer_open(peer, rig);
	peer_open(other, rig);
}

TEST(a_reply_that_is_held_goes_out_with_its_number_and_not_before)
{
	struct rig rig;
	struct peer one, two, other;

	open_holding(&rig, &one, &other);
	peer_open(&two, &rig);
	peer_say(&one, "GET /things/one HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
	turn(&other);
	peer_say(&two, "GET /things/two HTTP/1.1\r\n" H "\r\n");
	turn(&other);
	CHECK_INT(n_held, 2);
	CHECK_INT(one.got.len + two.got.len, 0);
	http_server_release(rig.server, 1, NULL);
	peer_await(&one, "\r\n\r\nhello"); /* and what came behind it */
	CHECK(peer_has(&one, "id=one"));
	CHECK_INT(two.got.len, 0);
	http_server_release(rig.server, 2, NULL);
	peer_await(&two, "id=two");
	peer_close(&other);
	peer_close(&two);
	close_both(&rig, &one);
}

TEST(a_held_reply_becomes_an_error_where_what_it_tells_of_failed)
{
	struct rig rig;
	struct peer peer, other;
	struct err err;

	open_holding(&rig, &peer, &other);
	peer_say(&peer, "GET /things/one HTTP/1.1\r\n" H "\r\nGET /hello HTTP/1.1\r\n" H "\r\n");
	turn(&other);
	(void)err_set(&err, ERR_DISK_FULL, 0, "no room");
	http_server_release(rig.server, 1, &err);
	peer_await(&peer, "\r\n\r\nhello");
	CHECK_INT(peer_status(&peer), 507);
	CHECK(peer_has(&peer, "no room"));
	CHECK(!peer_has(&peer, "id=one") && !peer_has(&peer, "X-Good"));
	peer_close(&other);
	close_both(&rig, &peer);
}

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(a_client_that_leaves_a_held_reply_is_forgotten)
{
	struct rig rig;
	struct peer peer, other;
	int n_fds;

	open_holding(&rig, &peer, &other);
	peer_say(&peer, "GET /things/one HTTP/1.1\r\n" H "\r\n");
	turn(&other);
	CHECK_INT(n_held, 1);
	n_fds = count_fds();
	peer_close(&peer);
	turn(&other);
	http_server_release(rig.server, 1, NULL);
	turn(&other);
	CHECK_INT(count_fds(), n_fds - 2);
	close_both(&rig, &other);
}

TEST(requests_byte_by_byte_give_the_same_answer)
{
	static const char text[] =
		"POST /json HTTP/1.1\r\n" H "Content-Type: application/json; charset=utf-8\r\n"
		"Transfer-Encoding: chunked\r\n\r\n"
		"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n";
	struct rig rig;
	struct peer peer, other;

	open_both(&rig, &peer);
	peer_open(&other, &rig);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		peer_send(&peer, text + i, 1);
		turn(&other);
	}
	peer_await(&peer, "[1,2]");
	CHECK_INT(peer_status(&peer), 201);
	peer_close(&other);
	close_both(&rig, &peer);
}

TEST(head_has_the_fields_of_get_and_no_body)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "HEAD /hello HTTP/1.1\r\n" H "\r\nGET /things/x HTTP/1.1\r\n" H "\r\n");
	peer_await(&peer, "id=x");
	CHECK(peer_has(&peer, "Content-Length: 5\r\n"));
	CHECK(!peer_has(&peer, "\r\n\r\nhello"));
	close_both(&rig, &peer);
}

TEST(paths_and_methods_that_have_no_route_get_typed_answers)
{
	check_answer("GET /nowhere HTTP/1.1\r\n" H "\r\n", 404, "\"code\":\"not_found\"");
	check_answer("GET /things HTTP/1.1\r\n" H "\r\n", 404, "not_found");
	check_answer("GET /things/a/b HTTP/1.1\r\n" H "\r\n", 404, "not_found");
	check_answer("GET /Hello HTTP/1.1\r\n" H "\r\n", 404, "not_found");
	check_answer("GET /hello/ HTTP/1.1\r\n" H "\r\n", 404, "not_found");
	check_answer("GET //hello HTTP/1.1\r\n" H "\r\n", 404, "not_found");
	check_answer("GET /things/../hello HTTP/1.1\r\n" H "\r\n", 400, "bad_request");
	check_answer("GET /%2e%2e/hello HTTP/1.1\r\n" H "\r\n", 400, "bad_request");
	check_answer("POST /things/a HTTP/1.1\r\n" H "\r\n", 405, "Allow: GET, HEAD, DELETE\r\n");
	check_answer("TRACE /hello HTTP/1.1\r\n" H "\r\n", 405, "method_not_allowed");
	check_answer("OPTIONS /json HTTP/1.1\r\n" H "\r\n", 204, "Allow: POST\r\n");
	check_answer("OPTIONS * HTTP/1.1\r\n" H "\r\n", 204, "\r\n\r\n");
	check_answer("GET /nowhere HTTP/1.1\r\n" H "X-API-Key: wrong\r\n\r\n", 401,
	             "WWW-Authenticate: Bearer");
	check_answer("GET / HTTP/1.1\r\n" H "\r\n", 200, "hello");
}

TEST(params_and_query_come_decoded_and_checked)
{
	check_answer("GET /things/a%2F%C3%A9 HTTP/1.1\r\n" H "\r\n", 200,
	             "id=a/\xc3\xa9 n=7 yes=0");
	check_answer("GET /things/a?n=9&yes HTTP/1.1\r\n" H "\r\n", 200, "n=9 yes=1");
	check_answer("GET /things/a?yes=false HTTP/1.1\r\n" H "\r\n", 200, "yes=0");
	check_answer("GET /things/a?n=10 HTTP/1.1\r\n" H "\r\n", 400, "\"field\":\"n\"");
	check_answer("GET /things/a?n=1&n=1 HTTP/1.1\r\n" H "\r\n", 400, "more than once");
	check_answer("GET /things/a?yes=maybe HTTP/1.1\r\n" H "\r\n", 400, "\"field\":\"yes\"");
	check_answer("GET /things/a?other=1 HTTP/1.1\r\n" H "\r\n", 400, "\"field\":\"other\"");
}

TEST(a_header_with_a_line_break_in_its_value_is_not_sent)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "GET /things/a HTTP/1.1\r\n" H "\r\n");
	peer_await(&peer, "id=a");
	CHECK(peer_has(&peer, "X-Good: fine\r\n"));
	CHECK(!peer_has(&peer, "Set-Cookie"));
	close_both(&rig, &peer);
}

#define JSON_HEAD "POST /json HTTP/1.1\r\n" H "Content-Type: application/json\r\n"

TEST(a_json_body_is_held_to_its_type_size_and_form)
{
	check_answer(JSON_HEAD "Content-Length: 2\r\n\r\n{}", 201, "{}");
	check_answer("POST /json HTTP/1.1\r\n" H "\r\n", 201, "null");
	check_answer("POST /json HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}", 415,
	             "unsupported_media_type");
	check_answer("POST /json HTTP/1.1\r\n" H
	             "Content-Type: text/plain, application/json\r\nContent-Length: 2\r\n\r\n{}",
	             415, "application/json");
	check_answer(JSON_HEAD "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415,
	             "Content-Encoding");
	check_answer(JSON_HEAD "Content-Length: 3\r\n\r\n{,}", 400, "malformed");
	check_answer(JSON_HEAD "Content-Length: 65\r\n\r\n", 413, "up to 64 bytes");
	check_answer(JSON_HEAD "Content-Length: 999999999999\r\n\r\n", 413, "up to 64 bytes");
	check_answer(JSON_HEAD "Transfer-Encoding: chunked\r\n\r\n"
	                       "41\r\n[1234567890123456789012345678901234567890"
	                       "12345678901234567890123]\r\n0\r\n\r\n",
	             413, "up to 64 bytes");
	check_answer("GET /hello HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx", 400,
	             "takes no body");
}

TEST(a_malformed_request_is_answered_once_and_the_connection_closed)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "POST /json HTTP/1.1\r\n" H "Content-Length: 4\r\n"
	                "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	                "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 400);
	CHECK(peer_has(&peer, "Connection: close\r\n"));
	CHECK(peer_has(&peer, "\"code\":\"bad_request\""));
	CHECK(peer_has(&peer, "\"request_id\":\"req_"));
	CHECK(peer_has(&peer, "Cache-Control: no-store\r\n"));
	CHECK(!peer_has(&peer, "hello"));
	close_both(&rig, &peer);
}

TEST(bad_chunks_end_the_request_without_an_end_of_the_body)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "PUT /body HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
	                "3\r\nabc\r\nzz\r\n");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 400);
	CHECK_INT(seen.n_done, 1);
	CHECK_INT(seen.n_whole, 0);
	CHECK(!seen.has_body_end);
	close_both(&rig, &peer);
}

TEST(a_streamed_body_stops_at_its_limit)
{
	auto_call(buf_done) struct buf chunks = BUF_INIT(2 * 1024 * 1024);
	static const char block[65536];
	struct rig rig;
	struct peer peer, other;

	open_both(&rig, &peer);
	peer_say(&peer, "PUT /body HTTP/1.1\r\n" H "Content-Length: 1048577\r\n\r\n");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 413);
	peer_close(&peer);

	peer_open(&peer, &rig);
	peer_open(&other, &rig);
	peer_say(&peer, "PUT /body HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 17; i++)
		CHECK_INT(http_encode_chunk(&chunks, block, sizeof(block)), 0);
	while (chunks.len > 0 && peer.got.len == 0) {
		ssize_t n = send(peer.fd, chunks.data, chunks.len, MSG_NOSIGNAL);

		buf_consume(&chunks, n > 0 ? (size_t)n : 0);
		turn(&other);
	}
	peer_await(&peer, "up to 1048576 bytes");
	CHECK_INT(peer_status(&peer), 413);
	CHECK(!seen.has_body_end);
	peer_close(&other);
	close_both(&rig, &peer);
}

TEST(a_client_that_expects_continue_is_told_to_go_on_or_refused)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer,
	         "PUT /body HTTP/1.1\r\n" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	peer_await(&peer, "HTTP/1.1 100 Continue\r\n\r\n");
	peer_say(&peer, "hello");
	peer_await(&peer, "took 5");
	peer_forget(&peer);
	/* refused without reading: nobody knows whether the body comes, so the connection ends */
	peer_say(&peer,
	         "PUT /refused HTTP/1.1\r\n" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 409);
	CHECK(peer_has(&peer, "Connection: close"));
	close_both(&rig, &peer);
}

TEST(an_early_reply_drops_a_small_body_and_keeps_the_connection)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "PUT /refused HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nhello");
	peer_await(&peer, "conflict");
	peer_say(&peer, "worldGET /things/after HTTP/1.1\r\n" H "\r\n");
	peer_await(&peer, "id=after");
	close_both(&rig, &peer);
}

TEST(an_early_reply_to_a_large_body_closes_the_connection)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "PUT /refused HTTP/1.1\r\n" H "Content-Length: 1000000\r\n\r\nhello");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 409);
	CHECK(peer_has(&peer, "Connection: close"));
	close_both(&rig, &peer);
}

TEST(an_early_reply_to_a_body_of_unknown_length_closes_the_connection)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer,
	         "PUT /refused HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 409);
	CHECK(peer_has(&peer, "Connection: close"));
	close_both(&rig, &peer);
}

TEST(connection_close_and_http_1_0_end_the_connection_after_the_reply)
{
	static const char *const requests[] = {
		"GET /hello HTTP/1.1\r\n" H "Connection: close\r\n\r\n",
		"GET /hello HTTP/1.0\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct rig rig;
		struct peer peer;

		open_both(&rig, &peer);
		peer_say(&peer, requests[i]);
		peer_await_end(&peer);
		CHECK(peer_has(&peer, "\r\n\r\nhello"));
		CHECK(peer_has(&peer, "Connection: close\r\n"));
		close_both(&rig, &peer);
	}
}

TEST(events_come_as_ndjson_or_sse_by_accept)
{
	check_answer("GET /events HTTP/1.1\r\n" H "Accept: application/x-ndjson\r\n\r\n", 200,
	             "8\r\n{\"a\":1}\n\r\n1\r\n\n\r\n3\r\n{}\n\r\n0\r\n\r\n");
	check_answer("GET /events HTTP/1.0\r\n" H "Accept: text/event-stream\r\n\r\n", 200,
	             "\r\n\r\nid: 7\nevent: stdout\ndata: {\"a\":1}\n\n:\n\n"
	             "event: exited\ndata: {}\n\n");
	check_answer("GET /events HTTP/1.1\r\n" H "Accept: text/event-stream\r\n\r\n", 200,
	             "Cache-Control: no-store\r\n");
	check_answer("GET /events HTTP/1.1\r\n" H "Accept: */*\r\n\r\n", 406, "not_acceptable");
}

TEST(a_client_that_does_not_read_stops_the_writer_and_gets_all_in_the_end)
{
	struct rig rig;
	struct peer slow, other;

	open_both(&rig, &slow);
	peer_open(&other, &rig);
	loop_io_set(slow.io, 0);
	peer_say(&slow, "GET /big HTTP/1.1\r\n" H "\r\n");
	for (int i = 0; i < 20; i++) { /* the loop turns, and the writer waits */
		turn(&other);
	}
	CHECK(seen.to_write > 24 * 1024 * 1024);
	CHECK(seen.most_pending <= HTTP_HIGH_WATER + 32 * 1024);
	loop_io_set(slow.io, EPOLLIN);
	peer_await(&slow, "\r\n0\r\n\r\n");
	CHECK(slow.got.len > 32 * 1024 * 1024);
	CHECK(seen.most_pending <= HTTP_HIGH_WATER + 32 * 1024);
	peer_close(&other);
	close_both(&rig, &slow);
}

TEST(a_paused_body_is_not_read_and_goes_on_when_it_may)
{
	struct rig rig;
	struct peer peer, other;
	static const char block[65536] = "y";
	size_t sent = 0;
	ssize_t n;

	open_both(&rig, &peer);
	peer_open(&other, &rig);
	peer_say(&peer, "PUT /paused HTTP/1.1\r\n" H "Content-Length: 4194304\r\n\r\n");
	for (int i = 0; i < 50; i++) { /* as much as buffers take while nobody reads */
		while ((n = send(peer.fd, block, sizeof(block), MSG_NOSIGNAL)) > 0)
			sent += (size_t)n;
		turn(&other);
	}
	CHECK(sent < 2 * 1024 * 1024);
	CHECK_INT(seen.body_bytes, 0);
	http_body_pause(seen.kept, false);
	while (sent < 4194304) {
		n = send(peer.fd, block, MIN(sizeof(block), 4194304 - sent), MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		turn(&other);
	}
	peer_await(&peer, "took 4194304");
	peer_close(&other);
	close_both(&rig, &peer);
}

TEST(a_client_that_goes_away_is_noticed_while_its_reply_is_due)
{
	struct rig rig;
	struct peer peer, other;

	open_both(&rig, &peer);
	peer_open(&other, &rig);
	peer_say(&peer, "GET /keep HTTP/1.1\r\n" H "\r\n");
	peer_say(&other, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&other, "hello");
	CHECK(seen.kept != NULL);
	seen.n_done = seen.n_whole = 0;
	seen.stops_at_done = true;
	peer_close(&peer);
	rig_run(&rig);
	CHECK_INT(seen.n_done, 1);
	CHECK_INT(seen.n_whole, 0);
	close_both(&rig, &other);
}

TEST(a_body_that_ends_in_the_middle_is_no_whole_request)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	seen.stops_at_done = true;
	peer_say(&peer, "PUT /body HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nhello");
	CHECK_INT(shutdown(peer.fd, SHUT_WR), 0);
	rig_run(&rig);
	CHECK_INT(seen.n_done, 1);
	CHECK_INT(seen.n_whole, 0);
	CHECK(!seen.has_body_end);
	close_both(&rig, &peer);
}

TEST(a_reply_shorter_than_it_said_is_cut_and_not_ended)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	peer_say(&peer, "GET /short HTTP/1.1\r\n" H "\r\n");
	peer_await_end(&peer);
	CHECK_INT(seen.n_done, 1);
	CHECK_INT(seen.n_whole, 0);
	close_both(&rig, &peer);
}

TEST(slow_clients_meet_their_deadlines)
{
	static const struct {
		const char *says;
		int status; /* 0 = closed without a word */
	} rows[] = {
		{"", 0},
		{"GET /hello HTT", 408},
		{"PUT /body HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nhello", 408},
		{"PUT /refused HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nhello", 409},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rig rig;
		struct peer peer;

		open_both(&rig, &peer);
		*http_server_limits(rig.server) = (struct http_limits){
			.head_us = 20000,
			.body_idle_us = 20000,
			.write_idle_us = 20000,
			.keep_alive_us = 20000,
			.linger_us = 20000,
			.connections = 8,
		};
		if (*rows[i].says)
			peer_say(&peer, rows[i].says);
		peer_await_end(&peer);
		CHECK_INT(peer_status(&peer), rows[i].status);
		close_both(&rig, &peer);
	}
}

TEST(a_client_that_takes_nothing_is_cut_off_and_an_idle_one_closed)
{
	struct rig rig;
	struct peer peer;

	open_both(&rig, &peer);
	http_server_limits(rig.server)->write_idle_us = 20000;
	http_server_limits(rig.server)->keep_alive_us = 20000;
	loop_io_set(peer.io, 0);
	peer_say(&peer, "GET /big HTTP/1.1\r\n" H "\r\n");
	seen.stops_at_done = true;
	rig_run(&rig);
	CHECK_INT(seen.n_done, 1);
	CHECK_INT(seen.n_whole, 0);
	peer_close(&peer);

	seen.stops_at_done = false;
	peer_open(&peer, &rig);
	peer_say(&peer, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await_end(&peer);
	CHECK_INT(peer_status(&peer), 200);
	close_both(&rig, &peer);
}

TEST(a_page_of_another_site_is_refused)
{
	check_answer("POST /json HTTP/1.1\r\n" H "Origin: http://evil.example\r\n\r\n", 403,
	             "\"code\":\"forbidden\"");
	check_answer("GET /hello HTTP/1.1\r\n" H "Origin: null\r\n\r\n", 403, "forbidden");
	check_answer("GET /hello HTTP/1.1\r\n" H "Origin: http://localhost.evil\r\n\r\n", 403,
	             "forbidden");
	check_answer("GET /hello HTTP/1.1\r\nHost: localhost:7070\r\n"
	             "Origin: http://LOCALHOST:7070\r\n\r\n",
	             200, "hello");
}

/* A file limit is the process's: these tests run in a child of their own. */
static void leave_fds(int n)
{
	struct rlimit limit;
	int next = dup(0);

	CHECK(next >= 0);
	(void)close(next);
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)(next + n);
	CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_FORKED(idle_connections_give_way_when_fds_run_out, 20)
{
	struct rig rig;
	struct peer peers[12];

	seen = (struct seen){0};
	rig_open(&rig, &app);
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
		peer_make(&peers[i], &rig);
	leave_fds(4);
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		peer_connect(&peers[i]);
		peer_say(&peers[i], "GET /hello HTTP/1.1\r\n" H "\r\n");
		peer_await(&peers[i], "hello");
	}
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
		CHECK_INT(peers[i].is_closed, i < ARRAY_SIZE(peers) - 4);
}

TEST_FORKED(a_client_is_turned_away_when_fds_run_out_and_nobody_is_idle, 20)
{
	struct rig rig;
	struct peer busy[4], late, later;

	seen = (struct seen){0};
	rig_open(&rig, &app);
	peer_make(&late, &rig);
	peer_make(&later, &rig);
	for (size_t i = 0; i < ARRAY_SIZE(busy); i++) {
		peer_open(&busy[i], &rig);
		peer_say(&busy[i], "PUT /body HTTP/1.1\r\n" H "Content-Length: 1\r\n"
		                   "Expect: 100-continue\r\n\r\n");
		peer_await(&busy[i], "100 Continue");
	}
	leave_fds(0);
	peer_connect(&late);
	peer_await_end(&late);
	CHECK_INT(late.got.len, 0);
	peer_say(&busy[3], "x");
	peer_await(&busy[3], "took 1");
	peer_connect(&later);
	peer_say(&later, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&later, "hello");
}

TEST(past_the_cap_of_connections_the_longest_idle_gives_way)
{
	struct rig rig;
	struct peer a, b, c;

	open_both(&rig, &a);
	http_server_limits(rig.server)->connections = 2;
	peer_say(&a, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&a, "hello");
	peer_open(&b, &rig);
	peer_say(&b, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&b, "hello");
	peer_open(&c, &rig);
	peer_say(&c, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&c, "hello");
	peer_await_end(&a);
	CHECK(!b.is_closed && !c.is_closed);
	peer_close(&b);
	peer_close(&c);
	close_both(&rig, &a);
}

static void on_drained(struct loop *loop, void *arg)
{
	*(int *)arg += 1;
	loop_stop(loop);
}

TEST(a_drain_closes_the_idle_and_lets_the_busy_end)
{
	struct rig rig;
	struct peer busy, idle;
	int n_drained = 0;

	open_both(&rig, &busy);
	peer_open(&idle, &rig);
	peer_say(&busy, "GET /keep HTTP/1.1\r\n" H "\r\n");
	peer_say(&idle, "GET /hello HTTP/1.1\r\n" H "\r\n");
	peer_await(&idle, "hello");
	http_server_drain(rig.server, loop_now_us(rig.loop) + RIG_WAIT_US, on_drained, &n_drained);
	peer_await_end(&idle);
	CHECK_INT(n_drained, 0);
	http_reply(seen.kept, 200, "text/plain", "kept", 4);
	peer_await_end(&busy);
	CHECK(peer_has(&busy, "kept"));
	CHECK(peer_has(&busy, "Connection: close"));
	peer_close(&busy);
	if (n_drained == 0)
		rig_run(&rig);
	CHECK_INT(n_drained, 1);
	peer_close(&idle);
	rig_close(&rig);
}

TEST(a_drain_cuts_what_is_still_there_at_its_deadline)
{
	struct rig rig;
	struct peer busy;
	int n_drained = 0;

	open_both(&rig, &busy);
	peer_say(&busy,
	         "PUT /body HTTP/1.1\r\n" H "Content-Length: 9\r\nExpect: 100-continue\r\n\r\n");
	peer_await(&busy, "100 Continue");
	http_server_drain(rig.server, loop_now_us(rig.loop) + 20000, on_drained, &n_drained);
	rig_run(&rig);
	CHECK_INT(n_drained, 1);
	CHECK_INT(seen.n_done, 1);
	peer_await_end(&busy);
	close_both(&rig, &busy);
}

TEST(a_freed_server_ends_its_requests_once)
{
	struct rig rig;
	struct peer busy, other;

	open_both(&rig, &busy);
	peer_open(&other, &rig);
	peer_say(&busy, "GET /keep HTTP/1.1\r\n" H "\r\n");
	peer_say(&other, "GET /things/a HTTP/1.1\r\n" H "\r\n");
	peer_await(&other, "id=a");
	CHECK(seen.kept != NULL);
	peer_close(&other);
	peer_close(&busy);
	rig_close(&rig);
	CHECK_INT(seen.n_done, 1);
	CHECK_INT(seen.n_whole, 0);
}
