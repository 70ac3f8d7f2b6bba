// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics: one sample, taken when it is asked for. There is no history of single sandboxes; what
 * they used over time is in /v1/usage.
 */
#include "compat/e2b/shape.h"

#include "api/reply.h"
#include "base/clock.h"

#define SLACK_US 1000000 /* ranges are told in whole seconds */

struct sampling {
	struct http_req *req; /* NULL: the client is gone */
	uint64_t from_us, to_us;
};

static void on_client_done(struct http_req *req, bool whole, void *arg)
{
	(void)req;
	(void)whole;
	((struct sampling *)arg)->req = NULL;
}

static void put_sample(struct json_writer *w, const struct sandbox *s,
                       const struct sandbox_figures *f)
{
	struct sandbox_facts facts;
	uint64_t age_us;

	sandbox_facts(s, &facts);
	age_us = f->at_us > facts.created_us ? f->at_us - facts.created_us : 1;
	json_open_object(w, NULL);
	e2b_put_time(w, "timestamp", f->at_us);
	json_put_u64(w, "timestampUnix", f->at_us / 1000000);
	json_put_u64(w, "cpuCount", (facts.limits.cpu_milli + 999) / 1000);
	json_put_double(w, "cpuUsedPct", (double)f->now.cpu_ns / 10 / (double)age_us);
	json_put_u64(w, "memUsed", f->now.memory_bytes);
	json_put_u64(w, "memTotal", facts.limits.memory_bytes);
	json_put_u64(w, "memCache", 0);
	json_put_u64(w, "diskUsed", f->now.disk_bytes);
	json_put_u64(w, "diskTotal", facts.limits.disk_bytes);
	json_close_object(w);
}

static void on_figures(struct sandbox *s, const struct sandbox_figures *f, const struct err *err,
                       void *arg)
{
	const struct sampling sampling = *(struct sampling *)arg;
	struct json_writer *w;
	struct reply reply;

	free(arg);
	if (!sampling.req)
		return;
	http_on_done(sampling.req, NULL, NULL);
	if (err) {
		http_reply_err(sampling.req, err);
		return;
	}
	w = reply_begin_bare(&reply);
	json_open_array(w, NULL);
	if (s && f->is_live && f->at_us >= sampling.from_us &&
	    f->at_us <= sampling.to_us + SLACK_US)
		put_sample(w, s, f);
	json_close_array(w);
	reply_send_late(&reply, sampling.req, 200);
}

int e2b_get_metrics(struct http_req *req, struct err *err)
{
	uint64_t start = 0, end = UINT32_MAX;
	struct sampling *sampling;
	struct sandbox *s;
	int r = http_query_u64(req, "start", 0, UINT32_MAX, &start, err);

	if (r == 0)
		r = http_query_u64(req, "end", 0, UINT32_MAX, &end, err);
	if (r == 0)
		r = e2b_find(req, &s, err);
	if (r < 0)
		return r;
	sampling = xnew0(struct sampling);
	*sampling =
		(struct sampling){.req = req, .from_us = start * 1000000, .to_us = end * 1000000};
	http_on_done(req, on_client_done, sampling);
	r = sandbox_usage(s, on_figures, sampling, err);
	if (r < 0) {
		http_on_done(req, NULL, NULL);
		free(sampling);
	}
	return r;
}
