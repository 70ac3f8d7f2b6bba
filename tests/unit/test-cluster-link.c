// SPDX-License-Identifier: Apache-2.0
/* The two ends of the socket between gateway and member: with each other, and with a stranger. */
#include "test.h"

#include "base/fd.h"
#include "daemon/gateway/cluster_link.h"
#include "member/gateway_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define NODES 1000

struct rig {
	struct loop *loop;
	struct cluster_link link;
	struct gateway_link *member; /* NULL: a stranger speaks by fd */
	int fd, n_lists, n_replies, error, streams, open_asked;
	char text[64];
	bool has_ended;
};

static struct rig rig;

static void on_nodes(void *arg)
{
	(void)arg;
	rig.n_lists++;
}

static void on_arrived(uint32_t from, int fd, void *arg)
{
	(void)arg;
	rig.streams += (int)from;
	(void)close(fd);
}

static void on_reply(const struct cluster_reply *reply, void *arg)
{
	(void)arg;
	rig.n_replies++;
	rig.error = reply->error;
	if (reply->fd >= 0) {
		rig.streams++;
		(void)close(reply->fd);
	}
	(void)snprintf(rig.text, sizeof(rig.text), "%s",
	               reply->json ? json_string_value(json_object_get(reply->json, "said"))
	                           : reply->message);
}

static void on_open(uint32_t seq, uint32_t node, void *arg)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)arg;
	rig.open_asked++;
	gateway_link_opened(rig.member, seq, node == 7 ? 0 : -EHOSTUNREACH, "no way", null_fd);
	(void)close(null_fd);
}

static void on_call(uint32_t seq, const char *name, const json_t *call, int fd, void *arg)
{
	auto_json json_t *answer = json_pack("{ss sb}", "said", name, "has_file", fd >= 0);

	close_fd(&fd);
	(void)call;
	(void)arg;
	gateway_link_answer(rig.member, seq, answer);
}

static void on_ended(void *arg)
{
	(void)arg;
	rig.has_ended = true;
}

