// SPDX-License-Identifier: Apache-2.0
#include "http-rig.h"
#include "http/websocket.h"

#define WRITTEN_MAX (4 * 1024 * 1024)

static const unsigned char mask[4] = {0x11, 0x22, 0x33, 0x44};

/* What ws_decode() makes of raw bytes, fed byte by byte: the last message, or an error. */
static int decode(const void *bytes, size_t len, bool is_server, struct buf *ret)
{
	auto_call(buf_done) struct buf in = BUF_INIT(WRITTEN_MAX);
	struct ws_codec codec;
	int last = 0;

	ws_codec_init(&codec, is_server);
	for (size_t i = 0; i < len && last >= 0; i++) {
		enum ws_opcode op;
		const char *data;
		size_t data_len;
		int r;

		CHECK_INT(buf_append(&in, (const char *)bytes + i, 1), 0);
		r = ws_decode(&codec, &in, &op, &data, &data_len);
		if (r == 0)
			continue;
		last = r < 0 ? r : (int)op;
		buf_truncate(ret, 0);
		if (r > 0)
			CHECK_INT(buf_append(ret, data, data_len), 0);
	}
	ws_codec_done(&codec);
	return last;
}

TEST(frames_of_every_length_form_come_back)
{
	static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, WS_MESSAGE_MAX};
	auto_free char *data = xcalloc(WS_MESSAGE_MAX, 1);

	for (size_t i = 0; i < WS_MESSAGE_MAX; i++)
		data[i] = (char)(i * 7);
	for (size_t i = 0; i < ARRAY_SIZE(sizes) * 2; i++) {
		auto_call(buf_done) struct buf wire = BUF_INIT(WRITTEN_MAX);
		size_t size = sizes[i / 2], len = 0;
		struct ws_codec codec;
		const char *back = NULL;
		enum ws_opcode op;

		ws_codec_init(&codec, /* is_server= */ i & 1);
		CHECK_INT(ws_encode(&wire, WS_BINARY, data, size, i & 1 ? mask : NULL), 0);
		CHECK_INT(ws_decode(&codec, &wire, &op, &back, &len), 1);
		CHECK_INT(op, WS_BINARY);
		CHECK_MEM(back, len, data, size);
		CHECK_INT(wire.len, 0);
		ws_codec_done(&codec);
	}
}

TEST(fragments_make_a_message_and_control_frames_may_stand_between)
{
	static const char bytes[] = "\x01\x02h\xc3"
				    "\x89\x01!"
				    "\x00\x00"
				    "\x80\x01\xa9";
	auto_call(buf_done) struct buf got = BUF_INIT(64);

	CHECK_INT(decode(bytes, sizeof(bytes) - 1, /* is_server= */ false, &got), WS_TEXT);
	CHECK_STR(got.data, "hé");
}

TEST(frames_that_break_the_protocol_fail_the_connection)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool is_server;
		int result;
	} rows[] = {
		{"\x81\x01"
	         "a",
	         3, true, -EPROTO}, /* a client that does not mask */
		{"\x81\x81\0\0\0\0a", 7, false, -EPROTO},
		{"\xc1\x01"
	         "a",
	         3, false, -EPROTO}, /* reserved bits */
		{"\xa1\x01"
	         "a",
	         3, false, -EPROTO},
		{"\x91\x01"
	         "a",
	         3, false, -EPROTO},
		{"\x83\x00", 2, false, -EPROTO}, /* reserved opcodes */
		{"\x8b\x00", 2, false, -EPROTO},
		{"\x8f\x00", 2, false, -EPROTO},
		{"\x09\x00", 2, false, -EPROTO},         /* a fragmented ping */
		{"\x89\x7e\x00\x7e", 4, false, -EPROTO}, /* a long ping */
		{"\x80\x00", 2, false, -EPROTO},         /* the rest of nothing */
		{"\x01\x00\x81\x00", 4, false, -EPROTO}, /* a message within one */
		{"\x82\x7e\x00\x05", 4, false, -EPROTO}, /* a length longer than it must be */
		{"\x82\x7f\0\0\0\0\0\0\0\x05", 10, false, -EPROTO},
		{"\x82\x7f\x80\0\0\0\0\0\0\0", 10, false, -EPROTO},     /* 2^63 */
		{"\x82\x7f\0\0\0\0\0\x10\0\x01", 10, false, -EMSGSIZE}, /* a byte too much */
		{"\x81\x01\xff", 3, false, -EILSEQ},
		{"\x81\x02\xc0\xaf", 4, false, -EILSEQ},
		{"\x01\x01\xc3\x80\x01"
	         "a",
	         6, false, -EILSEQ},
		{"\x88\x01"
	         "a",
	         3, false, -EPROTO}, /* half a close code */
		{"\x88\x02\x03\xe7", 4, false, -EPROTO},
		{"\x88\x02\x03\xed", 4, false, -EPROTO}, /* 1005 is never sent */
		{"\x88\x02\xff\xff", 4, false, -EPROTO},
		{"\x88\x03\x03\xe8\xff", 5, false, -EILSEQ},
	};
	auto_call(buf_done) struct buf got = BUF_INIT(64);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = decode(rows[i].bytes, rows[i].len, rows[i].is_server, &got);

		if (r != rows[i].result)
			print_error("row %zu\n", i);
		CHECK_INT(r, rows[i].result);
	}
}

