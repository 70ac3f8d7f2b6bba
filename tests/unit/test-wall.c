// SPDX-License-Identifier: Apache-2.0
#include "test.h"
#include "wall/client.h"
#include "wall/proxy_head.h"
#include "wall/transport/bucket.h"
#include "wall/transport/pump.h"
#include "wall/transport/resolver.h"
#include "wall/transport/sockaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define PATIENCE_US UINT64_C(5000000)
#define SANDBOX     "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"

static void on_too_late(struct loop *loop, void *arg)
{
	(void)loop;
	(void)arg;
	CHECK(false); /* nothing happened in time */
}

/* Until somebody stops the loop. */
static void run(struct loop *loop)
{
	struct loop_timer *timer = loop_timer_new(loop, on_too_late, NULL);

	loop_timer_set_in(timer, PATIENCE_US);
	CHECK_INT(loop_run(loop), 0);
	loop_timer_free(timer);
}

static void on_stop(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

/* Lets what is deferred happen. */
static void run_a_turn(struct loop *loop)
{
	loop_defer(loop, on_stop, NULL);
	run(loop);
}

/* A DNS server on loopback, which does as it is told. */
enum manner { HONEST, SILENT, SPOOFED_FIRST, TRUNCATED, FAILING };

struct server {
	struct loop *loop;
	int udp_fd, tcp_fd, conn_fd;
	struct loop_io *udp_io, *tcp_io, *conn_io;
	struct sockaddr_storage address;
	enum manner manner;
	uint32_t ttl_s;
	unsigned n_queries, n_tcp;
	uint16_t ids[64], ports[64];
};

/* 93.184.216.34 for whatever was asked. */
static size_t make_answer(const struct server *s, const uint8_t *query, size_t len, uint8_t *out)
{
	const uint8_t record[] = {0xc0, 12, 0,  1,   0,   1, 0, 0, 0, (uint8_t)s->ttl_s,
	                          0,    4,  93, 184, 216, 34};
	size_t end = 12;

	while (end < len && query[end] != 0)
		end += 1U + query[end];
	end += 5;
	memcpy(out, query, end);
	out[2] = 0x81;
	out[3] = s->manner == FAILING ? 0x82 : 0x80;
	memset(out + 6, 0, 6);
	if (s->manner == FAILING)
		return end;
	out[7] = 1;
	memcpy(out + end, record, sizeof(record));
	return end + sizeof(record);
}

static void on_udp(struct loop *loop, uint32_t events, void *arg)
{
	struct server *s = arg;
	uint8_t query[600], out[700];
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	ssize_t n =
		recvfrom(s->udp_fd, query, sizeof(query), 0, (struct sockaddr *)&from, &from_len);
	size_t len;

	(void)loop;
	(void)events;
	CHECK(n > 12);
	s->ids[s->n_queries % 64] = (uint16_t)(query[0] << 8 | query[1]);
	s->ports[s->n_queries % 64] = from.sin_port;
	s->n_queries++;
	if (s->manner == SILENT)
		return;
	len = make_answer(s, query, (size_t)n, out);
	if (s->manner == SPOOFED_FIRST) {
		out[0] ^= 1;
		out[len - 1] = 66;
		CHECK(sendto(s->udp_fd, out, len, 0, (struct sockaddr *)&from, from_len) > 0);
		out[0] ^= 1;
		out[len - 1] = 34;
	}
	if (s->manner == TRUNCATED)
		out[2] |= 2;
	CHECK(sendto(s->udp_fd, out, len, 0, (struct sockaddr *)&from, from_len) > 0);
}

static void on_tcp_query(struct loop *loop, uint32_t events, void *arg)
{
	struct server *s = arg;
	uint8_t query[600], out[700];
	ssize_t n = recv(s->conn_fd, query, sizeof(query), 0); /* it is sent in one piece */
	size_t len;

	(void)loop;
	(void)events;
	CHECK(n > 14);
	s->n_tcp++;
	len = make_answer(s, query + 2, (size_t)n - 2, out + 2);
	out[0] = (uint8_t)(len >> 8);
	out[1] = (uint8_t)len;
	CHECK_INT(send(s->conn_fd, out, 3, 0), 3); /* and answered in two */
	CHECK_INT(send(s->conn_fd, out + 3, len - 1, 0), (ssize_t)len - 1);
	loop_io_removep(&s->conn_io);
	(void)close(s->conn_fd);
}

static void on_tcp(struct loop *loop, uint32_t events, void *arg)
{
	struct server *s = arg;

	(void)events;
	s->conn_fd = accept(s->tcp_fd, NULL, NULL);
	CHECK_INT(loop_io_add(loop, s->conn_fd, EPOLLIN, on_tcp_query, s, &s->conn_io), 0);
}

/* The same port by UDP and by TCP; others may have the one or the other. */
static bool server_bind(struct server *s)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);
	const int on = 1;

	s->udp_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s->tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_INT(setsockopt(s->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	CHECK_INT(bind(s->udp_fd, (struct sockaddr *)&in, sizeof(in)), 0);
	CHECK_INT(getsockname(s->udp_fd, (struct sockaddr *)&in, &len), 0);
	memcpy(&s->address, &in, sizeof(in));
	if (bind(s->tcp_fd, (struct sockaddr *)&in, sizeof(in)) == 0)
		return true;
	(void)close(s->udp_fd);
	(void)close(s->tcp_fd);
	return false;
}

static void server_open(struct server *s, struct loop *loop, enum manner manner)
{
	*s = (struct server){.loop = loop, .manner = manner, .ttl_s = 60};
	while (!server_bind(s))
		;
	CHECK_INT(listen(s->tcp_fd, 4), 0);
	CHECK_INT(loop_io_add(loop, s->udp_fd, EPOLLIN, on_udp, s, &s->udp_io), 0);
	CHECK_INT(loop_io_add(loop, s->tcp_fd, EPOLLIN, on_tcp, s, &s->tcp_io), 0);
}

static void server_close(struct server *s)
{
	loop_io_remove(s->udp_io);
	loop_io_remove(s->tcp_io);
	(void)close(s->udp_fd);
	(void)close(s->tcp_fd);
}

static struct {
	struct loop *loop;
	struct server servers[2];
	struct resolver *resolver;
	unsigned n_wanted, n_told, n_failed;
	struct dns_response last;
} dns;

static void dns_open(enum manner first, enum manner second)
{
	struct resolver_config config = {.n_servers = 2, .patience_us = 50000};

	memset(&dns, 0, sizeof(dns));
	CHECK_INT(loop_new(&dns.loop, NULL), 0);
	server_open(&dns.servers[0], dns.loop, first);
	server_open(&dns.servers[1], dns.loop, second);
	config.loop = dns.loop;
	config.servers[0] = dns.servers[0].address;
	config.servers[1] = dns.servers[1].address;
	dns.resolver = resolver_new(&config);
}

static void dns_close(void)
{
	resolver_free(dns.resolver);
	server_close(&dns.servers[0]);
	server_close(&dns.servers[1]);
	loop_free(dns.loop);
}

static void on_response(const struct dns_response *response, void *arg)
{
	(void)arg;
	dns.n_told++;
	if (response)
		dns.last = *response;
	else
		dns.n_failed++;
	if (dns.n_told == dns.n_wanted)
		loop_stop(dns.loop);
}

static struct resolver_ask *ask(const char *name)
{
	struct hostname h;

	CHECK_INT(hostname_parse(name, strlen(name), &h, NULL), 0);
	return resolver_ask(dns.resolver, &h, DNS_A, on_response, NULL);
}

static void resolve(const char *name, unsigned times)
{
	dns.n_told = dns.n_failed = 0;
	dns.n_wanted = times;
	for (unsigned i = 0; i < times; i++)
		(void)ask(name);
	run(dns.loop);
}

static void check_address(const char *wanted)
{
	char text[ADDRESS_SIZE];

	CHECK_INT(dns.last.n_addresses, 1);
	address_format(&dns.last.addresses[0], text);
	CHECK_STR(text, wanted);
}

TEST(a_question_under_way_is_asked_once_and_its_answer_is_kept)
{
	dns_open(HONEST, HONEST);
	resolve("example.com", 5);
	check_address("93.184.216.34");
	resolve("example.com", 1);
	CHECK_INT(dns.n_failed, 0);
	CHECK_INT(dns.servers[0].n_queries, 1);
	dns_close();
}

TEST(an_answer_that_says_so_is_not_kept)
{
	dns_open(HONEST, HONEST);
	dns.servers[0].ttl_s = 0;
	resolve("example.com", 1);
	resolve("example.com", 1);
	CHECK_INT(dns.servers[0].n_queries, 2);
	dns_close();
}

TEST(an_answer_with_another_id_is_as_if_it_had_not_come)
{
	dns_open(SPOOFED_FIRST, HONEST);
	resolve("example.com", 1);
	check_address("93.184.216.34");
	CHECK_INT(dns.servers[1].n_queries, 0);
	dns_close();
}

TEST(a_server_that_is_silent_or_fails_is_followed_by_the_next)
{
	dns_open(SILENT, HONEST);
	resolve("example.com", 1);
	check_address("93.184.216.34");
	dns.servers[0].manner = FAILING;
	resolve("example.net", 1);
	check_address("93.184.216.34");
	CHECK_INT(dns.servers[1].n_queries, 2);
	dns_close();
}

TEST(where_nobody_answers_the_asker_is_told)
{
	dns_open(FAILING, FAILING);
	resolve("example.com", 2);
	CHECK_INT(dns.n_failed, 2);
	CHECK_INT(dns.servers[0].n_queries + dns.servers[1].n_queries, 4);
	dns_close();
}

TEST(what_does_not_fit_is_asked_again_by_tcp)
{
	dns_open(TRUNCATED, SILENT);
	resolve("example.com", 1);
	check_address("93.184.216.34");
	CHECK_INT(dns.servers[0].n_tcp, 1);
	dns_close();
}

TEST(ids_and_ports_of_questions_cannot_be_guessed)
{
	unsigned same_ids = 0, same_ports = 0;

	dns_open(HONEST, HONEST);
	dns.servers[0].ttl_s = 0;
	for (int i = 0; i < 32; i++)
		resolve("example.com", 1);
	for (int i = 1; i < 32; i++) {
		same_ids += dns.servers[0].ids[i] == dns.servers[0].ids[i - 1];
		same_ports += dns.servers[0].ports[i] == dns.servers[0].ports[i - 1];
	}
	CHECK(same_ids < 3);
	CHECK(same_ports < 3);
	dns_close();
}

TEST(who_gives_up_is_not_told)
{
	dns_open(HONEST, HONEST);
	resolver_cancel(ask("example.com")); /* before it is asked */
	resolve("example.com", 1);
	CHECK_INT(dns.n_told, 1);
	resolver_cancel(ask("example.com")); /* when it is known */
	run_a_turn(dns.loop);
	CHECK_INT(dns.n_told, 1);
	dns_close();
}

TEST(a_resolver_is_given_by_its_address)
{
	struct sockaddr_storage sa;
	struct address a;
	uint16_t port;

	CHECK_INT(resolver_parse_server("192.0.2.1:5353", &sa, NULL), 0);
	CHECK_INT(sockaddr_to(&sa, &a, &port), 0);
	CHECK_INT(port, 5353);
	CHECK_INT(resolver_parse_server("2001:db8::1", &sa, NULL), 0);
	CHECK_INT(sockaddr_to(&sa, &a, &port), 0);
	CHECK_INT(port, 53);
	CHECK_INT(resolver_parse_server("dns.example", &sa, NULL), -EINVAL);
}

/* A pump between two pairs: guest[1] and up[1] are the ends that the test holds. */
static struct {
	struct loop *loop;
	int guest[2], up[2];
	struct pump *pump;
	struct pace in_pace, out_pace;
	uint64_t in_bytes, out_bytes;
	bool is_done;
} flow;

static void on_count(uint64_t in_bytes, uint64_t out_bytes, void *arg)
{
	(void)arg;
	flow.in_bytes += in_bytes;
	flow.out_bytes += out_bytes;
	pace_spend(&flow.in_pace, in_bytes);
	pace_spend(&flow.out_pace, out_bytes);
	loop_stop(flow.loop);
}

static void on_pump_done(struct loop *loop, void *arg)
{
	(void)arg;
	flow.is_done = true;
	loop_stop(loop);
}

static void flow_open(const char *first)
{
	struct buf sent = BUF_INIT(100);
	struct pump_config config = {.first = &sent, .count = on_count, .done = on_pump_done};

	memset(&flow, 0, sizeof(flow));
	CHECK_INT(loop_new(&flow.loop, NULL), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, flow.guest), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, flow.up), 0);
	CHECK_INT(buf_append_str(&sent, first), 0);
	pace_init(&flow.in_pace, flow.loop, 0);
	pace_init(&flow.out_pace, flow.loop, 0);
	config.loop = flow.loop;
	config.in_pace = &flow.in_pace;
	config.out_pace = &flow.out_pace;
	config.guest_fd = flow.guest[0];
	config.up_fd = flow.up[0];
	CHECK_INT(pump_new(&config, &flow.pump), 0);
	buf_done(&sent);
}