static void on_turn(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void turn(void)
{
	struct loop_timer *t = loop_timer_new(rig.loop, on_turn, NULL);

	loop_timer_set_in(t, 2000);
	CHECK_INT(loop_run(rig.loop), 0);
	loop_timer_free(t);
}

static void begin(bool has_member)
{
	static const struct cluster_link_ops ops = {.arrived = on_arrived, .nodes = on_nodes};
	static const struct gateway_link_ops of_member = {
		.open = on_open, .call = on_call, .ended = on_ended};
	struct err err;
	int pair[2];

	rig = (struct rig){.fd = -1, .link = {.ops = &ops}};
	CHECK_INT(loop_new(&rig.loop, &err), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	cluster_link_attach(&rig.link, rig.loop, pair[0]);
	if (has_member)
		CHECK_INT(gateway_link_new(rig.loop, pair[1], &of_member, NULL, &rig.member), 0);
	else
		rig.fd = pair[1];
}

static void end(void)
{
	cluster_link_done(&rig.link);
	turn();
	close_fd(&rig.fd);
	gateway_link_free(rig.member);
	loop_free(rig.loop);
}

static struct cluster_node_row row_of(uint32_t node)
{
	struct cluster_node_row row = {.node = node, .is_alive = 1};

	for (uint32_t i = 0; i < TAGS_PER_NODE; i++)
		row.tags[i] = node * TAGS_PER_NODE + i;
	(void)snprintf(row.name, sizeof(row.name), "n%u", node);
	(void)snprintf(row.address, sizeof(row.address), "n%u.example:7071", node);
	return row;
}

TEST(a_gateway_learns_the_word_and_a_thousand_nodes)
{
	auto_free struct cluster_node_row *rows = xnew0n(struct cluster_node_row, NODES);

	begin(true);
	for (uint32_t i = 0; i < NODES; i++)
		rows[i] = row_of(i + 1);
	gateway_link_nodes(rig.member, rows, NODES);
	gateway_link_word(rig.member,
	                  &(struct cluster_word){.state = FENCE_HELD, .node = 3, .epoch = 9});
	for (int i = 0; i < 20 && rig.link.n_nodes == 0; i++)
		turn();
	CHECK_INT(rig.link.n_nodes, NODES);
	CHECK_INT(rig.link.word.node, 3);
	CHECK_INT(rig.n_lists, 1);
	CHECK_INT(tag_map_find(&rig.link.tags, 500 * TAGS_PER_NODE + 3), 500);
	CHECK_STR(cluster_link_node(&rig.link, 700)->name, "n700");
	CHECK(!cluster_link_node(&rig.link, 5000));
	rows[0].is_alive = 0;
	gateway_link_nodes(rig.member, rows, NODES - 1);
	for (int i = 0; i < 20 && rig.n_lists == 1; i++)
		turn();
	CHECK_INT(rig.link.n_nodes, NODES - 1);
	CHECK_INT(cluster_link_node(&rig.link, 1)->is_alive, 0);
	end();
}

TEST(what_is_asked_of_a_member_is_answered_to_who_asked)
{
	auto_json json_t *call = json_pack("{ss}", "call", "where");
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	begin(true);
	cluster_link_call(&rig.link, call, on_reply, NULL);
	turn();
	CHECK_INT(rig.n_replies, 1);
	CHECK_STR(rig.text, "where");
	cluster_link_open(&rig.link, 7, on_reply, NULL);
	turn();
	CHECK_INT(rig.streams, 1);
	cluster_link_open(&rig.link, 8, on_reply, NULL);
	turn();
	CHECK_INT(rig.error, -EHOSTUNREACH);
	CHECK_STR(rig.text, "no way");
	cluster_link_open(&rig.link, 7, on_reply, &rig);
	cluster_link_forget(&rig.link, &rig);
	turn();
	CHECK_INT(rig.open_asked, 3);
	CHECK_INT(rig.n_replies, 3);
	CHECK_INT(gateway_link_arrived(rig.member, 40, null_fd), 0);
	turn();
	CHECK_INT(rig.streams, 41);
	(void)close(null_fd);
	end();
}

TEST(who_waits_for_a_member_that_is_gone_is_told)
{
	auto_json json_t *call = json_pack("{ss}", "call", "where");

	begin(false);
	cluster_link_call(&rig.link, call, on_reply, NULL);
	cluster_link_open(&rig.link, 7, on_reply, NULL);
	turn();
	CHECK_INT(rig.n_replies, 0);
	close_fd(&rig.fd);
	turn();
	CHECK_INT(rig.n_replies, 2);
	CHECK_INT(rig.error, -EPIPE);
	cluster_link_open(&rig.link, 7, on_reply, NULL);
	CHECK_INT(rig.n_replies, 2); /* never before it returns */
	turn();
	CHECK_INT(rig.n_replies, 3);
	end();
}

TEST(a_call_that_is_too_long_is_refused_here)
{
	auto_free char *text = xcalloc(1, CLUSTER_MESSAGE_MAX + 1);
	auto_json json_t *call = NULL;

	memset(text, 'x', CLUSTER_MESSAGE_MAX);
	call = json_pack("{ss}", "call", text);
	begin(true);
	cluster_link_call(&rig.link, call, on_reply, NULL);
	turn();
	CHECK_INT(rig.error, -EMSGSIZE);
	CHECK(!rig.has_ended);
	end();
}

/* What a stranger says in the member's place. */
struct said {
	struct cluster_head head;
	uint32_t first, n, total; /* as in struct cluster_nodes */
	struct cluster_node_row rows[2];
};
static_assert(offsetof(struct said, rows) == offsetof(struct cluster_nodes, rows), "");

static bool is_refused(const void *message, size_t len, int fd)
{
	bool is;

	begin(false);
	CHECK_INT(fd_send(rig.fd, message, len, &fd, fd >= 0), len);
	turn();
	is = !rig.link.packets;
	end();
	return is;
}

#define LIST(change)                                                                               \
	({                                                                                         \
		struct said s = {.head = {CLUSTER_NODES, 0},                                       \
		                 .n = 2,                                                           \
		                 .total = 2,                                                       \
		                 .rows = {row_of(1), row_of(2)}};                                  \
		change;                                                                            \
		is_refused(&s, sizeof(s), -1);                                                     \
	})

TEST(a_gateway_refuses_lists_that_are_wrong)
{
	CHECK(!LIST((void)0));
	CHECK(LIST(s.n = 3));
	CHECK(LIST(s.n = 0));
	CHECK(LIST(s.n = UINT32_MAX));
	CHECK(LIST(s.total = UINT32_MAX));
	CHECK(LIST(s.total = 1));
	CHECK(LIST(s.first = 1));
	CHECK(LIST(s.first = UINT32_MAX));
	CHECK(LIST(s.head.seq = 1));
	CHECK(LIST(s.head.kind = 99));
	CHECK(LIST(s.head.kind = 0));
	CHECK(LIST(s.rows[1].node = 1));
	CHECK(LIST(s.rows[0].node = 0));
	CHECK(LIST(s.rows[0].is_alive = 2));
	CHECK(LIST(s.rows[1].tags[3] = s.rows[0].tags[1]));
	CHECK(LIST(s.rows[1].tags[3] = TAG_COUNT));
	CHECK(!LIST(s.rows[1].tags[3] = CLUSTER_NO_TAG));
	CHECK(LIST(memset(s.rows[0].name, 'x', sizeof(s.rows[0].name))));
	CHECK(LIST(s.rows[0].name[0] = '\n'));
	CHECK(LIST(memset(s.rows[0].address, 'x', sizeof(s.rows[0].address))));
	CHECK(LIST(s.rows[0].address[0] = '\0'));
}

TEST(a_gateway_refuses_messages_that_are_wrong)
{
	auto_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct cluster_told told = {.head = {CLUSTER_WORD, 0}, .word = {.state = FENCE_HELD}};
	struct cluster_opened opened = {.head = {CLUSTER_OPENED, 1}};
	struct cluster_arrived arrived = {.head = {CLUSTER_ARRIVED, 0}, .from = 2};
	auto_free char *long_one = xcalloc(1, CLUSTER_MESSAGE_MAX + 1);

	CHECK(!is_refused(&told, sizeof(told), -1));
	CHECK(is_refused(&told, sizeof(told) - 1, -1));
	CHECK(is_refused(&told, sizeof(told), null_fd)); /* no descriptor belongs to it */
	CHECK(is_refused(&told, 3, -1));
	told.word.state = 77;
	CHECK(is_refused(&told, sizeof(told), -1));
	told.word.state = FENCE_HELD;
	memset(told.word.code, 'x', sizeof(told.word.code));
	CHECK(is_refused(&told, sizeof(told), -1));
	CHECK(is_refused(&opened, sizeof(opened), null_fd)); /* nobody asked */
	CHECK(!is_refused(&arrived, sizeof(arrived), null_fd));
	CHECK(is_refused(&arrived, sizeof(arrived), -1));
	arrived.from = 0;
	CHECK(is_refused(&arrived, sizeof(arrived), null_fd));
	memcpy(long_one, &(struct cluster_head){CLUSTER_ANSWER, 1}, sizeof(struct cluster_head));
	CHECK(is_refused(long_one, CLUSTER_MESSAGE_MAX + 1, -1));
	CHECK(is_refused(long_one, 100, -1)); /* no JSON */
}

/* What a stranger says in the gateway's place. */
static bool is_refused_by_member(const void *message, size_t len, int fd)
{
	static const struct gateway_link_ops of_member = {
		.open = on_open, .call = on_call, .ended = on_ended};
	struct err err;
	int pair[2];

	rig = (struct rig){.fd = -1};
	CHECK_INT(loop_new(&rig.loop, &err), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_INT(gateway_link_new(rig.loop, pair[0], &of_member, NULL, &rig.member), 0);
	CHECK_INT(fd_send(pair[1], message, len, &fd, fd >= 0), len);
	turn();
	(void)close(pair[1]);
	gateway_link_free(rig.member);
	loop_free(rig.loop);
	return rig.has_ended;
}

TEST(a_member_refuses_messages_that_are_wrong)
{
	auto_fd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct cluster_open ask = {.head = {CLUSTER_OPEN, 1}, .node = 7};
	static const char call[] = "\6\0\0\0\1\0\0\0{\"call\":\"x\"}",
			  none[] = "\6\0\0\0\1\0\0\0[]";

	CHECK(!is_refused_by_member(&ask, sizeof(ask), -1));
	CHECK(is_refused_by_member(&ask, sizeof(ask), null_fd));
	CHECK(is_refused_by_member(&ask, sizeof(ask) - 1, -1));
	CHECK(!is_refused_by_member(call, sizeof(call) - 1, -1));
	CHECK(is_refused_by_member(call, sizeof(call) - 2, -1));
	CHECK(is_refused_by_member(none, sizeof(none) - 1, -1));
	ask.node = 0;
	CHECK(is_refused_by_member(&ask, sizeof(ask), -1));
	ask = (struct cluster_open){.head = {CLUSTER_OPEN, 0}, .node = 7};
	CHECK(is_refused_by_member(&ask, sizeof(ask), -1));
	ask = (struct cluster_open){.head = {CLUSTER_OPENED, 1}, .node = 7};
	CHECK(is_refused_by_member(&ask, sizeof(ask), -1));
}
