// SPDX-License-Identifier: Apache-2.0
#include "api/frame/event_scan.h"

#include "sandbox/model/sandbox.h"

#include <stdio.h>

struct event_scan {
	struct http_req *req;
	struct event_log *events;
	struct loop_job *job;
	struct event_filter filter;
	char project_id[ID_SIZE], sandbox_id[ID_SIZE]; /* what the filter points to */
	uint64_t after;
	bool is_enough;
	const struct event_scan_ops *ops;
	void *arg;
};

static void scan_free(struct event_scan *sc)
{
	loop_job_free(sc->job);
	free(sc);
}

static void on_client_gone(void *arg)
{
	struct event_scan *sc = arg;

	sc->ops->free(sc->arg);
	scan_free(sc);
}

static int on_line(const struct event_line *line, void *arg)
{
	struct event_scan *sc = arg;
	int r = sc->ops->line(line, sc->arg);

	sc->is_enough = r > 0;
	return r;
}

static void fail(struct event_scan *sc, const struct err *err)
{
	struct http_req *req = sc->req;

	http_on_done(req, NULL, NULL);
	on_client_gone(sc);
	http_reply_err(req, err);
}

static void finish(struct event_scan *sc)
{
	const struct event_scan copy = *sc;

	http_on_done(copy.req, NULL, NULL);
	scan_free(sc);
	copy.ops->end(copy.req, copy.after, copy.arg);
}

static bool scan_some(struct loop *loop, void *arg)
{
	struct event_scan *sc = arg;
	struct err err;
	int r = event_log_read(sc->events, &sc->filter, &sc->after, on_line, sc, &err);

	(void)loop;
	if (r < 0)
		fail(sc, &err);
	else if (r == 0 || sc->is_enough)
		finish(sc);
	else
		return false;
	return true;
}

void event_scan_start(struct http_req *req, struct event_log *events, const struct sandbox *s,
                      uint64_t types, uint64_t after, const struct event_scan_ops *ops, void *arg)
{
	struct event_scan *sc = xnew0(struct event_scan);

	*sc = (struct event_scan){
		.req = req, .events = events, .after = after, .ops = ops, .arg = arg};
	(void)snprintf(sc->sandbox_id, sizeof(sc->sandbox_id), "%s", sandbox_id(s));
	(void)snprintf(sc->project_id, sizeof(sc->project_id), "%s", sandbox_project_id(s));
	sc->filter = (struct event_filter){
		.project_id = sc->project_id, .sandbox_id = sc->sandbox_id, .types = types};
	sc->job = loop_job_new(http_loop(req), scan_some, sc);
	http_on_done(req, on_client_gone, sc);
	loop_job_start(sc->job);
}
