// SPDX-License-Identifier: Apache-2.0
/*
 * What a guest hears from a door that lets nothing through. The first byte chooses: a DNS message,
 * or a request, which a policy denies or which is refused as a whole. Whatever a guest sends, it
 * gets at most one answer, which is readable, as long as it says, and never a way out: there is no
 * resolver here that could be asked.
 */
#include "base/fd.h"
#include "http/parse.h"
#include "net/packet/dns.h"
#include "wall/proxy.h"
#include "wall/stub.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID        "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BYTES_MAX ((size_t)64 * 1024)
#define TURNS     8

static struct loop *loop;
static bool is_over;
static unsigned n_answers;

static int forget(const void *message, size_t len, void *arg)
{
	(void)message;
	(void)len;
	(void)arg;
	return 0;
}

static void on_stop(struct loop *l, void *arg)
{
	(void)arg;
	loop_stop(l);
}

static void run_a_turn(void)
{
	loop_defer(loop, on_stop, NULL);
	assert(loop_run(loop) == 0);
}

static void on_answer(const struct buf *answer, const struct stub_asker *asker)
{
	const struct dns_query *query = asker->arg;
	struct dns_response response;

	n_answers++;
	if (query && dns_response_parse(answer->data, answer->len, query->id, &query->name,
	                                (enum dns_type)query->type, &response, NULL) == 0)
		for (size_t i = 0; i < response.n_addresses; i++)
			assert(stub_has_denied(&response.addresses[i]));
}

static void try_dns(struct door *door, const uint8_t *data, size_t size)
{
	struct dns_query query;
	bool is_read = dns_query_parse(data, size, &query) == DNS_NOERROR && query.has_name;
	struct stub_asker asker = {.answer = on_answer, .arg = is_read ? &query : NULL};
	bool is_dropped;

	n_answers = 0;
	assert(!stub_ask(door, data, size, &asker, &is_dropped));
	assert(n_answers == !is_dropped);
}

static void on_done(struct loop *l, void *arg)
{
	(void)l;
	(void)arg;
	is_over = true;
}

static void check_reply(struct buf *reply, bool is_head)
{
	struct http_head head;
	struct err err;

	http_head_init(&head, HTTP_RESPONSE);
	head.is_head_reply = is_head;
	assert(http_head_read(&head, reply, &err) == 1);
	assert(head.status == 200 || (head.status >= 400 && head.status < 600));
	assert(strcmp(http_head_find(&head, "x-cloche-wall"), "denied") == 0);
	assert(is_head || (head.framing == HTTP_LENGTH && head.length == reply->len));
	for (size_t i = 0; i < reply->len; i++)
		assert(reply->data[i] == '\n' || (reply->data[i] >= ' ' && reply->data[i] <= '~'));
	http_head_done(&head);
}

static void try_request(struct door *door, const uint8_t *data, size_t size, const char *refusal)
{
	struct buf first = BUF_INIT(BYTES_MAX), reply = BUF_INIT(BYTES_MAX);
	struct proxy_config config = {.door = door,
	                              .first = &first,
	                              .refusal = refusal,
	                              .port = 80,
	                              .done = on_done,
	                              .dialled = {.bits = 32}};
	struct proxy *p;
	char *room;
	int pair[2];
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0 ||
	    buf_append(&first, data, size) < 0)
		abort();
	config.guest_fd = pair[0];
	is_over = false;
	assert(proxy_new(&config, &p) == 0);
	assert(shutdown(pair[1], SHUT_WR) == 0);
	for (int i = 0; i < TURNS && !is_over; i++)
		run_a_turn();
	assert(buf_reserve(&reply, BYTES_MAX, &room) == 0);
	n = recv(pair[1], room, BYTES_MAX, MSG_DONTWAIT);
	if (n > 0) {
		buf_commit(&reply, (size_t)n);
		check_reply(&reply, size > 5 && memcmp(data, "HEAD ", 5) == 0);
	}
	proxy_free(p);
	(void)close(pair[1]);
	buf_done(&first);
	buf_done(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct doors doors = {.connections_max = 1, .conns_max = 1, .send = forget};
	int none[WALL_SOCKETS] = {-1, -1, -1, -1};
	struct door *door;

	if (size < 1 || size > BYTES_MAX)
		return 0;
	if (loop_new(&loop, NULL) < 0)
		abort();
	doors.loop = loop;
	assert(doors_open(&doors, ID, policy_new(), none, &door) == 0);
	if (data[0] % 3 == 0)
		try_dns(door, data + 1, size - 1);
	else
		try_request(door, data + 1, size - 1,
		            data[0] % 3 == 1 ? NULL : "no rule allows it");
	doors_close(door);
	run_a_turn();
	loop_free(loop);
	return 0;
}