static void flow_close(void)
{
	pump_free(flow.pump);
	pace_done(&flow.in_pace);
	pace_done(&flow.out_pace);
	run_a_turn(flow.loop);
	(void)close(flow.guest[1]);
	(void)close(flow.up[1]);
	loop_free(flow.loop);
}

static void check_read(int fd, const char *wanted)
{
	char data[100];
	ssize_t n = recv(fd, data, sizeof(data), 0);

	CHECK_MEM(data, n < 0 ? 0 : (size_t)n, wanted, strlen(wanted));
}

TEST(bytes_pass_both_ways_behind_those_that_were_read_before)
{
	flow_open("first ");
	CHECK_INT(send(flow.guest[1], "out", 3, 0), 3);
	run(flow.loop);
	check_read(flow.up[1], "first out");
	CHECK_INT(send(flow.up[1], "in", 2, 0), 2);
	run(flow.loop);
	check_read(flow.guest[1], "in");
	CHECK_INT(flow.in_bytes, 2);
	CHECK_INT(flow.out_bytes, 3);
	flow_close();
}

TEST(an_end_is_passed_on_and_the_other_way_goes_on)
{
	flow_open("");
	CHECK_INT(send(flow.guest[1], "ask", 3, 0), 3);
	CHECK_INT(shutdown(flow.guest[1], SHUT_WR), 0);
	run(flow.loop);
	for (int i = 0; i < 3; i++)
		run_a_turn(flow.loop);
	check_read(flow.up[1], "ask");
	CHECK_INT(recv(flow.up[1], (char[1]){0}, 1, 0), 0);
	CHECK(!flow.is_done);
	CHECK_INT(send(flow.up[1], "answer", 6, 0), 6);
	CHECK_INT(shutdown(flow.up[1], SHUT_WR), 0);
	while (!flow.is_done)
		run(flow.loop);
	check_read(flow.guest[1], "answer");
	flow_close();
}

