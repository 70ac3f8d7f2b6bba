// SPDX-License-Identifier: Apache-2.0
/*
 * What clients get of an exec's output, from a real spool through the readers, with a fake exec and
 * a fake request whose client takes bytes when the test says so.
 */
#include "api/execs/exec_reader.h"
#include "base/buf.h"
#include "base/json/json.h"
#include "base/parse.h"
#include "base/units.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct exec {
	struct spool *spool;
	enum exec_state state;
	struct err failure;
	struct list watches;
};

struct http_req {
	struct loop *loop;
	void *state;
	http_done_fn on_drain;
	void *on_drain_arg;
	http_done_fn on_done;
	void *on_done_arg;
	bool is_whole;
	struct buf body; /* all that was written */
	size_t taken;    /* of it, by the client */
	bool is_taking;  /* takes all at once */
	size_t most_pending;
	int status;
	bool is_begun, is_ended, is_aborted;
	enum err_code error;
};

static struct world {
	struct loop *loop;
	struct exec exec;
	struct http_req req;
	struct exec_reader *reader;
	char dir[64];
	int dir_fd;
} world;

/* The exec, as the readers see it. */
struct spool *exec_spool(struct exec *e)
{
	return e->spool;
}

enum exec_state exec_state(const struct exec *e)
{
	return e->state;
}

bool exec_is_over(const struct exec *e)
{
	return e->state >= EXEC_EXITED;
}

const struct err *exec_failure(const struct exec *e)
{
	return &e->failure;
}

const char *exec_id(const struct exec *e)
{
	(void)e;
	return "ex_fake";
}

void exec_kill(struct exec *e)
{
	e->state = EXEC_EXITED;
}

void exec_to_json(const struct exec *e, struct json_writer *w, const char *name)
{
	json_open_object(w, name);
	json_put_bool(w, "is_over", exec_is_over(e));
	json_close_object(w);
}

void exec_watch_add(struct exec *e, struct exec_watch *w)
{
	list_append(&e->watches, &w->link);
}

void exec_watch_remove(struct exec_watch *w)
{
	list_remove(&w->link);
}

/* The request. */
struct loop *http_loop(const struct http_req *req)
{
	return req->loop;
}

void http_set_state(struct http_req *req, void *state)
{
	req->state = state;
}

void *http_state(const struct http_req *req)
{
	return req->state;
}

void http_on_drain(struct http_req *req, http_done_fn fn, void *arg)
{
	req->on_drain = fn;
	req->on_drain_arg = arg;
}

void http_on_done(struct http_req *req, http_done_fn fn, void *arg)
{
	req->on_done = fn;
	req->on_done_arg = arg;
}

bool http_is_whole(const struct http_req *req)
{
	return req->is_whole;
}

enum http_method http_req_method(const struct http_req *req)
{
	(void)req;
	return HTTP_GET;
}

const char *http_request_id(const struct http_req *req)
{
	(void)req;
	return "req_fake";
}

void http_stream_start(struct http_req *req, int status, const char *type, int64_t length)
{
	(void)type;
	(void)length;
	req->is_begun = true;
	req->status = status;
}

int http_stream_write(struct http_req *req, const void *data, size_t len)
{
	int r = buf_append(&req->body, data, len);

	if (req->is_taking)
		req->taken = req->body.len;
	req->most_pending = MAX(req->most_pending, req->body.len - req->taken);
	return r;
}

size_t http_stream_pending(const struct http_req *req)
{
	return req->body.len - req->taken;
}

void http_stream_end(struct http_req *req)
{
	req->is_ended = true;
}

void http_stream_abort(struct http_req *req)
{
	req->is_aborted = true;
}

void http_reply_err(struct http_req *req, const struct err *err)
{
	req->error = err->code;
}

void http_reply_json(struct http_req *req, int status, const struct buf *json)
{
	http_stream_start(req, status, "application/json", (int64_t)json->len);
	CHECK_INT(http_stream_write(req, json->data, json->len), 0);
}

void event_stream_start(struct http_req *req, enum event_format format)
{
	(void)format;
	http_stream_start(req, 200, "application/x-ndjson", -1);
}

int event_stream_send(struct http_req *req, enum event_format format, const char *type,
                      uint64_t seq, const char *json, size_t len)
{
	int r = http_stream_write(req, json, len);

	(void)format;
	(void)type;
	(void)seq;
	return r < 0 ? r : http_stream_write(req, "\n", 1);
}

