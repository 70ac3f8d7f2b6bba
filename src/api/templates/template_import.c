// SPDX-License-Identifier: Apache-2.0
/*
 * A template from an archive in the request's body, or from an image of a registry. A client that
 * accepts a stream of events gets it once the body is complete: how far it is, then the template or
 * the error. Any other client waits for one answer. If a client leaves before its body is complete,
 * nothing is made.
 */
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/frame/upload.h"
#include "api/handlers.h"
#include "api/templates/templates.h"
#include "base/units.h"
#include "build/image/image_reference.h"
#include "build/registry/pull.h"
#include "build/transfer/import.h"
#include "http/stream.h"

#include <string.h>

#define REF_MAX        256
#define CREDENTIAL_MAX 4096
#define PROGRESS_US    UINT64_C(200000)
#define KEEPALIVE_US   (15 * SECOND_US)

struct arrival {
	struct http_req *req;
	struct upload in; /* into the import */
	enum event_format format;
	bool is_streaming;
	enum import_phase told; /* last, and when */
	uint64_t told_us;
	struct loop_timer *tick;
};

static size_t write_import(void *into, const void *data, size_t len)
{
	return import_write(into, data, len);
}

static void finish_import(void *into)
{
	import_finish(into);
}

static void leave_import(void *into)
{
	import_leave(into);
}

static const struct upload_ops into_import = {write_import, finish_import, leave_import};

static void on_client_done(void *arg)
{
	struct arrival *a = arg;

	upload_done(&a->in);
	loop_timer_free(a->tick);
	free(a);
}

static void on_room(void *arg)
{
	struct arrival *a = arg;

	upload_go_on(&a->in);
}

static void send_event(struct arrival *a, const char *type, struct buf *json)
{
	if (event_stream_send(a->req, a->format, type, 0, json->data, json->len) < 0)
		http_stream_abort(a->req);
}

static void on_tick(struct loop *loop, void *arg)
{
	const struct arrival *a = arg;

	(void)loop;
	if (event_stream_keepalive(a->req, a->format) == 0)
		loop_timer_set_in(a->tick, KEEPALIVE_US);
}

static void on_progress(enum import_phase phase, uint64_t bytes, uint64_t total, void *arg)
{
	struct arrival *a = arg;
	auto_call(buf_done) struct buf json = BUF_INIT(1024);
	uint64_t now = loop_now_us(http_loop(a->req));
	struct json_writer w;

	if (a->format == EVENTS_NONE || phase < IMPORT_FETCHING ||
	    http_stream_pending(a->req) >= HTTP_HIGH_WATER)
		return;
	if (!a->is_streaming) {
		a->is_streaming = true;
		event_stream_start(a->req, a->format);
	} else if (phase == a->told && now < a->told_us + PROGRESS_US) {
		return;
	}
	a->told = phase;
	a->told_us = now;
	loop_timer_set_in(a->tick, KEEPALIVE_US);
	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", "progress");
	json_put_str(&w, "phase", import_phase_name(phase));
	json_put_u64(&w, "bytes", bytes);
	if (total > 0)
		json_put_u64(&w, "total_bytes", total);
	json_close_object(&w);
	if (json_writer_end(&w) == 0)
		send_event(a, "progress", &json);
}

static void send_end(struct arrival *a, const struct template *t, const struct err *err)
{
	auto_call(buf_done) struct buf json = BUF_INIT(REPLY_BYTES_MAX);
	const char *type = t ? "created" : "error";
	struct json_writer w;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", type);
	if (t)
		template_to_json(t, &w, "template");
	else
		json_put_err(&w, "error", err, http_request_id(a->req));
	json_close_object(&w);
	if (json_writer_end(&w) == 0)
		send_event(a, type, &json);
	http_stream_end(a->req);
}

static void on_end(struct template *t, const struct err *err, void *arg)
{
	struct arrival *a = arg;
	struct reply reply;

	a->in.into = NULL;
	if (a->is_streaming) {
		send_end(a, t, err);
	} else if (err) {
		http_reply_err(a->req, err);
	} else {
		template_to_json(t, reply_begin_bare(&reply), NULL);
		reply_send_late(&reply, a->req, 201);
	}
}