TEST(who_does_not_read_is_not_read_for)
{
	static char block[4096];
	size_t sent = 0;

	flow_open("");
	for (int idle = 0; idle < 20; idle++) {
		ssize_t n = send(flow.guest[1], block, sizeof(block), MSG_DONTWAIT);

		if (n > 0) {
			sent += (size_t)n;
			idle = 0;
		}
		run_a_turn(flow.loop);
	}
	CHECK(flow.out_bytes <= sent);
	CHECK(flow.out_bytes < 2 * PUMP_BUFFER + 512 * 1024); /* and what the kernel holds */
	flow_close();
}

TEST(a_direction_is_not_faster_than_its_pace_and_the_other_is_not_slowed)
{
	static char block[20000];
	uint64_t started_us;

	flow_open("");
	pace_set(&flow.in_pace, 100000);
	started_us = loop_now_us(flow.loop);
	CHECK_INT(send(flow.up[1], block, sizeof(block), 0), sizeof(block));
	while (flow.in_bytes < sizeof(block))
		run(flow.loop);
	/* What can be saved up may pass at once. */
	CHECK(loop_now_us(flow.loop) - started_us > 90000);
	CHECK_INT(send(flow.guest[1], block, sizeof(block), 0), sizeof(block));
	run(flow.loop);
	CHECK_INT(flow.out_bytes, sizeof(block));
	flow_close();
}

