// SPDX-License-Identifier: Apache-2.0
/* What a client gets of a code call, with a fake call and a fake request. */
#include "api/api.h"
#include "api/code/code_reader.h"
#include "base/json/json.h"
#include "base/parse.h"
#include "base/units.h"
#include "test.h"

#include <string.h>

struct http_req {
	struct api *api;
	struct buf body;
	int status;
	bool is_ended;
	enum err_code error;
};

static struct api api;
static struct http_req reqs[2];
static const struct code_ops *ops;
static struct loop *loop;

/* The request, as the readers see it. */
void *http_app_arg(const struct http_req *req)
{
	return req->api;
}

void http_reply_json(struct http_req *req, int status, const struct buf *body)
{
	req->status = status;
	req->is_ended = true;
	CHECK_INT(buf_append(&req->body, body->data, body->len), 0);
}

void http_reply_err(struct http_req *req, const struct err *err)
{
	req->error = err->code;
	req->is_ended = true;
}

void http_stream_start(struct http_req *req, int status, const char *type, int64_t length)
{
	(void)type;
	(void)length;
	req->status = status;
}

int http_stream_write(struct http_req *req, const void *data, size_t len)
{
	return buf_append(&req->body, data, len);
}

size_t http_stream_pending(const struct http_req *req)
{
	(void)req;
	return 0;
}

void http_stream_end(struct http_req *req)
{
	req->is_ended = true;
	loop_stop(loop);
}

void http_stream_abort(struct http_req *req)
{
	CHECK(!req); /* nothing is cut here */
}

struct loop *http_loop(const struct http_req *req)
{
	(void)req;
	return loop;
}

void *http_state(const struct http_req *req)
{
	(void)req;
	return NULL;
}

void http_set_state(struct http_req *req, void *state)
{
	(void)req;
	(void)state;
}

void http_on_drain(struct http_req *req, http_done_fn fn, void *arg)
{
	(void)arg;
	(void)req;
	(void)fn;
}

void http_on_done(struct http_req *req, http_done_fn fn, void *arg)
{
	(void)req;
	(void)fn;
	(void)arg;
}

bool http_is_whole(const struct http_req *req)
{
	(void)req;
	return true;
}

/* The call. */
int code_run(struct sandbox *s, const struct code_spec *spec, const struct code_ops *its, void *arg,
             struct code_call **ret, struct err *err)
{
	(void)s;
	(void)spec;
	(void)arg;
	(void)err;
	*ret = NULL;
	ops = its;
	return 0;
}

void code_abandon(struct code_call *call)
{
	(void)call;
}

const char *code_status_name(enum code_status status)
{
	return status == CODE_OK ? "ok" : "error";
}

void context_to_json(const struct context *c, struct json_writer *w, const char *name)
{
	(void)c;
	json_put_null(w, name);
}

const char *sandbox_project_id(const struct sandbox *s)
{
	(void)s;
	return "prj_1";
}

static void start(size_t held_max)
{
	api = (struct api){.held = {.most = held_max}};
	for (size_t i = 0; i < ARRAY_SIZE(reqs); i++)
		reqs[i] = (struct http_req){.api = &api, .body = BUF_INIT(1 << 20)};
}

static struct code_reader *result_for(struct http_req *req, code_reader_end_fn end, void *arg)
{
	const struct code_spec code = {.code = "1"};
	const struct code_reader_spec spec = {.req = req, .code = &code, .end = end, .arg = arg};
	struct code_reader *r = NULL;

	CHECK_INT(code_result_new(&spec, NULL, &r, NULL), 0);
	return r;
}

static struct code_reader *result(struct http_req *req)
{
	return result_for(req, NULL, NULL);
}

static void print(struct code_reader *r, char letter, size_t len)
{
	auto_free char *text = xcalloc(1, len + 1);

	memset(text, letter, len);
	ops->on_output(STREAM_STDOUT, text, len, r);
}

static void show(struct code_reader *r, size_t len)
{
	auto_free char *text = xcalloc(1, len + 1);
	json_t *value;

	memset(text, 'v', len);
	value = json_pack("{s:{s:s},s:{}}", "data", "text/plain", text, "metadata");
	ops->on_event(CODE_EVENT_RESULT, value, r);
	json_decref(value);
}

/* Ends the call; what its client got. */
static json_t *reply(struct code_reader *r)
{
	const struct code_end end = {.status = CODE_OK, .count = 1};
	json_t *object = NULL;

	ops->on_end(NULL, &end, NULL, r);
	CHECK_INT(r->req->status, 200);
	CHECK_INT(json_parse(r->req->body.data, r->req->body.len, &object, NULL), 0);
	return object;
}

static void finish(struct code_reader *r)
{
	code_reader_free(r);
	buf_done(&reqs[0].body);
	buf_done(&reqs[1].body);
	CHECK_INT(api.held.used, 0);
}

