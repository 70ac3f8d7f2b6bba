// SPDX-License-Identifier: Apache-2.0
#include "http/parse.h"
#include "http/target.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

/* Reads one head, fed in steps. What http_head_read() said last. */
static int read_head(struct http_head *h, enum http_kind kind, const char *text, size_t len,
                     size_t step, struct err *err)
{
	auto_call(buf_done) struct buf in = BUF_INIT(256 * 1024);
	int r = 0;

	http_head_init(h, kind);
	for (size_t at = 0; at < len && r == 0; at += step) {
		CHECK_INT(buf_append(&in, text + at, MIN(step, len - at)), 0);
		r = http_head_read(h, &in, err);
	}
	return r;
}

static enum err_code refusal(enum http_kind kind, const char *text, size_t len, size_t step)
{
	struct http_head h;
	struct err err = {0};
	int r = read_head(&h, kind, text, len, step, &err);

	http_head_done(&h);
	return r < 0 ? err.code : ERR_NONE;
}

#define H "Host: h\r\n"
#define BAD(text)                                                                                  \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}

static const struct {
	const char *text;
	size_t len;
} malformed[] = {
	/* request line */
	BAD("GET /\r\n" H "\r\n"),
	BAD("GET / HTTP/0.9\r\n" H "\r\n"),
	BAD("GET / HTTP/2.0\r\n" H "\r\n"),
	BAD("GET / HTTP/1.2\r\n" H "\r\n"),
	BAD("GET / HTTP/1.10\r\n" H "\r\n"),
	BAD("GET / http/1.1\r\n" H "\r\n"),
	BAD("GET /  HTTP/1.1\r\n" H "\r\n"),
	BAD("GET  / HTTP/1.1\r\n" H "\r\n"),
	BAD("GET / HTTP/1.1 \r\n" H "\r\n"),
	BAD(" GET / HTTP/1.1\r\n" H "\r\n"),
	BAD("\r\nGET / HTTP/1.1\r\n" H "\r\n"),
	BAD("GET\t/ HTTP/1.1\r\n" H "\r\n"),
	BAD("G(T / HTTP/1.1\r\n" H "\r\n"),
	BAD("GET / HTTP/1.1\n" H "\r\n"),
	BAD("GET / HTTP/1.1\r" H "\r\n"),
	BAD("GET /\0 HTTP/1.1\r\n" H "\r\n"),
	BAD("GET /a b HTTP/1.1\r\n" H "\r\n"),
	BAD("GET /\x80 HTTP/1.1\r\n" H "\r\n"),
	BAD("GET /a\\b HTTP/1.1\r\n" H "\r\n"),
	BAD("GET /a#b HTTP/1.1\r\n" H "\r\n"),
	BAD("GET a HTTP/1.1\r\n" H "\r\n"),
	BAD("GET * HTTP/1.1\r\n" H "\r\n"),
	BAD("GET http://h/ HTTP/1.1\r\n" H "\r\n"),
	BAD("CONNECT h:80 HTTP/1.1\r\n" H "\r\n"),
	BAD("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n"),
	BAD("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
	/* fields */
	BAD("GET / HTTP/1.1\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H H "\r\n"),
	BAD("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\nHost: u@h\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\nHost: h:99999\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\nHost: h/x\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\nHost:\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A b: c\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H ": c\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "no colon\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\r\n folded\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\r\n\tfolded\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\nB: c\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\rB: c\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\0c\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\x01\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "A: b\x7f\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "\n"),
	BAD("GET / HTTP/1.1\r\n" H "Authorization: a\r\nauthorization: b\r\n\r\n"),
	BAD("GET / HTTP/1.1\r\n" H "Expect: miracles\r\n\r\n"),
	/* framing */
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: -5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 5 5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 5,5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 5a\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551621\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Content-Length: 9999999999999999999\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked,\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
            "chunked\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n"),
	BAD("POST / HTTP/1.1\r\n" H
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n"),
};

TEST(every_malformed_head_is_a_bad_request_however_it_is_fed)
{
	for (size_t i = 0; i < ARRAY_SIZE(malformed); i++) {
		for (size_t step = 1; step <= 1024; step *= 4) {
			enum err_code code =
				refusal(HTTP_REQUEST, malformed[i].text, malformed[i].len, step);

			if (code != ERR_BAD_REQUEST)
				print_error("row %zu, step %zu: %s\n", i, step, malformed[i].text);
			CHECK_STR(err_code_name(code), "bad_request");
		}
	}
}

TEST(a_head_is_read_the_same_byte_by_byte_and_at_once)
{
	static const char text[] = "POST /a/b?c=d HTTP/1.1\r\nHost: example.org:80\r\n"
				   "X-Empty:\r\nx-padded: \t two words \t\r\n"
				   "Connection: Keep-Alive, Upgrade\r\nUpgrade: websocket\r\n"
				   "Content-Length: 12\r\nExpect: 100-Continue\r\n\r\n";

	for (size_t step = 1; step < sizeof(text); step++) {
		struct http_head h;
		struct err err;

		CHECK_INT(read_head(&h, HTTP_REQUEST, text, sizeof(text) - 1, step, &err), 1);
		CHECK_STR(h.method, "POST");
		CHECK_STR(h.target, "/a/b?c=d");
		CHECK_INT(h.minor, 1);
		CHECK_INT(h.n_fields, 7);
		CHECK_STR(http_head_find(&h, "HOST"), "example.org:80");
		CHECK_STR(http_head_find(&h, "x-empty"), "");
		CHECK_STR(http_head_find(&h, "X-Padded"), "two words");
		CHECK_STR(http_head_find(&h, "X-Absent"), NULL);
		CHECK_INT(h.framing, HTTP_LENGTH);
		CHECK_INT(h.length, 12);
		CHECK(h.keep_alive && h.expects_continue && h.is_upgrade);
		http_head_done(&h);
	}
}

static enum err_code refusal_of_long(size_t target_len, size_t value_len, size_t n_fields)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1024 * 1024);
	auto_free char *filler = xcalloc(MAX(target_len, value_len) + 1, 1);

	memset(filler, 'a', MAX(target_len, value_len));
	CHECK_INT(buf_printf(&text, "GET /%.*s HTTP/1.1\r\n" H, (int)target_len, filler), 0);
	for (size_t i = 0; i < n_fields; i++)
		CHECK_INT(buf_printf(&text, "A: %.*s\r\n", (int)value_len, filler), 0);
	CHECK_INT(buf_append_str(&text, "\r\n"), 0);
	for (size_t step = 1; step < 100; step += 49)
		CHECK_INT(refusal(HTTP_REQUEST, text.data, text.len, step),
		          refusal(HTTP_REQUEST, text.data, text.len, text.len));
	return refusal(HTTP_REQUEST, text.data, text.len, text.len);
}