TEST(a_faster_pace_holds_for_who_waits_already)
{
	static char block[100000];
	size_t sent = 0;

	flow_open("");
	pace_set(&flow.in_pace, 1024); /* it would take minutes */
	sent += (size_t)send(flow.up[1], block, sizeof(block), MSG_DONTWAIT);
	run(flow.loop);
	CHECK(flow.in_bytes <= 1024 && flow.in_bytes < sent);
	pace_set(&flow.in_pace, 0);
	while (flow.in_bytes < sent) {
		run(flow.loop);
		while (recv(flow.guest[1], block, sizeof(block), MSG_DONTWAIT) > 0)
			;
	}
	flow_close();
}

TEST(a_peer_that_has_hung_up_is_read_to_its_end_at_the_pace)
{
	static char block[8000];
	struct loop_stats before, after;

	flow_open("");
	pace_set(&flow.in_pace, 40000);
	CHECK_INT(send(flow.up[1], block, sizeof(block), 0), sizeof(block));
	CHECK_INT(shutdown(flow.guest[1], SHUT_WR), 0);
	(void)close(flow.up[1]);
	before = loop_stats(flow.loop);
	while (!flow.is_done)
		run(flow.loop);
	after = loop_stats(flow.loop);
	CHECK_INT(flow.in_bytes, sizeof(block));
	CHECK(after.turns - before.turns < 100); /* it does not spin meanwhile */
	flow.up[1] = -1;
	flow_close();
}