int event_stream_keepalive(struct http_req *req, enum event_format format)
{
	(void)format;
	return http_stream_write(req, "\n", 1);
}

static void world_begin(uint64_t spool_bytes)
{
	struct err err;

	world = (struct world){.dir = "/tmp/test-api-XXXXXX"};
	CHECK(mkdtemp(world.dir));
	world.dir_fd = open(world.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(loop_new(&world.loop, &err), 0);
	CHECK_INT(spool_new(world.dir_fd, "spool", spool_bytes, &world.exec.spool, &err), 0);
	list_init(&world.exec.watches);
	world.exec.state = EXEC_RUNNING;
	world.req = (struct http_req){.loop = world.loop, .is_taking = true};
	buf_init(&world.req.body, 64 * MIB);
}

static void world_end(void)
{
	world.req.is_whole = true;
	if (world.req.on_done)
		world.req.on_done(world.req.on_done_arg);
	CHECK(list_empty(&world.exec.watches));
	buf_done(&world.req.body);
	spool_free(world.exec.spool, /* unlink_file= */ true);
	loop_free(world.loop);
	(void)close(world.dir_fd);
	CHECK_INT(rmdir(world.dir), 0);
}

static void put(uint8_t kind, const void *data, size_t len)
{
	struct err err;

	CHECK_INT(spool_put(world.exec.spool, kind, data, len, &err), 0);
}

static void put_text(uint8_t kind, const char *text)
{
	put(kind, text, strlen(text));
}

static void on_turn_end(struct loop *loop, void *arg)
{
	(void)arg;
	loop_stop(loop);
}

/* Lets the loop turn until the reader has nothing left to do. */
static void turn(void)
{
	do {
		loop_defer(world.loop, on_turn_end, NULL);
		CHECK_INT(loop_run(world.loop), 0);
	} while (loop_job_is_running(world.reader->again));
}

static void tell(struct exec *e)
{
	struct exec_watch *w = list_first(&world.exec.watches, struct exec_watch, link);

	if (!e)
		list_remove(&w->link);
	w->fn(e, w->arg);
	turn(); /* a turn that has taken long leaves the rest to the next one */
}

static void read_result(void)
{
	world.reader = exec_result_new(&world.req, &world.exec, NULL, NULL, NULL);
	turn();
}

static void read_events(uint64_t after, bool is_following)
{
	const struct exec_events_options options = {
		.format = EVENTS_NDJSON, .after = after, .is_following = is_following};

	world.reader = exec_events_new(&world.req, &world.exec, &options, NULL, NULL);
	turn();
}

static const char *body(void)
{
	return buf_str(&world.req.body);
}

/* The whole body as JSON. */
static json_t *result(void)
{
	json_t *value = NULL;
	struct err err;

	CHECK(world.req.is_ended);
	CHECK_INT(json_parse(body(), world.req.body.len, &value, &err), 0);
	return value;
}

/* TYPE:text or TYPE~base64 of each event, separated by blanks. */
static const char *events(void)
{
	static char all[4096];
	const char *line = body();

	all[0] = '\0';
	while (*line) {
		size_t len = strcspn(line, "\n");
		json_t *value = NULL;
		const char *text, *base64;
		size_t at = strlen(all);
		struct err err;

		CHECK_INT(json_parse(line, len, &value, &err), 0);
		text = json_string_value(json_object_get(value, "text"));
		base64 = json_string_value(json_object_get(value, "base64"));
		(void)snprintf(all + at, sizeof(all) - at, "%s%s%s%s", at ? " " : "",
		               json_string_value(json_object_get(value, "type")),
		               text     ? ":"
		               : base64 ? "~"
		                        : "",
		               text     ? text
		               : base64 ? base64
		                        : "");
		json_decref(value);
		line += len + 1;
	}
	return all;
}

TEST(a_result_comes_when_the_exec_is_over_and_has_both_streams)
{
	world_begin(MIB);
	put_text(SPOOL_STDOUT, "out1 ");
	read_result();
	CHECK(!world.req.is_begun);
	put_text(SPOOL_STDERR, "err\n");
	put_text(SPOOL_STDOUT, "\"out2\"\n");
	world.exec.state = EXEC_EXITED;
	tell(&world.exec);
	turn();
	CHECK_STR(body(),
	          "{\"exec\":{\"is_over\":true},\"stdout\":\"out1 \\\"out2\\\"\\n\","
	          "\"stderr\":\"err\\n\",\"stdout_truncated\":false,\"stderr_truncated\":false}");
	world_end();
}

TEST(bytes_that_are_not_text_come_exactly_in_base64)
{
	json_t *value;

	world_begin(MIB);
	put(SPOOL_STDOUT, "a\xff", 2);
	put(SPOOL_STDOUT, "b\1c", 3);
	put(SPOOL_STDOUT, "\xe2\x82", 2);
	world.exec.state = EXEC_EXITED;
	read_result();
	value = result();
	CHECK_STR(json_string_value(json_object_get(value, "stdout_base64")), "Yf9iAWPigg==");
	CHECK(strstr(body(), "\"stdout\":\"a\xef\xbf\xbd"
	                     "b\\u0001c\xef\xbf\xbd"));
	CHECK(!json_object_get(value, "stderr_base64"));
	json_decref(value);
	world_end();
}

TEST(a_result_has_the_last_four_mib_of_a_stream_and_says_that_there_was_more)
{
	static char block[65536];
	json_t *value;
	const char *text;

	world_begin(16 * MIB);
	memset(block, 'a', sizeof(block));
	for (int i = 0; i < 100; i++)
		put(SPOOL_STDOUT, block, sizeof(block));
	put_text(SPOOL_STDOUT, "end");
	put_text(SPOOL_STDERR, "few");
	world.exec.state = EXEC_EXITED;
	read_result();
	value = result();
	text = json_string_value(json_object_get(value, "stdout"));
	CHECK_INT(strlen(text), 4 * MIB);
	CHECK_STR(text + 4 * MIB - 4, "aend");
	CHECK(json_is_true(json_object_get(value, "stdout_truncated")));
	CHECK(json_is_false(json_object_get(value, "stderr_truncated")));
	json_decref(value);
	world_end();
}

TEST(a_client_that_takes_nothing_costs_a_bounded_buffer)
{
	static char block[65536];
	json_t *value;

	world_begin(16 * MIB);
	memset(block, 1, sizeof(block)); /* six bytes each in JSON */
	for (int i = 0; i < 60; i++)
		put(SPOOL_STDOUT, block, sizeof(block));
	world.exec.state = EXEC_EXITED;
	world.req.is_taking = false;
	read_result();
	CHECK(world.req.is_begun && !world.req.is_ended);
	while (!world.req.is_ended) {
		world.req.taken = world.req.body.len;
		world.req.on_drain(world.req.on_drain_arg);
		turn();
	}
	CHECK(world.req.most_pending <= HTTP_HIGH_WATER + 6 * sizeof(block) + 1024);
	value = result();
	CHECK_INT(json_string_length(json_object_get(value, "stdout")), 60 * sizeof(block));
	json_decref(value);
	world_end();
}

TEST(an_exec_that_never_ran_is_an_error)
{
	world_begin(MIB);
	world.exec.state = EXEC_FAILED;
	(void)err_set(&world.exec.failure, ERR_FILE_NOT_FOUND, 0, "no such program");
	read_result();
	CHECK_INT(world.req.error, ERR_FILE_NOT_FOUND);
	CHECK(!world.req.is_begun);
	world_end();
}

TEST(a_removed_exec_is_gone_for_who_waits_for_its_result)
{
	world_begin(MIB);
	read_result();
	tell(NULL);
	CHECK_INT(world.req.error, ERR_GONE);
	world_end();
}

TEST(a_removed_exec_cuts_a_result_that_has_begun)
{
	static char block[65536];

	world_begin(16 * MIB);
	for (int i = 0; i < 60; i++)
		put(SPOOL_STDOUT, block, sizeof(block));
	world.exec.state = EXEC_EXITED;
	world.req.is_taking = false;
	read_result();
	tell(NULL);
	CHECK(world.req.is_aborted && !world.req.is_ended);
	world_end();
}

TEST(events_are_sent_as_they_come_until_the_exec_is_over)
{
	world_begin(MIB);
	put_text(SPOOL_STDOUT, "a");
	read_events(0, true);
	CHECK_STR(events(), "stdout:a");
	put_text(SPOOL_STDERR, "b");
	tell(&world.exec);
	CHECK_STR(events(), "stdout:a stderr:b");
	world.exec.state = EXEC_EXITED;
	tell(&world.exec);
	CHECK_STR(events(), "stdout:a stderr:b exited");
	CHECK(world.req.is_ended);
	world_end();
}

TEST(without_follow_a_stream_ends_at_what_is_there)
{
	world_begin(MIB);
	put_text(SPOOL_STDOUT, "a");
	read_events(0, false);
	CHECK_STR(events(), "stdout:a");
	CHECK(world.req.is_ended);
	world_end();
}

TEST(a_character_cut_in_two_travels_whole_with_the_later_event)
{
	world_begin(MIB);
	put(SPOOL_STDOUT, "x\xe2", 2);
	put_text(SPOOL_STDERR, "-");
	put(SPOOL_STDOUT, "\x82", 1);
	put(SPOOL_STDOUT, "\xac", 1);
	world.exec.state = EXEC_EXITED;
	read_events(0, true);
	CHECK_STR(events(), "stdout:x stderr:- stdout:\xe2\x82\xac exited");
	world_end();
}

TEST(who_comes_back_gets_the_character_that_was_held)
{
	world_begin(MIB);
	put(SPOOL_STDOUT, "x\xe2", 2);
	put(SPOOL_STDOUT, "\x82", 1);
	put(SPOOL_STDOUT, "\xac!", 2);
	world.exec.state = EXEC_EXITED;
	read_events(2, true);
	CHECK_STR(events(), "stdout:\xe2\x82\xac! exited");
	world_end();
}

TEST(bytes_that_nothing_completes_are_told_in_base64_at_the_end)
{
	world_begin(MIB);
	put(SPOOL_STDOUT, "x\xe2", 2);
	put(SPOOL_STDERR, "\xff", 1);
	world.exec.state = EXEC_EXITED;
	read_events(0, true);
	CHECK_STR(events(), "stdout:x stderr~/w== stdout~4g== exited");
	world_end();
}

TEST(what_the_spool_lost_is_told_as_a_gap)
{
	static char block[1024];

	world_begin(8192);
	memset(block, 'a', sizeof(block));
	for (int i = 0; i < 50; i++)
		put(SPOOL_STDOUT, block, sizeof(block));
	world.exec.state = EXEC_EXITED;
	read_events(0, true);
	CHECK(strncmp(events(), "gap stdout:a", 12) == 0);
	CHECK(strstr(body(), "\"lost_bytes\":"));
	world_end();
}

TEST(who_has_seen_up_to_the_kept_part_is_told_of_no_gap)
{
	static char block[1024];
	uint64_t last;

	world_begin(8192);
	memset(block, 'a', sizeof(block));
	for (int i = 0; i < 50; i++)
		put(SPOOL_STDOUT, block, sizeof(block));
	last = spool_last_seq(world.exec.spool);
	put_text(SPOOL_STDOUT, "new");
	world.exec.state = EXEC_EXITED;
	read_events(last, true);
	CHECK_STR(events(), "stdout:new exited");
	world_end();
}

TEST(a_removed_exec_ends_a_stream_with_an_error_event)
{
	world_begin(MIB);
	put_text(SPOOL_STDOUT, "a");
	read_events(0, true);
	tell(NULL);
	CHECK_STR(events(), "stdout:a error");
	CHECK(strstr(body(), "\"code\":\"gone\"") && strstr(body(), "\"request_id\":\"req_fake\""));
	CHECK(world.req.is_ended);
	world_end();
}

TEST(a_client_that_leaves_kills_only_if_it_asked_for_that)
{
	for (int asks = 0; asks < 2; asks++) {
		world_begin(MIB);
		read_result();
		world.reader->kills_on_disconnect = asks;
		world.req.on_done(world.req.on_done_arg);
		world.req.on_done = NULL;
		CHECK_INT(world.exec.state, asks ? EXEC_EXITED : EXEC_RUNNING);
		world_end();
	}
}

TEST(a_slow_reader_of_events_costs_a_bounded_buffer)
{
	static char block[65536];

	world_begin(16 * MIB);
	memset(block, 0xff, sizeof(block));
	for (int i = 0; i < 60; i++)
		put(SPOOL_STDOUT, block, sizeof(block));
	world.exec.state = EXEC_EXITED;
	world.req.is_taking = false;
	read_events(0, true);
	CHECK(!world.req.is_ended);
	while (!world.req.is_ended) {
		world.req.taken = world.req.body.len;
		world.req.on_drain(world.req.on_drain_arg);
		turn();
	}
	CHECK(world.req.most_pending <= HTTP_HIGH_WATER + base64_size(sizeof(block)) + 1024);
	world_end();
}