TEST(long_heads_are_refused_by_what_is_long_in_them)
{
	CHECK_STR(err_code_name(refusal_of_long(8000, 1, 1)), "none");
	CHECK_STR(err_code_name(refusal_of_long(16384, 1, 1)), "uri_too_long");
	CHECK_STR(err_code_name(refusal_of_long(64 * 1024, 1, 1)), "uri_too_long");
	CHECK_STR(err_code_name(refusal_of_long(1, 32000, 1)), "none");
	CHECK_STR(err_code_name(refusal_of_long(1, 33000, 1)), "headers_too_large");
	CHECK_STR(err_code_name(refusal_of_long(1, 1, 99)), "none");
	CHECK_STR(err_code_name(refusal_of_long(1, 1, 100)), "headers_too_large");
	CHECK_STR(err_code_name(refusal_of_long(1, 4000, 9)), "headers_too_large");
}

TEST(other_forms_of_target_are_for_proxies_only)
{
	static const char *const forms[] = {
		"CONNECT example.org:443 HTTP/1.1\r\n" H "\r\n",
		"GET http://example.org/a HTTP/1.1\r\n" H "\r\n",
		"GET http://[::1]:80 HTTP/1.1\r\n" H "\r\n",
	};
	static const char *const never[] = {
		"CONNECT example.org HTTP/1.1\r\n" H "\r\n",
		"CONNECT /x HTTP/1.1\r\n" H "\r\n",
		"GET https://example.org/ HTTP/1.1\r\n" H "\r\n",
		"GET http://u@example.org/ HTTP/1.1\r\n" H "\r\n",
		"GET http:///x HTTP/1.1\r\n" H "\r\n",
		"GET ht HTTP/1.1\r\n" H "\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		CHECK_INT(refusal(HTTP_PROXY_REQUEST, forms[i], strlen(forms[i]), 7), ERR_NONE);
		CHECK_INT(refusal(HTTP_REQUEST, forms[i], strlen(forms[i]), 7), ERR_BAD_REQUEST);
	}
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		CHECK_INT(refusal(HTTP_PROXY_REQUEST, never[i], strlen(never[i]), 7),
		          ERR_BAD_REQUEST);
	CHECK_INT(refusal(HTTP_REQUEST, "OPTIONS * HTTP/1.1\r\n" H "\r\n", 31, 1), ERR_NONE);
}