TEST(fragments_cannot_grow_past_the_limit_of_a_message)
{
	auto_call(buf_done) struct buf in = BUF_INIT(WRITTEN_MAX);
	auto_free char *data = xcalloc(600 * 1024, 1);
	struct ws_codec codec;
	const char *back;
	enum ws_opcode op;
	size_t len;

	ws_codec_init(&codec, /* is_server= */ false);
	for (int i = 0; i < 2; i++)
		CHECK_INT(ws_encode(&in, i == 0 ? WS_BINARY : WS_CONTINUE, data, 600 * 1024, NULL),
		          0);
	in.data[0] = WS_BINARY; /* not the last */
	CHECK_INT(ws_decode(&codec, &in, &op, &back, &len), -EMSGSIZE);
	ws_codec_done(&codec);
}

TEST(the_accept_key_is_that_of_the_rfc)
{
	char accept[WS_ACCEPT_SIZE];

	ws_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept);
	CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static struct {
	struct http_ws *ws;
	int n_closed;
	bool stops_at_close;
	struct loop *loop;
} seen;

static void on_message(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
                       void *arg)
{
	(void)arg;
	if (len == 3 && memcmp(data, "bye", 3) == 0)
		ws_close(ws, 1000, "as you wish");
	else
		CHECK_INT(ws_send(ws, op, data, len), 0);
}

static void on_close(struct http_ws *ws, void *arg)
{
	(void)arg;
	CHECK_INT(ws_send(ws, WS_TEXT, "x", 1), -EPIPE);
	seen.ws = NULL;
	seen.n_closed++;
	if (seen.stops_at_close)
		loop_stop(seen.loop);
}

static const struct http_ws_ops ops = {.on_message = on_message, .on_close = on_close};

static int echo(struct http_req *req, struct err *err)
{
	seen.loop = http_loop(req);
	return ws_accept(req, &ops, NULL, &seen.ws, err);
}

static const struct http_route routes[] = {{HTTP_GET, "/echo", echo, HTTP_BODY_NONE}};
static const struct http_app app = {.routes = routes, .n_routes = 1};

#define UPGRADE                                                                                    \
	"GET /echo HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n"                     \
	"Upgrade: websocket\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define V13 "Sec-WebSocket-Version: 13\r\n"

