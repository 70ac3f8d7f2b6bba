// SPDX-License-Identifier: Apache-2.0
/*
 * A backup's hold: what is frozen stays for as long as this answer is read. Root on the daemon's
 * machine copies it (`cloche backup`), because nobody else can reach it. The connection is the
 * lease: if either side dies, nothing stays frozen.
 */
#include "sandbox/fleet/backup.h"

#include "api/api.h"
#include "api/frame/find.h"
#include "api/handlers.h"
#include "base/units.h"

#include "http/stream.h"

#define KEEPALIVE_US (5 * SECOND_US)

struct hold {
	struct http_req *req;
	struct fleet *fleet;
	enum event_format format;
	bool is_ours; /* the backup: it has begun, and has not failed */
	struct loop_timer *tick;
};

static int send_frozen(const struct hold *h, const struct backup_info *info)
{
	const struct api *api = http_app_arg(h->req);
	auto_call(buf_done) struct buf json = BUF_INIT(16 * 1024);
	struct json_writer w;
	int r;

	json_writer_init(&w, &json);
	json_open_object(&w, NULL);
	json_put_str(&w, "type", "frozen");
	json_open_object(&w, "backup");
	json_put_str(&w, "id", info->id);
	json_put_str(&w, "version", CLOCHE_VERSION);
	json_put_str(&w, "data_dir", api->data_dir);
	json_put_str(&w, "database", info->database);
	json_put_u64(&w, "database_bytes", info->database_bytes);
	json_put_u64(&w, "at_us", info->at_us);
	json_put_u64(&w, "layers", info->counts.layers);
	json_put_u64(&w, "templates", info->counts.images);
	json_put_u64(&w, "sandboxes_left_out", info->left_out);
	json_close_object(&w);
	json_close_object(&w);
	r = json_writer_end(&w);
	return r < 0 ? r : event_stream_send(h->req, h->format, "frozen", 0, json.data, json.len);
}

static void on_tick(struct loop *loop, void *arg)
{
	struct hold *h = arg;

	(void)loop;
	if (event_stream_keepalive(h->req, h->format) < 0)
		http_stream_abort(h->req);
	else
		loop_timer_set_in(h->tick, KEEPALIVE_US);
}

static void on_ready(const struct backup_info *info, const struct err *err, void *arg)
{
	struct hold *h = arg;

	if (err) {
		h->is_ours = false;
		http_reply_err(h->req, err);
		return;
	}
	event_stream_start(h->req, h->format);
	if (send_frozen(h, info) < 0)
		http_stream_abort(h->req);
	else
		loop_timer_set_in(h->tick, KEEPALIVE_US);
}

static void on_done(void *arg)
{
	struct hold *h = arg;

	if (h->is_ours)
		backup_end(h->fleet);
	loop_timer_free(h->tick);
	free(h);
}

int create_backup(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct hold *h;
	int r = check_accept(req, event_types, err);

	if (r == 0)
		r = check_is_default(req, err);
	if (r < 0)
		return r;
	h = xnew0(struct hold);
	*h = (struct hold){.req = req,
	                   .fleet = api->fleet,
	                   .format =
	                           event_format_of(req) == EVENTS_SSE ? EVENTS_SSE : EVENTS_NDJSON,
	                   .is_ours = true};
	r = backup_begin(api->fleet, on_ready, h, err);
	if (r < 0) {
		free(h);
		return r;
	}
	h->tick = loop_timer_new(http_loop(req), on_tick, h);
	http_on_done(req, on_done, h);
	return 0;
}