TEST(a_response_says_how_its_body_ends)
{
	static const struct {
		const char *text;
		bool answers_head;
		enum http_framing framing;
		bool keep_alive;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, HTTP_LENGTH, true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, HTTP_CHUNKED,
	         true},
		{"HTTP/1.1 200\r\n\r\n", false, HTTP_UNTIL_CLOSE, false},
		{"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", false, HTTP_LENGTH, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, HTTP_NO_BODY, true},
		{"HTTP/1.1 204 \r\n\r\n", false, HTTP_NO_BODY, true},
		{"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", false, HTTP_NO_BODY,
	         true},
		{"HTTP/1.1 100 Continue\r\n\r\n", false, HTTP_NO_BODY, true},
		{"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false,
	         HTTP_LENGTH, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf in = BUF_INIT(1024);
		struct http_head h;
		struct err err;

		http_head_init(&h, HTTP_RESPONSE);
		h.is_head_reply = rows[i].answers_head;
		CHECK_INT(buf_append_str(&in, rows[i].text), 0);
		CHECK_INT(http_head_read(&h, &in, &err), 1);
		CHECK_INT(h.framing, rows[i].framing);
		CHECK_INT(h.keep_alive, rows[i].keep_alive);
		http_head_done(&h);
	}
}

TEST(a_malformed_response_is_refused)
{
	static const char *const rows[] = {
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/2 200 OK\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 204 OK\r\nTransfer-Encoding: x\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 1\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_INT(refusal(HTTP_RESPONSE, rows[i], strlen(rows[i]), 3), ERR_BAD_REQUEST);
}

/* Decodes a chunked body, fed in steps: what came out, "!" behind it for an error, "." for its end,
 * then what is left. */
static void decode(const char *text, size_t step, struct buf *out)
{
	auto_call(buf_done) struct buf in = BUF_INIT(64 * 1024);
	struct http_decoder d;
	const char *piece;
	size_t len;
	int r = HTTP_DECODE_MORE;

	buf_truncate(out, 0);
	http_decoder_init(&d, HTTP_CHUNKED, 0);
	for (size_t at = 0; at < strlen(text) && r >= 0; at += step) {
		CHECK_INT(buf_append(&in, text + at, MIN(step, strlen(text) - at)), 0);
		while ((r = http_decode(&d, &in, &piece, &len)) == HTTP_DECODE_DATA)
			CHECK_INT(buf_append(out, piece, len), 0);
	}
	CHECK_INT(buf_append_str(out, r < 0 ? "!" : r == HTTP_DECODE_END ? "." : ""), 0);
	if (r == HTTP_DECODE_END)
		CHECK_INT(buf_append(out, buf_str(&in), in.len), 0);
}

TEST(chunks_are_taken_apart_strictly)
{
	static const struct {
		const char *text, *wanted;
	} rows[] = {
		{"5\r\nhello\r\n0\r\n\r\n", "hello."},
		{"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET", "hello world.GET"},
		{"00005\r\nhello\r\n000\r\n\r\n", "hello."},
		{"A\r\n0123456789\r\n0\r\n\r\n", "0123456789."},
		{"5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", "hello."},
		{"0\r\nX-Trailer: dropped\r\nY:\r\n\r\nrest", ".rest"},
		{"5\r\nhell", "hell"},
		{"5\r\nhelloo\r\n0\r\n\r\n", "hello!"},
		{"5\nhello\r\n0\r\n\r\n", "!"},
		{"5\r\nhello\n0\r\n\r\n", "hello!"},
		{"5\rhello\r\n", "!"},
		{"\r\nhello\r\n", "!"},
		{"0x5\r\nhello\r\n", "!"},
		{"+5\r\nhello\r\n", "!"},
		{"-1\r\nhello\r\n", "!"},
		{" 5\r\nhello\r\n", "!"},
		{"5 \r\nhello\r\n", "!"},
		{"5 ;a\r\nhello\r\n", "!"},
		{"g\r\nhello\r\n", "!"},
		{"00000000000000005\r\nhello\r\n", "!"},
		{"ffffffffffffffff\r\nhello\r\n", "!"},
		{"8000000000000000\r\nhello\r\n", "!"},
		{"0\r\nbad trailer\r\n\r\n", "!"},
		{"0\r\n: no name\r\n\r\n", "!"},
		{"0\r\n folded\r\n\r\n", "!"},
		{"0\r\nA: b\nB: c\r\n\r\n", "!"},
		{"0\r\n\n", "!"},
		{"5;a\x01\r\nhello\r\n", "!"},
	};
	auto_call(buf_done) struct buf got = BUF_INIT(1024);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t step = 1; step < 20; step += 6) {
			decode(rows[i].text, step, &got);
			CHECK_STR(buf_str(&got), rows[i].wanted);
		}
	}
}