TEST(a_result_holds_output_and_values_until_its_client_has_them)
{
	struct code_reader *r;
	auto_json json_t *got = NULL;

	start(1 << 20);
	r = result(&reqs[0]);
	print(r, 'a', 10);
	show(r, 10);
	CHECK(api.held.used > 20);
	got = reply(r);
	CHECK_STR(json_string_value(json_object_get(got, "stdout")), "aaaaaaaaaa");
	CHECK(json_is_false(json_object_get(got, "stdout_truncated")));
	CHECK_INT(json_array_size(json_object_get(got, "results")), 1);
	CHECK(reqs[0].is_ended && api.held.used > 0);
	finish(r);
}

TEST(results_of_many_calls_are_bounded_together_and_say_what_is_missing)
{
	struct code_reader *first, *second;
	auto_json json_t *a = NULL, *b = NULL;
	const char *text;

	start(100 * KIB);
	first = result(&reqs[0]);
	second = result(&reqs[1]);
	print(first, 'a', 60 * KIB);
	print(second, 'b', 30 * KIB);
	print(second, 'c', 30 * KIB); /* 20 too many */
	CHECK_INT(api.held.used, 100 * KIB);
	show(second, 10);
	print(second, 'd', 50 * KIB); /* more than it has itself */
	CHECK_INT(api.held.used, 100 * KIB);
	b = reply(second);
	text = json_string_value(json_object_get(b, "stdout"));
	CHECK_INT(strlen(text), 40 * KIB);
	CHECK_INT(strspn(text, "d"), 40 * KIB);
	CHECK(json_is_true(json_object_get(b, "stdout_truncated")));
	CHECK(json_is_true(json_object_get(b, "results_truncated")));
	code_reader_free(second);
	CHECK_INT(api.held.used, 60 * KIB);
	print(first, 'e', 10); /* there is room again */
	a = reply(first);
	CHECK_INT(strlen(json_string_value(json_object_get(a, "stdout"))), 60 * KIB + 10);
	CHECK(json_is_false(json_object_get(a, "stdout_truncated")));
	finish(first);
}

static void note_end(struct http_req *req, const struct err *err, void *arg)
{
	CHECK(!req->is_ended);
	*(int *)arg = err ? -1 : 1;
}

TEST(a_result_with_an_owner_leaves_the_end_to_it)
{
	struct err err;
	auto_json json_t *got = NULL;
	struct code_reader *r;
	int ended = 0;

	start(1 << 20);
	r = result_for(&reqs[0], note_end, &ended);
	got = reply(r);
	CHECK_INT(ended, 1);
	code_reader_free(r);
	r = result_for(&reqs[1], note_end, &ended);
	(void)err_set(&err, ERR_GONE, 0, "gone");
	ops->on_end(NULL, NULL, &err, r);
	CHECK_INT(ended, -1);
	CHECK_INT(reqs[1].status, 0);
	finish(r);
}

/* Odd lengths, so that pieces would cut characters and groups of base64. */
TEST(a_large_result_is_written_in_pieces_and_is_the_same)
{
	enum { CHARACTERS = 70001, BYTES = 100001 };
	const struct code_end end = {.status = CODE_OK, .count = 1};
	auto_free char *text = xcalloc(CHARACTERS, 3), *bytes = xcalloc(1, BYTES + 3);
	auto_json json_t *got = NULL;
	struct code_reader *r;
	const char *field;
	struct err err;

	for (size_t i = 0; i < CHARACTERS; i++)
		memcpy(text + i * 3, "\xe6\x97\xa5", 3);
	memset(bytes, 0xff, BYTES);
	start(1 << 20);
	CHECK_INT(loop_new(&loop, &err), 0);
	r = result(&reqs[0]);
	ops->on_output(STREAM_STDOUT, text, (size_t)CHARACTERS * 3, r);
	ops->on_output(STREAM_STDERR, bytes, BYTES, r);
	show(r, BYTES);
	show(r, 10);
	ops->on_end(NULL, &end, NULL, r);
	CHECK_INT(reqs[0].body.len, 0); /* nothing within the call's own turn */
	CHECK_INT(loop_run(loop), 0);
	CHECK(reqs[0].is_ended);
	CHECK_INT(json_parse(reqs[0].body.data, reqs[0].body.len, &got, &err), 0);
	field = json_string_value(json_object_get(got, "stdout"));
	CHECK_MEM(field, strlen(field), text, (size_t)CHARACTERS * 3);
	CHECK(!json_object_get(got, "stdout_base64"));
	CHECK(json_is_false(json_object_get(got, "stdout_truncated")));
	CHECK_INT(json_string_length(json_object_get(got, "stderr")), BYTES * 3);
	field = json_string_value(json_object_get(got, "stderr_base64"));
	CHECK_INT(base64_decode(field, strlen(field), bytes), BYTES);
	CHECK_INT(strspn(bytes, "\xff"), BYTES);
	CHECK(json_is_false(json_object_get(got, "stderr_truncated")));
	CHECK_INT(json_array_size(json_object_get(got, "results")), 2);
	CHECK(json_is_false(json_object_get(got, "results_truncated")));
	CHECK(json_is_null(json_object_get(got, "error")));
	CHECK_STR(json_string_value(json_object_get(got, "status")), "ok");
	finish(r);
	loop_free(loop);
}
