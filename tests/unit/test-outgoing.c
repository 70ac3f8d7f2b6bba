// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "base/log.h"
#include "outgoing/dial_msg.h"
#include "outgoing/outgoing_call.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct {
	struct outgoing outgoing;
	struct outgoing_call *call;
	int dialer_fd; /* the dialer's end */
	int status;
	char why[128], body[64], type[64];
	bool is_over;
} rig;

static void set_up(void)
{
	int pair[2];

	log_init("test", LOG_ERROR);
	memset(&rig, 0, sizeof(rig));
	CHECK_INT(loop_new(&rig.outgoing.loop, NULL), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	rig.dialer_fd = pair[0];
	rig.outgoing.dialer = dialer_new(rig.outgoing.loop);
	dialer_attach(rig.outgoing.dialer, pair[1]);
}

static void tear_down(void)
{
	outgoing_call_free(rig.call);
	dialer_free(rig.outgoing.dialer);
	loop_free(rig.outgoing.loop);
	(void)close(rig.dialer_fd);
}

static void on_reply(const struct outgoing_reply *reply, void *arg)
{
	const char *type = reply->head ? http_head_find(reply->head, "content-type") : NULL;

	(void)arg;
	rig.is_over = true;
	rig.status = reply->status;
	(void)snprintf(rig.why, sizeof(rig.why), "%s", reply->why ? reply->why : "");
	(void)snprintf(rig.body, sizeof(rig.body), "%.*s", (int)reply->len, reply->body);
	(void)snprintf(rig.type, sizeof(rig.type), "%s", type ? type : "");
	CHECK_INT(strlen(reply->body), reply->len);
}

static void stop(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void turn(void)
{
	struct loop_timer *t = loop_timer_new(rig.outgoing.loop, stop, NULL);

	loop_timer_set_in(t, 1000);
	CHECK_INT(loop_run(rig.outgoing.loop), 0);
	loop_timer_free(t);
}

static void until_over(void)
{
	for (int turns = 0; !rig.is_over; turns++) {
		CHECK(turns < 5000);
		turn();
	}
}

static void start(const char *url, size_t reply_max, uint64_t patience_us)
{
	const struct http_field fields[] = {{"Accept", "text/plain"}};
	const struct outgoing_request request = {.method = "PUT",
	                                         .url = url,
	                                         .fields = fields,
	                                         .n_fields = 1,
	                                         .body = "abc",
	                                         .len = 3,
	                                         .reply_max = reply_max,
	                                         .patience_us = patience_us};

	rig.is_over = false;
	outgoing_call_free(rig.call);
	rig.call = outgoing_call_new(&rig.outgoing, &request, on_reply, NULL);
	CHECK(!rig.is_over); /* never from inside */
}

/* The server's end of the connection. */
static int accept_call(void)
{
	struct dial_request req;
	struct dial_reply reply = {.is_open = 1};
	int pair[2];

	while (recv(rig.dialer_fd, &req, sizeof(req), MSG_DONTWAIT) < 0)
		turn();
	CHECK_STR(req.host, "a.example");
	CHECK_INT(req.port, 8080);
	reply.tag = req.tag;
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	CHECK_INT(fd_send(rig.dialer_fd, &reply, sizeof(reply), &pair[1], 1), sizeof(reply));
	(void)close(pair[1]);
	return pair[0];
}

/* A call to a server that sends these pieces, each in a write of its own, and then closes. */
static void call_server(size_t reply_max, const char *const *pieces)
{
	auto_fd int fd = -1;
	char text[512];

	start("http://a.example:8080/x?y=1", reply_max, 0);
	fd = accept_call();
	while (read(fd, text, sizeof(text)) < 0)
		turn();
	for (; *pieces; pieces++) {
		CHECK_INT(write(fd, *pieces, strlen(*pieces)), strlen(*pieces));
		turn();
	}
	(void)close(take_fd(&fd));
	until_over();
}
#define CALL_SERVER(reply_max, ...) call_server(reply_max, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_call_sends_what_it_was_given)
{
	char text[512] = "";
	size_t len = 0;
	auto_fd int fd = -1;

	set_up();
	start("http://a.example:8080/x?y=1", 0, 0);
	fd = accept_call();
	while (!strstr(text, "abc")) {
		ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

		len += n > 0 ? (size_t)n : 0;
		turn();
	}
	CHECK_STR(text, "PUT /x?y=1 HTTP/1.1\r\nHost: a.example:8080\r\nAccept: text/plain\r\n"
	                "User-Agent: cloche\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
	tear_down();
}

TEST(a_call_reads_a_body_however_it_is_framed)
{
	set_up();
	CALL_SERVER(10, "HTTP/1.1 200 OK\r\nContent-Ty", "pe: a/b\r\nContent-Length: 5\r\n\r\nhe",
	            "llo");
	CHECK_INT(rig.status, 200);
	CHECK_STR(rig.body, "hello");
	CHECK_STR(rig.type, "a/b");
	CALL_SERVER(10, "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n",
	            "3\r\nllo\r\n0\r\n\r\n");
	CHECK_INT(rig.status, 404);
	CHECK_STR(rig.body, "hello");
	CALL_SERVER(10, "HTTP/1.1 200 OK\r\n\r\nhel", "lo");
	CHECK_STR(rig.body, "hello");
	CALL_SERVER(10, "HTTP/1.1 204 OK\r\n\r\n");
	CHECK_INT(rig.status, 204);
	CHECK_STR(rig.body, "");
	tear_down();
}

TEST(a_call_reads_no_body_where_none_is_wanted)
{
	set_up();
	CALL_SERVER(0, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
	CHECK_INT(rig.status, 200);
	CHECK_STR(rig.body, "");
	tear_down();
}

TEST(a_call_refuses_what_a_server_may_not_send)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world", "too long"},
		{"HTTP/1.1 200 OK\r\n\r\nhello world", "too long"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "broke"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx", "not HTTP"},
		{"HTTP/1.1 100 Continue\r\n\r\n", "interim"},
		{"SSH-2.0-x\r\n", "not HTTP"},
		{"", "broke"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	         "not HTTP"},
	};

	set_up();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CALL_SERVER(10, rows[i].text);
		CHECK_INT(rig.status, 0);
		CHECK(strstr(rig.why, rows[i].why) != NULL);
		CHECK_STR(rig.body, "");
	}
	tear_down();
}

TEST(a_call_says_why_it_could_not_begin)
{
	set_up();
	start("ftp://a.example/", 0, 0);
	until_over();
	CHECK(strstr(rig.why, "http or https") != NULL);
	start("https://a.example/", 0, 0);
	until_over();
	CHECK(strstr(rig.why, "no certificates") != NULL);
	tear_down();
}

TEST(a_call_waits_no_longer_than_it_was_told)
{
	auto_fd int fd = -1;

	set_up();
	start("http://a.example:8080/", 0, 2000);
	fd = accept_call();
	until_over();
	CHECK_STR(rig.why, "no answer came in time");
	tear_down();
}

TEST(a_call_is_not_called_after_it_was_freed)
{
	auto_fd int fd = -1;

	set_up();
	start("http://a.example:8080/", 0, 0);
	fd = accept_call();
	outgoing_call_free(take_ptr(rig.call));
	CHECK(write(fd, "HTTP/1.1 200 OK\r\n\r\n", 19) <= 19);
	for (int i = 0; i < 20; i++)
		turn();
	CHECK(!rig.is_over);
	tear_down();
}