TEST(extensions_and_trailers_have_a_bound)
{
	auto_call(buf_done) struct buf text = BUF_INIT(64 * 1024);
	auto_call(buf_done) struct buf got = BUF_INIT(1024);

	for (int i = 0; i < 600; i++)
		CHECK_INT(buf_append_str(&text, "1;extension\r\nx\r\n"), 0);
	decode(text.data, 100, &got);
	CHECK(strchr(buf_str(&got), '!') != NULL);

	buf_truncate(&text, 0);
	CHECK_INT(buf_append_str(&text, "0\r\n"), 0);
	for (int i = 0; i < 600; i++)
		CHECK_INT(buf_append_str(&text, "Trailer: x\r\n"), 0);
	decode(text.data, 100, &got);
	CHECK_STR(buf_str(&got), "!");
}

TEST(what_is_encoded_in_chunks_decodes_again)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1024), got = BUF_INIT(1024);

	CHECK_INT(http_encode_chunk(&out, "hello ", 6), 0);
	CHECK_INT(http_encode_chunk(&out, "a world of chunks", 17), 0);
	CHECK_INT(http_encode_last_chunk(&out), 0);
	decode(out.data, 3, &got);
	CHECK_STR(buf_str(&got), "hello a world of chunks.");
}

TEST(a_body_that_is_cut_short_is_an_error_unless_the_end_ends_it)
{
	auto_call(buf_done) struct buf in = BUF_INIT(64);
	struct http_decoder d;
	const char *piece;
	size_t len;

	CHECK_INT(buf_append_str(&in, "abc"), 0);
	http_decoder_init(&d, HTTP_LENGTH, 5);
	CHECK_INT(http_decode(&d, &in, &piece, &len), HTTP_DECODE_DATA);
	CHECK_INT(len, 3);
	CHECK_INT(http_decode_eof(&d), -EPROTO);

	http_decoder_init(&d, HTTP_UNTIL_CLOSE, 0);
	CHECK_INT(http_decode_eof(&d), 0);
	CHECK(http_decoder_is_done(&d));
}

TEST(no_written_field_can_carry_a_second_line)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1024);

	CHECK_INT(http_encode_field(&out, "A", "b\r\nC: d"), -EINVAL);
	CHECK_INT(http_encode_field(&out, "A", "b\nC"), -EINVAL);
	CHECK_INT(http_encode_field(&out, "A b", "c"), -EINVAL);
	CHECK_INT(http_encode_field(&out, "", "c"), -EINVAL);
	CHECK_INT(out.len, 0);
	CHECK_INT(http_encode_field(&out, "A", "b c"), 0);
	CHECK_STR(out.data, "A: b c\r\n");
}

TEST(a_target_is_cut_before_it_is_decoded)
{
	struct http_target t;
	struct err err;

	CHECK_INT(http_target_parse("/v1/a%2Fb/c%20d+e?path=%2Ftmp%2Fx+y&flag&n=1=2&u=%C3%A9", &t,
	                            &err),
	          0);
	CHECK_INT(t.n_segments, 3);
	CHECK_STR(t.path, "/v1/a%2Fb/c%20d+e");
	CHECK_STR(t.segments[1], "a/b");
	CHECK_STR(t.segments[2], "c d+e");
	CHECK_INT(t.n_pairs, 4);
	CHECK_STR(t.pairs[0].value, "/tmp/x y");
	CHECK_STR(t.pairs[1].value, "");
	CHECK_STR(t.pairs[2].value, "1=2");
	CHECK_STR(t.pairs[3].value, "é");
	http_target_done(&t);
}