struct reader {
	struct pace_turn turn;
	unsigned n_turns;
};

static void on_reader_turn(void *arg)
{
	struct reader *r = arg;

	r->n_turns++;
	pace_spend(&flow.in_pace, pace_allow(&flow.in_pace, sizeof(flow)));
	pace_wait(&flow.in_pace, &r->turn);
	loop_stop(flow.loop);
}

TEST(who_stands_in_line_gets_turns_as_often_as_others)
{
	struct reader readers[3];

	flow_open("");
	pace_set(&flow.in_pace, 1000000);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		readers[i] = (struct reader){0};
		pace_turn_init(&readers[i].turn, on_reader_turn, &readers[i]);
		pace_wait(&flow.in_pace, &readers[i].turn);
	}
	while (readers[2].n_turns < 4)
		run(flow.loop);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		CHECK(readers[i].n_turns - readers[2].n_turns <= 1);
		pace_leave(&readers[i].turn);
	}
	flow_close();
}

/* What becomes of a request: written anew, or "STATUS why". */
static const char *pass(const char *text, const struct policy_header *set, size_t n_set)
{
	static char out_text[2000];
	struct buf in = BUF_INIT(4096), out = BUF_INIT(4096);
	struct proxy_request request;
	struct http_head head;
	const char *why = "";
	struct err err;
	int status;

	http_head_init(&head, HTTP_PROXY_REQUEST);
	CHECK_INT(buf_append_str(&in, text), 0);
	status = http_head_read(&head, &in, &err) == 1 ? proxy_request_read(&head, &request, &why)
	                                               : 400;
	if (status == 0) {
		CHECK_INT(proxy_request_write(&out, &head, &request,
		                              &(struct proxy_rewrite){.set = set, .n_set = n_set}),
		          0);
		proxy_request_done(&request);
		(void)snprintf(out_text, sizeof(out_text), "%s", buf_str(&out));
	} else {
		(void)snprintf(out_text, sizeof(out_text), "%d %s", status, why);
	}
	http_head_done(&head);
	buf_done(&in);
	buf_done(&out);
	return out_text;
}

#define CRLF "\r\n"
#define HOST "Host: example.com" CRLF

