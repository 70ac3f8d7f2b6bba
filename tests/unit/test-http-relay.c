// SPDX-License-Identifier: Apache-2.0
/* A client, a server of ours that relays, and the server behind it, whose bytes the tests say. */
#include "http-rig.h"
#include "http/relay/relay.h"
#include "http/relay/relay_heads.h"

#define GET  "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
#define OK   "HTTP/1.1 200 OK\r\n"
#define BODY ((size_t)4 * 1024 * 1024)

static struct site {
	struct rig rig;
	struct peer client, server;
	struct relay relay;
	struct http_req *req; /* NULL: none is under way */
	int last_fault;       /* -1: none */
	int n_again, kept_fd;
	size_t out, in;
	bool refuses_until_close, may_again;
} site;

static void use_new_stream(void)
{
	int fds[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	site.server = (struct peer){.rig = &site.rig, .fd = fds[1]};
	buf_init(&site.server.got, 2 * BODY);
	CHECK_INT(loop_io_add(site.rig.loop, fds[1], EPOLLIN, peer_on_io, &site.server,
	                      &site.server.io),
	          0);
	relay_use(&site.relay, fds[0]);
}

static int put_request(struct buf *out, void *arg)
{
	const struct http_head *head = http_req_head(site.req);
	int r = buf_printf(out, "%s %s HTTP/1.1\r\n", head->method, head->target);

	(void)arg;
	for (size_t i = 0; r == 0 && i < head->n_fields; i++) {
		struct http_field f = http_head_field(head, i);

		if (!relay_field_is_of_connection(head, f.name))
			r = http_encode_field(out, f.name, f.value);
	}
	if (r == 0)
		r = relay_put_framing(head, out);
	if (r == 0 && head->is_upgrade)
		r = relay_put_upgrade(head, out);
	return r == 0 ? buf_append_str(out, "\r\n") : r;
}

static void put_reply(const struct http_head *head, void *arg)
{
	(void)arg;
	for (size_t i = 0; i < head->n_fields; i++)
		if (!relay_field_is_of_connection(head, http_head_field(head, i).name))
			http_reply_header(site.req, http_head_field(head, i).name,
			                  http_head_field(head, i).value);
	relay_reply_upgrade(site.req, head);
}

static void on_failed(enum relay_fault fault, void *arg)
{
	(void)arg;
	site.last_fault = (int)fault;
	if (relay_abandon(&site.relay))
		http_reply(site.req, 502, "text/plain", "fault", 5);
}

static void on_moved(size_t out, size_t in, void *arg)
{
	(void)arg;
	site.out += out;
	site.in += in;
}

static bool on_again(void *arg)
{
	(void)arg;
	site.n_again++;
	if (!site.may_again || relay_begin(&site.relay) < 0)
		return false;
	peer_close(&site.server);
	use_new_stream();
	return true;
}

static void on_keep(int fd, void *arg)
{
	(void)arg;
	site.kept_fd = fd;
}

static const struct relay_ops ops = {
	.put_request = put_request,
	.put_reply = put_reply,
	.failed = on_failed,
	.moved = on_moved,
	.again = on_again,
	.keep = on_keep,
	.takes_until_close = true,
};
static const struct relay_ops strict_ops = {
	.put_request = put_request, .put_reply = put_reply, .failed = on_failed};

static void free_relay(struct loop *loop, void *arg)
{
	(void)loop;
	relay_done(arg);
}

static void on_done(void *arg)
{
	(void)arg;
	relay_stop(&site.relay);
	loop_defer(site.rig.loop, free_relay, &site.relay);
	site.req = NULL;
}

static int divert(struct http_req *req, struct err *err)
{
	(void)err;
	site.req = req;
	relay_init(&site.relay, req, site.refuses_until_close ? &strict_ops : &ops, NULL);
	http_on_done(req, on_done, NULL);
	CHECK_INT(relay_begin(&site.relay), 0);
	use_new_stream();
	loop_stop(site.rig.loop);
	return 1;
}

static void begin(const char *request)
{
	static const struct http_app app = {.divert = divert};

	site = (struct site){.last_fault = -1,
	                     .kept_fd = -1,
	                     .may_again = site.may_again,
	                     .refuses_until_close = site.refuses_until_close};
	rig_open(&site.rig, &app);
	peer_open(&site.client, &site.rig);
	peer_say(&site.client, request);
	rig_run(&site.rig);
	CHECK(site.req != NULL);
}

static void end(void)
{
	if (site.kept_fd >= 0)
		(void)close(site.kept_fd);
	peer_close(&site.client);
	peer_close(&site.server);
	rig_close(&site.rig);
	site = (struct site){0};
}

TEST(a_request_goes_on_and_its_answer_comes_back_without_what_ends_at_each_connection)
{
	begin("GET /x HTTP/1.1\r\nHost: h\r\nKeep_Alive: 1\r\nX-One: 1\r\nX-Two: 2\r\n"
	      "Connection: X-One\r\n\r\n");
	peer_await(&site.server, "X-Two: 2\r\n");
	CHECK(!peer_has(&site.server, "X-One"));
	CHECK(!peer_has(&site.server, "Keep_Alive"));
	peer_say(&site.server, OK "Content-Length: 2\r\nConnection: X-A\r\nX-A: a\r\n"
	                          "X-B: b\r\n\r\nhi");
	peer_await(&site.client, "\r\n\r\nhi");
	CHECK(peer_has(&site.client, "X-B: b"));
	CHECK(!peer_has(&site.client, "X-A"));
	CHECK_INT(site.out, site.server.got.len);
	CHECK(site.in > 0);
	CHECK(site.kept_fd >= 0); /* it may serve another request */
	CHECK_INT(site.last_fault, -1);
	end();
}

TEST(a_stream_whose_answer_came_before_the_whole_request_is_not_kept)
{
	begin("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
	peer_await(&site.server, "\r\n\r\nab");
	peer_say(&site.server, OK "Content-Length: 2\r\n\r\nhi");
	peer_await(&site.client, "\r\n\r\nhi");
	CHECK_INT(site.kept_fd, -1);
	end();
}

TEST(chunks_are_framed_anew_and_trailers_do_not_pass)
{
	begin("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	      "2;ext=1\r\nab\r\n0\r\nX-Trailer: 1\r\n\r\n");
	peer_await(&site.server, "2\r\nab\r\n0\r\n\r\n");
	CHECK(!peer_has(&site.server, "ext"));
	CHECK(!peer_has(&site.server, "X-Trailer"));
	peer_say(&site.server, OK "Transfer-Encoding: chunked\r\n\r\n1;e\r\nx\r\n0\r\n"
	                          "X-Late: 1\r\n\r\n");
	peer_await(&site.client, "1\r\nx\r\n0\r\n\r\n");
	CHECK(!peer_has(&site.client, "X-Late"));
	end();
}

TEST(a_server_that_takes_nothing_holds_the_client_back_and_one_that_does_gets_all)
{
	auto_free char *body = xcalloc(1, BODY);
	size_t sent = 0, before;

	memset(body, 'b', BODY);
	begin("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n");
	peer_await(&site.server, "\r\n\r\n");
	loop_io_set(site.server.io, 0);
	do { /* until nothing moves any more */
		before = sent;
		for (int i = 0; i < 3; i++) {
			ssize_t n = send(site.client.fd, body + sent, BODY - sent, MSG_NOSIGNAL);

			sent += n > 0 ? (size_t)n : 0;
			loop_timer_set_in(site.rig.deadline, 1000);
			CHECK_INT(loop_run(site.rig.loop), 0);
		}
	} while (sent > before);
	CHECK(sent < BODY);
	CHECK(relay_is_stuck(&site.relay, 0));
	CHECK(!relay_is_stuck(&site.relay, RIG_WAIT_US));
	loop_io_set(site.server.io, EPOLLIN);
	site.rig.is_late = false;
	while (sent < BODY) {
		ssize_t n = send(site.client.fd, body + sent, BODY - sent, MSG_NOSIGNAL);

		sent += n > 0 ? (size_t)n : 0;
		loop_timer_set_in(site.rig.deadline, 1000);
		CHECK_INT(loop_run(site.rig.loop), 0);
	}
	peer_say(&site.server, OK "Content-Length: 0\r\n\r\n");
	peer_await(&site.client, "200 OK");
	CHECK(site.server.got.len > BODY);
	end();
}

TEST(after_101_bytes_go_as_they_are_both_ways_until_the_server_ends)
{
	begin("GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n");
	peer_await(&site.server, "Upgrade: raw\r\n\r\n");
	peer_say(&site.server, "HTTP/1.1 101 Sure\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n"
	                       "first");
	peer_await(&site.client, "\r\n\r\nfirst");
	CHECK(peer_has(&site.client, "Upgrade: raw"));
	peer_say(&site.client, "GET / no HTTP");
	peer_await(&site.server, "GET / no HTTP");
	peer_close(&site.server);
	peer_await_end(&site.client);
	CHECK_INT(site.last_fault, -1);
	end();
}

TEST(an_answer_until_the_connection_ends_is_whole_where_the_owner_takes_such)
{
	begin(GET);
	peer_await(&site.server, "\r\n\r\n");
	peer_say(&site.server, OK "\r\nall");
	peer_close(&site.server);
	peer_await(&site.client, "3\r\nall\r\n0\r\n\r\n");
	CHECK_INT(site.last_fault, -1);
	end();

	site.refuses_until_close = true;
	begin(GET);
	peer_await(&site.server, "\r\n\r\n");
	peer_say(&site.server, OK "\r\nall");
	peer_await(&site.client, "502");
	CHECK_INT(site.last_fault, RELAY_NO_HTTP);
	end();
}

TEST(what_is_no_answer_is_told_by_its_fault_and_the_client_gets_the_owners_reply)
{
	static const struct {
		const char *said;
		enum relay_fault fault;
		bool ends;
	} rows[] = {
		{"SSH-2.0-x\r\n\r\n", RELAY_NO_HTTP},
		{OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", RELAY_NO_HTTP},
		{"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n", RELAY_UNASKED},
		{"", RELAY_NO_ANSWER, true},
		{OK "Content-Le", RELAY_NO_ANSWER, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(GET);
		peer_await(&site.server, "\r\n\r\n");
		peer_say(&site.server, rows[i].said);
		if (rows[i].ends)
			peer_close(&site.server);
		peer_await(&site.client, "fault");
		CHECK_INT(peer_status(&site.client), 502);
		CHECK_INT(site.last_fault, rows[i].fault);
		end();
	}
}

TEST(an_answer_that_breaks_off_cuts_the_client_and_never_looks_whole)
{
	static const struct {
		const char *said, *then; /* NULL: the connection ends */
		enum relay_fault fault;
	} rows[] = {
		{OK "Content-Length: 9\r\n\r\nabc", NULL, RELAY_CUT_SHORT},
		{OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", NULL, RELAY_CUT_SHORT},
		{OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "zz\r\n", RELAY_BAD_BODY},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(GET);
		peer_await(&site.server, "\r\n\r\n");
		peer_say(&site.server, rows[i].said);
		peer_await(&site.client, "abc");
		if (rows[i].then)
			peer_say(&site.server, rows[i].then);
		else
			peer_close(&site.server);
		peer_await_end(&site.client);
		CHECK(!peer_has(&site.client, "0\r\n\r\n"));
		CHECK_INT(site.last_fault, rows[i].fault);
		end();
	}
}

TEST(some_interim_answers_are_passed_over_and_a_flood_of_them_is_none)
{
	begin(GET);
	peer_await(&site.server, "\r\n\r\n");
	for (int i = 0; i < 8; i++)
		peer_say(&site.server, "HTTP/1.1 103 Hints\r\n\r\n");
	peer_say(&site.server, OK "Content-Length: 2\r\n\r\nhi");
	peer_await(&site.client, "\r\n\r\nhi");
	CHECK(!peer_has(&site.client, "103"));
	end();

	begin(GET);
	peer_await(&site.server, "\r\n\r\n");
	for (int i = 0; i < 9; i++)
		peer_say(&site.server, "HTTP/1.1 103 Hints\r\n\r\n");
	peer_await(&site.client, "fault");
	CHECK_INT(site.last_fault, RELAY_NO_HTTP);
	end();
}

TEST(a_dead_stream_is_followed_by_another_only_before_a_byte_of_answer_or_body)
{
	site.may_again = true;
	begin(GET);
	(void)shutdown(site.server.fd, SHUT_WR);
	while (site.n_again == 0) {
		loop_timer_set_in(site.rig.deadline, 1000);
		CHECK_INT(loop_run(site.rig.loop), 0);
	}
	site.rig.is_late = false;
	peer_await(&site.server, "GET /x HTTP/1.1\r\n");
	peer_say(&site.server, OK "Content-Length: 2\r\n\r\nhi");
	peer_await(&site.client, "\r\n\r\nhi");
	CHECK_INT(site.n_again, 1);
	end();

	site.may_again = true;
	begin("PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab");
	peer_await(&site.server, "\r\n\r\nab");
	peer_close(&site.server);
	peer_await(&site.client, "fault");
	CHECK_INT(site.n_again, 0);
	end();
}

TEST(a_client_that_leaves_ends_the_stream)
{
	begin(GET);
	peer_await(&site.server, "\r\n\r\n");
	peer_close(&site.client);
	peer_await_end(&site.server);
	CHECK(!site.req);
	end();
}