TEST(a_target_that_would_have_to_be_normalised_has_no_match)
{
	static const struct {
		const char *target, *code;
	} rows[] = {
		{"/a/../b", "bad_request"},
		{"/a/%2e%2E/b", "bad_request"},
		{"/a/./b", "bad_request"},
		{"/..", "bad_request"},
		{"//a", "not_found"},
		{"/a//b", "not_found"},
		{"/a/", "not_found"},
		{"/a%00b", "bad_request"},
		{"/a?x=%00", "invalid_field"},
		{"/a%", "bad_request"},
		{"/a%4", "bad_request"},
		{"/a%zz", "bad_request"},
		{"/a%c0%af", "bad_request"},
		{"/a%e0%80%af", "bad_request"},
		{"/a%ff", "bad_request"},
		{"/a?x=%ff", "invalid_field"},
		{"/a%0d%0ab", "bad_request"},
		{"/a?=x", "bad_request"},
		{"/a?%ed%a0%80", "bad_request"},
		{"/a?b&&c", "bad_request"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_target t;
		struct err err = {0};

		CHECK(http_target_parse(rows[i].target, &t, &err) < 0);
		CHECK_STR(err_code_name(err.code), rows[i].code);
	}
}

TEST(double_encoding_is_decoded_once)
{
	struct http_target t;
	struct err err;

	CHECK_INT(http_target_parse("/%252e%252e/%2525", &t, &err), 0);
	CHECK_STR(t.segments[0], "%2e%2e");
	CHECK_STR(t.segments[1], "%25");
	http_target_done(&t);
}

TEST(what_is_escaped_is_one_segment_again)
{
	auto_call(buf_done) struct buf out = BUF_INIT(256);
	struct http_target t;
	struct err err;

	CHECK_INT(buf_append_str(&out, "/"), 0);
	CHECK_INT(http_escape(&out, "a/../b?c=d&e%f+g hé\n"), 0);
	CHECK_STR(out.data, "/a%2F..%2Fb%3Fc%3Dd%26e%25f%2Bg%20h%C3%A9%0A");
	buf_truncate(&out, out.len - 3);
	CHECK_INT(http_target_parse(out.data, &t, &err), 0);
	CHECK_STR(t.segments[0], "a/../b?c=d&e%f+g hé");
	http_target_done(&t);
}

TEST(a_host_is_a_name_and_perhaps_a_port)
{
	static const struct {
		const char *text, *name;
		unsigned port;
	} rows[] = {
		{"localhost", "localhost", 0},
		{"a-b.c_d:7070", "a-b.c_d", 7070},
		{"[::1]", "::1", 0},
		{"[::1]:80", "::1", 80},
		{"", NULL, 0},
		{"h:", NULL, 0},
		{"h:0", NULL, 0},
		{"h:65536", NULL, 0},
		{"h:+1", NULL, 0},
		{"[::1", NULL, 0},
		{"[]", NULL, 0},
		{"[::1]x", NULL, 0},
		{"::1", NULL, 0},
		{"h h", NULL, 0},
		{"h%00", NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char name[HTTP_HOST_SIZE];
		unsigned port = 0;
		int r = http_host_parse(rows[i].text, name, &port);

		CHECK_INT(r, rows[i].name ? 0 : -EINVAL);
		if (rows[i].name) {
			CHECK_STR(name, rows[i].name);
			CHECK_INT(port, rows[i].port);
		}
	}
}

TEST(a_list_has_a_word_only_as_a_whole_item)
{
	CHECK(http_list_has("close", "close"));
	CHECK(http_list_has("keep-alive , CLOSE", "close"));
	CHECK(http_list_has("text/html;q=0.5,\ttext/event-stream;q=1", "text/event-stream"));
	CHECK(!http_list_has("closed", "close"));
	CHECK(!http_list_has("x close", "close"));
	CHECK(!http_list_has("", "close"));
	CHECK(!http_list_has(",,", "close"));
}