TEST(a_request_is_written_anew_without_what_is_one_connections_business)
{
	CHECK_STR(pass("GET /a/../b%2f%7ec?x=1 HTTP/1.1" CRLF "HOST: Example.COM." CRLF
	               "Connection: keep-alive, TE" CRLF "TE: trailers" CRLF "Keep-Alive: 5" CRLF
	               "Proxy-Authorization: x" CRLF "Accept: */*" CRLF CRLF,
	               NULL, 0),
	          "GET /b%2F~c?x=1 HTTP/1.1" CRLF HOST "Accept: */*" CRLF CRLF);
	CHECK_STR(pass("GET http://example.com:8080/x HTTP/1.1" CRLF
	               "Host: example.com:8080" CRLF CRLF,
	               NULL, 0),
	          "GET /x HTTP/1.1" CRLF "Host: example.com:8080" CRLF CRLF);
}

TEST(framing_is_said_by_the_wall)
{
	CHECK_STR(pass("POST / HTTP/1.1" CRLF HOST "content-length: 5" CRLF CRLF, NULL, 0),
	          "POST / HTTP/1.1" CRLF HOST "Content-Length: 5" CRLF CRLF);
	CHECK_STR(pass("POST / HTTP/1.1" CRLF HOST "transfer-encoding: chunked" CRLF CRLF, NULL, 0),
	          "POST / HTTP/1.1" CRLF HOST "Transfer-Encoding: chunked" CRLF CRLF);
}

TEST(a_field_that_is_set_replaces_every_copy_of_the_guests)
{
	char name[] = "authorization", value[] = "Bearer secret";
	const struct policy_header set = {name, value};

	CHECK_STR(pass("GET / HTTP/1.1" CRLF HOST "AUTHORIZATION: mine" CRLF CRLF, &set, 1),
	          "GET / HTTP/1.1" CRLF HOST "authorization: Bearer secret" CRLF CRLF);
}

TEST(a_request_that_two_servers_could_read_differently_is_refused)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{"GET / HTTP/1.1" CRLF "Host: a.com:80:80" CRLF CRLF, 400},
		{"GET http://other.com/ HTTP/1.1" CRLF HOST CRLF, 400},
		{"GET http://example.com:81/ HTTP/1.1" CRLF HOST CRLF, 400},
		{"GET / HTTP/1.0" CRLF CRLF, 400},
		{"GET /%00 HTTP/1.1" CRLF HOST CRLF, 400},
		{"GET /.. HTTP/1.1" CRLF HOST CRLF, 400},
		{"GET / HTTP/1.1" CRLF HOST "Connection: authorization" CRLF CRLF, 400},
		{"GET / HTTP/1.1" CRLF HOST "Upgrade: websocket" CRLF CRLF, 501},
		{"OPTIONS * HTTP/1.1" CRLF HOST CRLF, 400},
		{"TRACE / HTTP/1.1" CRLF HOST CRLF, 405},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_INT(strtol(pass(cases[i].text, NULL, 0), NULL, 10), cases[i].status);
}

TEST(a_rate_has_a_burst_and_comes_back_with_time)
{
	struct bucket b = {0};
	unsigned n = 0;

	while (bucket_take(&b, 1000000, 10, 5))
		n++;
	CHECK_INT(n, 5);
	CHECK(!bucket_take(&b, 1050000, 10, 5));
	CHECK(bucket_take(&b, 1100000, 10, 5));
	CHECK(!bucket_take(&b, 1100000, 10, 5));
	for (n = 0; bucket_take(&b, 100000000, 10, 5); n++)
		;
	CHECK_INT(n, 5);
}

/* The gateway's end, with the test as the wall. */
static struct {
	struct loop *loop;
	struct wall_client *client;
	int peer_fd, error;
	unsigned n_ends, n_decisions, n_attached;
	char name[HOSTNAME_SIZE + 1];
	uint64_t in_bytes;
} gate;

static void on_decision(const struct wall_decision *d, void *arg)
{
	(void)arg;
	gate.n_decisions++;
	(void)snprintf(gate.name, sizeof(gate.name), "%s", d->name);
}

