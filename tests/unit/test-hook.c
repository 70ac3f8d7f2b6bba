// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"
#include "base/log.h"
#include "hook/hook.h"
#include "hook/sign.h"
#include "outgoing/dial_msg.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PROJECT "prj_1"
#define SANDBOX "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct {
	char dir[64], db[96];
	struct loop *loop;
	struct store *store;
	struct event_log *events;
	struct dialer *dialer;
	struct hooks *hooks;
	struct hook_timing timing;
	int peer_fd; /* the dialer's end */
} rig;

static void open_all(void)
{
	const struct event_config events = {
		.boot_id = "",
		.limits = {.age_us = UINT64_MAX, .bytes = 1 << 20, .count = 1000, .rate = 1000},
	};
	struct event_config config = events;
	struct hooks_config hooks = {.timing = &rig.timing};
	int pair[2];

	CHECK_INT(loop_new(&rig.loop, NULL), 0);
	CHECK_INT(store_open(rig.db, &rig.store, NULL), 0);
	config.loop = rig.loop;
	config.store = rig.store;
	CHECK_INT(event_log_open(&config, &rig.events, NULL), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	rig.peer_fd = pair[0];
	rig.dialer = dialer_new(rig.loop);
	dialer_attach(rig.dialer, pair[1]);
	hooks.store = rig.store;
	hooks.events = rig.events;
	hooks.outgoing = (struct outgoing){.loop = rig.loop, .dialer = rig.dialer};
	CHECK_INT(hooks_open(&hooks, &rig.hooks, NULL), 0);
}

static void close_all(void)
{
	hooks_close(rig.hooks);
	dialer_free(rig.dialer);
	event_log_close(rig.events);
	store_close(rig.store);
	loop_free(rig.loop);
	(void)close(rig.peer_fd);
}

static void set_up(void)
{
	const struct project_row project = {.id = PROJECT, .name = "default"};

	log_init("test", LOG_ERROR);
	memset(&rig, 0, sizeof(rig));
	rig.timing = (struct hook_timing){1000, 4000, UINT64_MAX};
	(void)snprintf(rig.dir, sizeof(rig.dir), "/tmp/cloche-hook-XXXXXX");
	CHECK(mkdtemp(rig.dir) != NULL);
	(void)snprintf(rig.db, sizeof(rig.db), "%s/state.db", rig.dir);
	open_all();
	CHECK_INT(store_put_project(rig.store, &project, NULL), 0);
}

static void tear_down(void)
{
	close_all();
	(void)unlink(rig.db);
	CHECK_INT(rmdir(rig.dir), 0);
}

static void stop(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

static void turn(void)
{
	struct loop_timer *t = loop_timer_new(rig.loop, stop, NULL);

	loop_timer_set_in(t, 1000);
	CHECK_INT(loop_run(rig.loop), 0);
	loop_timer_free(t);
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		int turns_ = 0;                                                                    \
		while (!(condition)) {                                                             \
			CHECK(turns_++ < 5000);                                                    \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

static const struct hook *add_hook(void)
{
	const struct hook *h = NULL;
	const struct hook_wish wish = {.url = "http://example.com/x?y=1"};
	char secret[HOOK_SECRET_SIZE];

	CHECK_INT(hooks_add(rig.hooks, PROJECT, &wish, secret, &h, NULL), 0);
	return h;
}

static void add_event(enum event_type type)
{
	struct event e;

	(void)event_begin(&e, rig.events, type, PROJECT, SANDBOX);
	event_end(&e);
}

static bool take_request(struct dial_request *req)
{
	return recv(rig.peer_fd, req, sizeof(*req), MSG_DONTWAIT) == (ssize_t)sizeof(*req);
}

/* Waits for a call, and answers it with one end of a pair: the other is returned. */
static int answer_call(void)
{
	struct dial_request req;
	struct dial_reply reply = {.is_open = 1};
	int pair[2];

	UNTIL(take_request(&req));
	CHECK_STR(req.host, "example.com");
	CHECK_INT(req.port, 80);
	reply.tag = req.tag;
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	CHECK_INT(fd_send(rig.peer_fd, &reply, sizeof(reply), &pair[1], 1), sizeof(reply));
	(void)close(pair[1]);
	return pair[0];
}

static void refuse_call(void)
{
	struct dial_request req;
	struct dial_reply reply = {.message = "cannot connect: no"};

	UNTIL(take_request(&req));
	reply.tag = req.tag;
	CHECK_INT(fd_send(rig.peer_fd, &reply, sizeof(reply), NULL, 0), sizeof(reply));
}

static void read_until(int fd, const char *mark, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	UNTIL(({
		ssize_t n = recv(fd, text + len, size - len - 1, 0);

		len += n > 0 ? (size_t)n : 0;
		text[len] = '\0';
		strstr(text, mark) != NULL;
	}));
}

static void say(int fd, const char *text)
{
	CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void json_of(const struct hook *h, char *text, size_t size)
{
	auto_call(buf_done) struct buf out = BUF_INIT(4096);
	struct json_writer w;

	json_writer_init(&w, &out);
	hook_to_json(h, &w, NULL);
	CHECK_INT(json_writer_end(&w), 0);
	(void)snprintf(text, size, "%s", buf_str(&out));
}

static bool shows(const struct hook *h, const char *part)
{
	char text[4096];

	json_of(h, text, sizeof(text));
	return strstr(text, part) != NULL;
}

/* "wh_…" of its JSON, where it comes first. */
static const char *id_of(const struct hook *h)
{
	static char text[4096];

	json_of(h, text, sizeof(text));
	CHECK_INT(strncmp(text, "{\"id\":\"", 7), 0);
	*strchr(text + 7, '"') = '\0';
	return text + 7;
}

TEST(a_signature_is_that_of_the_standards_own_example)
{
	char signature[HOOK_SIGN_SIZE];
	const char *body = "{\"test\": 2432232314}";

	CHECK_INT(hook_sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	                    "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body),
	                    signature),
	          0);
	CHECK_STR(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
	CHECK_INT(hook_sign("whsec_dG9vIHNob3J0", "a", 1, body, strlen(body), signature), -EINVAL);
	CHECK_INT(hook_sign("secret", "a", 1, body, strlen(body), signature), -EINVAL);
}

TEST(an_entry_is_posted_and_a_2xx_moves_the_place)
{
	const struct hook *h;
	char text[8192];
	int fd;

	set_up();
	h = add_hook();
	add_event(EVENT_SANDBOX_CREATED);
	fd = answer_call();
	read_until(fd, "\"}", text, sizeof(text));
	CHECK(strstr(text, "POST /x?y=1 HTTP/1.1\r\nHost: example.com\r\n") == text);
	CHECK(strstr(text, "\r\nwebhook-signature: v1,") != NULL);
	CHECK(strstr(text, "\"type\":\"sandbox.created\"") != NULL);
	CHECK(!shows(h, "\"last_seq\":1"));
	say(fd, "HTTP/1.1 204 No Content\r\n\r\n");
	UNTIL(shows(h, "\"last_seq\":1,\"delivered\":1"));
	(void)close(fd);
	tear_down();
}

TEST(a_place_that_was_not_moved_is_where_the_next_start_goes_on)
{
	char text[8192];
	int fd;

	set_up();
	(void)add_hook();
	add_event(EVENT_SANDBOX_CREATED);
	fd = answer_call();
	read_until(fd, "sandbox.created", text, sizeof(text));
	(void)close(fd);
	close_all(); /* before an answer came */
	open_all();
	fd = answer_call();
	read_until(fd, "sandbox.created", text, sizeof(text));
	(void)close(fd);
	tear_down();
}

TEST(what_fails_is_tried_again_before_anything_else_is_sent)
{
	const struct hook *h;
	char text[8192];
	int fd;

	set_up();
	h = add_hook();
	add_event(EVENT_SANDBOX_CREATED);
	add_event(EVENT_SANDBOX_ENDED);
	refuse_call();
	UNTIL(shows(h, "\"failures\":1,\"last_error\":\"cannot connect: no\""));
	fd = answer_call();
	read_until(fd, "\"}", text, sizeof(text));
	say(fd, "nonsense\r\n\r\n");
	UNTIL(shows(h, "\"failures\":2,\"last_error\":\"the answer is not HTTP\""));
	(void)close(fd);
	fd = answer_call();
	read_until(fd, "sandbox.created", text, sizeof(text));
	say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	UNTIL(shows(h, "\"failures\":0,\"last_error\":null"));
	(void)close(fd);
	fd = answer_call();
	read_until(fd, "sandbox.ended", text, sizeof(text));
	(void)close(fd);
	tear_down();
}

TEST(an_entry_that_nobody_takes_for_too_long_is_left_behind_and_counted)
{
	const struct hook *h;

	set_up();
	rig.timing.give_up_us = 0;
	close_all();
	open_all();
	h = add_hook();
	add_event(EVENT_SANDBOX_CREATED);
	refuse_call();
	UNTIL(shows(h, "\"last_seq\":1,\"delivered\":0,\"dropped\":1"));
	tear_down();
}

TEST(a_removed_hook_sends_no_more_and_an_answer_to_it_is_dropped)
{
	struct dial_request req;
	struct dial_reply reply = {.is_open = 1};
	const struct hook *h;
	int pair[2];
	char byte;

	set_up();
	h = add_hook();
	add_event(EVENT_SANDBOX_CREATED);
	UNTIL(take_request(&req));
	CHECK_INT(hooks_remove(rig.hooks, "prj_2", id_of(h), NULL) < 0, 1);
	CHECK_INT(hooks_remove(rig.hooks, PROJECT, id_of(h), NULL), 0);
	reply.tag = req.tag;
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	CHECK_INT(fd_send(rig.peer_fd, &reply, sizeof(reply), &pair[1], 1), sizeof(reply));
	(void)close(pair[1]);
	UNTIL(recv(pair[0], &byte, 1, 0) == 0); /* it was closed */
	(void)close(pair[0]);
	tear_down();
}

TEST(a_dialer_that_dies_fails_its_calls_and_the_next_one_takes_them)
{
	struct dial_request req;
	const struct hook *h;
	int pair[2];

	set_up();
	h = add_hook();
	add_event(EVENT_SANDBOX_CREATED);
	UNTIL(take_request(&req));
	(void)close(rig.peer_fd);
	UNTIL(shows(h, "the dialer is gone"));
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	rig.peer_fd = pair[0];
	dialer_attach(rig.dialer, pair[1]);
	UNTIL(take_request(&req));
	CHECK_STR(req.host, "example.com");
	tear_down();
}