static void open_echo(struct rig *rig, struct peer *peer)
{
	memset(&seen, 0, sizeof(seen));
	rig_open(rig, &app);
	peer_open(peer, rig);
	peer_say(peer, UPGRADE KEY V13 "\r\n");
	peer_await(peer, "\r\n\r\n");
	CHECK_INT(peer_status(peer), 101);
	CHECK(peer_has(peer, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	peer_forget(peer);
}

static void send_frame(struct peer *peer, enum ws_opcode op, const char *data, size_t len)
{
	auto_call(buf_done) struct buf out = BUF_INIT(WRITTEN_MAX);

	CHECK_INT(ws_encode(&out, op, data, len, mask), 0);
	peer_send(peer, out.data, out.len);
}

TEST(a_message_is_echoed_and_a_ping_answered)
{
	struct rig rig;
	struct peer peer;

	open_echo(&rig, &peer);
	send_frame(&peer, WS_TEXT, "hello", 5);
	send_frame(&peer, WS_PING, "are you there", 13);
	send_frame(&peer, WS_BINARY, "\x01\x02\x03", 3);
	peer_await(&peer, "\x81\x05hello\x8a\x0d"
	                  "are you there\x82\x03\x01\x02\x03");
	peer_close(&peer);
	rig_close(&rig);
	CHECK_INT(seen.n_closed, 1);
}

TEST(a_close_is_answered_and_the_connection_ends)
{
	struct rig rig;
	struct peer peer;

	open_echo(&rig, &peer);
	send_frame(&peer, WS_CLOSE, "\x03\xe9leaving", 9);
	peer_await_end(&peer);
	CHECK_MEM(peer.got.data, peer.got.len, "\x88\x02\x03\xe9", 4);
	CHECK_INT(seen.n_closed, 1);
	peer_close(&peer);
	rig_close(&rig);
}

TEST(the_server_closes_first_and_waits_for_the_answer)
{
	struct rig rig;
	struct peer peer;

	open_echo(&rig, &peer);
	send_frame(&peer, WS_TEXT, "bye", 3);
	peer_await(&peer, "\x88\x0d\x03\xe8"
	                  "as you wish");
	CHECK_INT(seen.n_closed, 0);
	send_frame(&peer, WS_TEXT, "too late", 8);
	send_frame(&peer, WS_CLOSE, "\x03\xe8", 2);
	peer_await_end(&peer);
	CHECK(!peer_has(&peer, "too late"));
	CHECK_INT(seen.n_closed, 1);
	peer_close(&peer);
	rig_close(&rig);
}

TEST(a_broken_frame_is_answered_with_its_close_code)
{
	struct rig rig;
	struct peer peer;

	open_echo(&rig, &peer);
	peer_say(&peer, "\x81\x05hello"); /* not masked */
	peer_await_end(&peer);
	CHECK_MEM(peer.got.data, peer.got.len, "\x88\x02\x03\xea", 4);
	CHECK_INT(seen.n_closed, 1);
	peer_close(&peer);
	rig_close(&rig);
}

TEST(a_client_that_goes_away_closes_the_socket_once)
{
	struct rig rig;
	struct peer peer;

	open_echo(&rig, &peer);
	seen.stops_at_close = true;
	peer_close(&peer);
	rig_run(&rig);
	CHECK_INT(seen.n_closed, 1);
	rig_close(&rig);
	CHECK_INT(seen.n_closed, 1);
}

static struct { /* a server that takes a message only when the test lets it */
	struct http_ws *ws;
	char taken[64];
	size_t len;
	int n_closed;
} slow;

static void on_slow_message(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
                            void *arg)
{
	(void)op;
	(void)arg;
	CHECK(slow.len + len < sizeof(slow.taken));
	memcpy(slow.taken + slow.len, data, len);
	slow.len += len;
	ws_pause(ws, true);
	loop_stop(seen.loop);
}

static void on_slow_close(struct http_ws *ws, void *arg)
{
	(void)ws;
	(void)arg;
	slow.n_closed++;
	loop_stop(seen.loop);
}

static int accept_slow(struct http_req *req, struct err *err)
{
	static const struct http_ws_ops slow_ops = {
		.on_message = on_slow_message, .on_close = on_slow_close, .outlasts_client = true};

	seen.loop = http_loop(req);
	return ws_accept(req, &slow_ops, NULL, &slow.ws, err);
}

static void open_slow(struct rig *rig, struct peer *peer)
{
	static const struct http_route slow_routes[] = {
		{HTTP_GET, "/echo", accept_slow, HTTP_BODY_NONE}};
	static const struct http_app slow_app = {.routes = slow_routes, .n_routes = 1};

	memset(&slow, 0, sizeof(slow));
	rig_open(rig, &slow_app);
	peer_open(peer, rig);
	peer_say(peer, UPGRADE KEY V13 "\r\n");
	peer_await(peer, "\r\n\r\n");
}

TEST(what_a_client_sent_before_it_left_comes_and_then_its_end)
{
	auto_free char *output = xcalloc(1, HTTP_HIGH_WATER);
	struct rig rig;
	struct peer peer;

	for (int says_goodbye = 0; says_goodbye < 2; says_goodbye++) {
		open_slow(&rig, &peer);
		send_frame(&peer, WS_BINARY, "one", 3);
		rig_run(&rig);
		send_frame(&peer, WS_BINARY, "two", 3);
		if (says_goodbye)
			send_frame(&peer, WS_CLOSE, "\x03\xe8", 2);
		peer_close(&peer);
		/* Much that nobody will take, and nothing is said of it. */
		CHECK_INT(ws_send(slow.ws, WS_BINARY, output, HTTP_HIGH_WATER), 0);
		ws_pause(slow.ws, false);
		rig_run(&rig);
		CHECK_STR(slow.taken, "onetwo");
		CHECK_INT(slow.n_closed, 0);
		ws_pause(slow.ws, false);
		rig_run(&rig);
		CHECK_INT(slow.n_closed, 1);
		rig_close(&rig);
		CHECK_INT(slow.n_closed, 1);
	}
}

TEST(what_a_client_left_behind_does_not_wait_for_ever)
{
	struct loop_stats before, after;
	struct rig rig;
	struct peer peer;

	open_slow(&rig, &peer);
	http_server_limits(rig.server)->left_us = 200000;
	send_frame(&peer, WS_BINARY, "one", 3);
	rig_run(&rig);
	before = loop_stats(rig.loop);
	peer_close(&peer);
	rig_run(&rig);
	after = loop_stats(rig.loop);
	CHECK(!rig.is_late);
	CHECK_INT(slow.n_closed, 1);
	CHECK(after.turns - before.turns < 20); /* it waits, and does not ask again and again */
	rig_close(&rig);
}

TEST(a_flood_of_pings_without_reading_stays_within_the_buffer)
{
	struct rig rig;
	struct peer peer, other;
	auto_call(buf_done) struct buf pings = BUF_INIT(WRITTEN_MAX);
	size_t sent = 0, in_a_row = 0;

	open_echo(&rig, &peer);
	peer_open(&other, &rig);
	loop_io_set(peer.io, 0);
	for (int i = 0; i < 8000; i++)
		CHECK_INT(ws_encode(&pings, WS_PING, "0123456789012345678901234567890123456789", 40,
		                    mask),
		          0);
	/* until neither side takes more: the server stopped reading */
	while (in_a_row < 20 && sent < 64 * pings.len) {
		size_t at = sent % pings.len;
		ssize_t n = send(peer.fd, pings.data + at, pings.len - at, MSG_NOSIGNAL);

		in_a_row = n > 0 ? 0 : in_a_row + 1;
		sent += n > 0 ? (size_t)n : 0;
		peer_say(&other, "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
		peer_await(&other, "not_found");
		peer_forget(&other);
		CHECK(ws_pending(seen.ws) <= HTTP_HIGH_WATER + 1024);
	}
	CHECK_INT(in_a_row, 20);
	peer_close(&other);
	peer_close(&peer);
	rig_close(&rig);
}

TEST(what_is_no_upgrade_is_refused_with_a_typed_error)
{
	static const char *const requests[] = {
		"GET /echo HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /echo HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n" KEY V13 "\r\n",
		"GET /echo HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" KEY V13
		"\r\n",
		"GET /echo HTTP/1.0\r\nHost: h\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\n" KEY V13 "\r\n",
		UPGRADE KEY "\r\n",
		UPGRADE KEY "Sec-WebSocket-Version: 8\r\n\r\n",
		UPGRADE V13 "\r\n",
		UPGRADE KEY KEY V13 "\r\n",
		UPGRADE "Sec-WebSocket-Key: short\r\n" V13 "\r\n",
		UPGRADE "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ!!\r\n" V13 "\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct rig rig;
		struct peer peer;

		memset(&seen, 0, sizeof(seen));
		rig_open(&rig, &app);
		peer_open(&peer, &rig);
		peer_say(&peer, requests[i]);
		peer_await(&peer, "bad_request");
		CHECK_INT(peer_status(&peer), 400);
		peer_close(&peer);
		rig_close(&rig);
	}
}

TEST(a_page_of_another_site_gets_no_socket)
{
	struct rig rig;
	struct peer peer;

	memset(&seen, 0, sizeof(seen));
	rig_open(&rig, &app);
	peer_open(&peer, &rig);
	peer_say(&peer, UPGRADE KEY V13 "Origin: http://evil.example\r\n\r\n");
	peer_await(&peer, "forbidden");
	CHECK_INT(peer_status(&peer), 403);
	peer_close(&peer);
	rig_close(&rig);
}