static void on_bytes(const char *id, uint64_t in_bytes, uint64_t out_bytes, void *arg)
{
	(void)arg;
	(void)out_bytes;
	CHECK_STR(id, SANDBOX);
	gate.in_bytes += in_bytes;
}

static void on_attached(void *arg)
{
	(void)arg;
	gate.n_attached++;
}

static void on_end(int error, const char *certificate, void *arg)
{
	(void)certificate;
	(void)arg;
	gate.error = error;
	gate.n_ends++;
	loop_stop(gate.loop);
}

static void gate_attach(void)
{
	int pair[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	gate.peer_fd = pair[1];
	wall_client_attach(gate.client, pair[0]);
}

static void gate_open(void)
{
	static const struct wall_ops ops = {on_decision, on_bytes, on_attached};

	memset(&gate, 0, sizeof(gate));
	CHECK_INT(loop_new(&gate.loop, NULL), 0);
	gate.client = wall_client_new(gate.loop);
	wall_client_set_ops(gate.client, &ops, NULL);
	gate_attach();
}

static void gate_close(void)
{
	wall_client_free(gate.client);
	(void)close(gate.peer_fd);
	loop_free(gate.loop);
}

static void say(const void *message, size_t len)
{
	CHECK_INT(send(gate.peer_fd, message, len, 0), (ssize_t)len);
	run_a_turn(gate.loop);
	run_a_turn(gate.loop);
}

TEST(a_call_ends_with_the_walls_answer)
{
	struct wall_head head;
	char message[200];

	gate_open();
	(void)wall_client_set_policy(gate.client, SANDBOX, "\"deny-all\"", /* is_trusting= */ false,
	                             on_end, NULL);
	CHECK_INT(recv(gate.peer_fd, message, sizeof(message), 0), sizeof(head) + 10);
	memcpy(&head, message, sizeof(head));
	CHECK_INT(head.op, WALL_POLICY);
	head.op = WALL_ANSWER;
	head.error = ENOENT;
	CHECK_INT(send(gate.peer_fd, &head, sizeof(head), 0), sizeof(head));
	run(gate.loop);
	CHECK_INT(gate.error, -ENOENT);
	gate_close();
}

TEST(a_wall_that_dies_ends_every_call_and_the_next_is_told)
{
	gate_open();
	(void)wall_client_close(gate.client, SANDBOX, on_end, NULL);
	(void)close(gate.peer_fd);
	run(gate.loop);
	CHECK_INT(gate.error, -EPIPE);
	CHECK(!wall_client_is_attached(gate.client));
	(void)wall_client_close(gate.client, SANDBOX, on_end, NULL); /* while there is none */
	run(gate.loop);
	CHECK_INT(gate.n_ends, 2);
	gate_attach();
	CHECK_INT(gate.n_attached, 2);
	gate_close();
}

TEST(what_a_hostile_wall_says_is_bounded_and_of_sandboxes)
{
	struct wall_decision d = {
		.head = {.magic = WALL_MAGIC, .op = WALL_DECISION, .id = SANDBOX}};
	struct wall_bytes b = {.head = {.magic = WALL_MAGIC, .op = WALL_BYTES, .id = SANDBOX},
	                       .in_bytes = 7};

	gate_open();
	memset(d.name, 'x', sizeof(d.name)); /* without an end */
	memset(d.why, 'x', sizeof(d.why));
	say(&d, sizeof(d));
	CHECK_INT(gate.n_decisions, 1);
	CHECK_INT(strlen(gate.name), HOSTNAME_SIZE);
	say(&b, sizeof(b));
	CHECK_INT(gate.in_bytes, 7);
	say(&b, sizeof(b) - 1); /* another size */
	memset(b.head.id, '/', sizeof(b.head.id));
	say(&b, sizeof(b)); /* no sandbox's id */
	CHECK_INT(gate.in_bytes, 7);
	CHECK(wall_client_is_attached(gate.client));
	b.head.magic = 1;
	say(&b, sizeof(b));
	CHECK(!wall_client_is_attached(gate.client));
	gate_close();
}