static const struct import_ops ops = {
	.on_room = on_room,
	.on_progress = on_progress,
	.check = check_manifest,
	.on_end = on_end,
};

static int read_query(const struct http_req *req, struct import_spec *ret, struct err *err)
{
	int r = check_accept(req, result_types, err);

	*ret = (struct import_spec){.project_id = caller_project(req),
	                            .name = http_param(req, "template"),
	                            .ref = http_query(req, "ref")};
	if (r == 0)
		r = http_query_bool(req, "shared", &ret->is_shared, err);
	if (r == 0)
		r = http_query_bool(req, "replace", &ret->is_replacing, err);
	if (r == 0)
		r = http_query_bool(req, "small", &ret->is_small, err);
	if (r == 0 && ret->ref && strlen(ret->ref) > REF_MAX)
		r = err_field(err, "ref", "is longer than %d bytes", REF_MAX);
	if (r == 0)
		r = template_check_name(ret->name, err);
	return r == 0 && ret->is_shared ? check_shared_template(req, err) : r;
}

static int start(struct http_req *req, const struct import_spec *spec, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct import *import;
	struct arrival *a = xnew0(struct arrival);
	int r;

	*a = (struct arrival){
		.req = req, .in = UPLOAD_INIT(req, &into_import), .format = event_format_of(req)};
	r = import_start(api->builds, spec, &ops, a, &import, err);
	if (r < 0) {
		free(a);
		return r;
	}
	a->in.into = import;
	a->tick = loop_timer_new(http_loop(req), on_tick, a);
	http_on_done(req, on_client_done, a);
	return 0;
}

int import_template(struct http_req *req, struct err *err)
{
	struct import_spec spec;
	int r = read_query(req, &spec, err);

	return r < 0 ? r : start(req, &spec, err);
}

static int read_credentials(const json_t *object, struct pull_wish *ret, struct err *err)
{
	/* clang-format off */
	const struct json_field fields[] = {
		{"username",   JSON_FIELD_STRING, &ret->username, /* required= */ true, .min = 1, .max = CREDENTIAL_MAX},
		{"password",   JSON_FIELD_STRING, &ret->password, /* required= */ true, .min = 1, .max = CREDENTIAL_MAX},
		{"token_host", JSON_FIELD_STRING, &ret->token_host, .min = 1, .max = REF_MAX},
	};
	/* clang-format on */
	int r = object ? json_read(object, "credentials.", fields, ARRAY_SIZE(fields), err) : 0;

	if (r == 0 && ret->username && strchr(ret->username, ':'))
		r = err_field(err, "credentials.username", "must not have a ':'");
	return r;
}

static int read_pull(struct http_req *req, struct pull_wish *wish, struct import_spec *ret,
                     struct err *err)
{
	json_t *credentials = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"ref",         JSON_FIELD_STRING, &wish->ref, /* required= */ true, .min = 1, .max = IMAGE_REF_MAX},
		{"credentials", JSON_FIELD_OBJECT, &credentials},
		{"shared",      JSON_FIELD_BOOL,   &ret->is_shared},
		{"replace",     JSON_FIELD_BOOL,   &ret->is_replacing},
		{"small",       JSON_FIELD_BOOL,   &ret->is_small},
	};
	/* clang-format on */
	const json_t *body = http_json(req);
	int r = check_accept(req, result_types, err);

	*wish = (struct pull_wish){.project_id = caller_project(req), .field = "ref"};
	*ret = (struct import_spec){.project_id = wish->project_id,
	                            .name = http_param(req, "template")};
	if (r == 0 && !body)
		r = err_field(err, "ref", "is missing");
	if (r == 0)
		r = json_read(body, "", fields, ARRAY_SIZE(fields), err);
	if (r == 0)
		r = read_credentials(credentials, wish, err);
	if (r == 0)
		r = template_check_name(ret->name, err);
	return r == 0 && ret->is_shared ? check_shared_template(req, err) : r;
}

int pull_template(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct import_spec spec;
	struct pull_wish wish;
	int r = read_pull(req, &wish, &spec, err);

	if (r == 0)
		r = pull_plan(api->builds, &wish, &spec.pull, err);
	if (r < 0)
		return r;
	r = start(req, &spec, err);
	if (r < 0)
		pull_free(spec.pull);
	return r;
}
